"""Networks with their subnets, pools and NICs, and the subnet pools that their CIDRs come from."""

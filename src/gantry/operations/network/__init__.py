"""Units for networks with their subnets, pools and NICs, and for the subnet pools that provide CIDRs."""

"""The network devices of a node: taps, VLANs, bridges of segments."""

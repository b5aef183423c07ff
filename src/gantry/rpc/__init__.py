"""From the master to the nodes: one typed declaration per call, and the clients of both protocols."""

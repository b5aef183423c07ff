"""The copies of the state on the master candidates, which acknowledge its changes, and the lease that they grant."""

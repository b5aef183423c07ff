"""Units that bring instances to another node: migration, failover, move, and many moves at once."""

"""Instances that go to another node: migration, failover, move, and many at once."""

"""Nodes: added, removed, evacuated; their flags, storage and part among the master candidates."""

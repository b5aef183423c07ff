"""Units that add, remove, change and evacuate nodes; their storage, and the pool of master candidates."""

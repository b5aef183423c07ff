"""A node's part in its cluster: joining it, the master it obeys, its copy of the state, ssconf files."""

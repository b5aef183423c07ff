"""The node's part of Gantry: the daemon that answers the master's calls, and the drivers, one per file."""

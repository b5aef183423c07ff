"""OS definitions: the nodes that have them, and checks before an OS is installed."""

"""Units for ports of networks and their addresses."""

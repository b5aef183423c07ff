"""Units for node groups, and for instances that change their node group."""

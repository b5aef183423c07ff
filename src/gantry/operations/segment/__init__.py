"""Units for segment ranges, and the choice of a network's segment."""

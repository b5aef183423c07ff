"""The benchmarks: commands, not tests, because a figure of a busy machine proves nothing. ``make bench`` runs them."""

"""The project's own checks and counters; nothing of the product imports them."""

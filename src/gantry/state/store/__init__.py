"""The store: the one place where the state changes, and what it does meanwhile: checkpoints, pruning, events."""

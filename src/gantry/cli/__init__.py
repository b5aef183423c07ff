"""The commands: standard library only, so that they start quickly; they reach the master by its socket alone."""

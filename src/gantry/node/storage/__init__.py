"""The disk types: a driver for each, and the programs that they run."""

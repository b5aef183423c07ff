"""The disk types: a driver for each, and the system programs that the drivers run."""

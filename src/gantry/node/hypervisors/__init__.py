"""The hypervisors: a module or a package for each."""

"""The hypervisors: a module or a folder for each."""

"""Whole clusters on the simulated runtime, with faults, from one seed."""

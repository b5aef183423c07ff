"""Gantry: clusters of virtual machines, and the addresses and segments that they are reached by."""

__version__ = "0.2.0"

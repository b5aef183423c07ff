"""Allocation of integers, each to a single owner: sets of used numbers, ranges, pools and segment ranges. Pure."""

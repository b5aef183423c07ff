"""Integers that are given out once: the set of used numbers, ranges, pools and segment ranges; pure."""

"""Segment ranges, and which segment a network gets."""

"""Choosing nodes for instances: the built-in allocator and allocator programs."""

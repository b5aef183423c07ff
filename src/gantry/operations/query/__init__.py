"""The read side of all front ends: fields, filters and live data of nodes, over an immutable snapshot, without locks.

``engine`` answers a query, ``filters`` turns its filter into a predicate, ``cells`` defines the values of cells, and
each resource has a module of getters.
"""

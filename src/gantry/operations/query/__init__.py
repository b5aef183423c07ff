"""The read side of all doors: fields, filters and what nodes say, over one immutable snapshot, without a lock.

``engine`` answers a query, ``filters`` turns its filter into a predicate, ``cells`` says what a value may be, and
there is a module of getters for each resource.
"""

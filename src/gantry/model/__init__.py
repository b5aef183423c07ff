"""The cluster's data model: immutable objects, their parameters, the opcodes, and the query fields."""

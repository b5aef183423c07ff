"""What clients may want of a cluster, drawn from what they know of it: a module for each kind of object.

``draw`` of each module returns a wish, or None when it has none just now. Most of them make sense by what the clients
know; some are about what does not exist, is full, in use or badly written, and shall be refused.
"""

"""Random jobs that clients may submit, by what they know of the cluster: a module for each kind of object.

``draw`` of each module returns a wish, or None if none is possible at the moment. Most wishes can succeed by what the
clients know; some name objects that do not exist, are full or in use, or invalid values, and must be refused.
"""

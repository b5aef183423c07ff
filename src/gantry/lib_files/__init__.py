"""The formats of the files below ``lib/`` that two programs read: a pure module for each, bytes in, values out.

A node daemon, which knows nothing of the cluster's state, and a master daemon on the same machine read and write the
same files. Where a file lies, when it is written and what its loss means are the business of those who use it.
"""

"""The cluster at one moment: its objects, their indexes, and what must hold over all of them. Pure."""

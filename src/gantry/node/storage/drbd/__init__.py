"""The disk type ``drbd``: a disk on two nodes, with DRBD 8.4 and without its configuration files.

``driver`` is the disk type; ``setup`` runs DRBD's programs, ``status`` parses the kernel's status and their output.
"""

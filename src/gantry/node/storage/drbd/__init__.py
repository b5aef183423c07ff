"""The disk type ``drbd``: a disk on two nodes, by DRBD 8.4 without its configuration files.

``driver`` is the disk type; ``setup`` runs DRBD's programs, ``status`` reads what the kernel and they tell.
"""

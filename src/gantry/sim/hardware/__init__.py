"""The storage of simulated machines, below the node's own drivers: LVM, DRBD and the programs that copy data.

``volumes`` has a machine's volume group and the commands of LVM, ``mirrors`` the DRBD of all kernels, ``copying`` the
programs that read and write disks. A disk's data is a short text: what the simulation wrote there last.
"""

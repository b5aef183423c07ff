"""The SQL driver behind Neutron's pluggable IPAM interface; ``[DEFAULT] ipam_driver = gantry`` loads this package.

A neutron-server finds ``driver.Pool`` by the entry point ``gantry`` of the group ``neutron.ipam_drivers``; nothing else
imports this package, and only this package imports Neutron and its libraries, which Gantry does not install.
``settings`` determines the database of the tables, ``ledger`` writes into the tables, ``following`` synchronizes them
with Neutron's transactions, ``consistency`` and the command ``program`` compare them with Neutron's ports.
"""

"""The SQL driver under Neutron's pluggable IPAM interface: what ``[DEFAULT] ipam_driver = gantry`` loads.

A neutron-server finds ``driver.Pool`` by the entry point ``gantry`` of the group ``neutron.ipam_drivers``; nobody else
imports this folder, and only here are Neutron and its libraries imported, which Gantry does not install. ``settings``
says where the tables live, ``ledger`` writes into them, ``following`` keeps them in step with Neutron's transactions,
``consistency`` and the command ``program`` compare them with Neutron's ports.
"""

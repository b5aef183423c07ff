"""The reference IPAM driver over SQL, on SQLite and PostgreSQL.

It also runs inside programs that are not ours, so it is synchronous, needs no ``Runtime`` and opens its connections
itself: the master calls it in threads. Imported by name::

    requests        what a subnet is asked for: any address, the next one, a specific one, an automatic one
    driver          subnets and allocations: what callers use
    allocation      how one address is chosen and entered
    checks          comparison with another list, and repair
    sharing         the part of a master in a database that others use too
    availability    the ranges of free addresses: taken by compare-and-set, given back, calculated anew
    records         what is stored, and how addresses are written
    engines         where statements run: own connections, or the caller's transaction
    statements      the SQL, by name, from statements.sql
    schema          tables, made and changed by the steps in migrations/
    faults          errors of databases, as ours
    program         the command gantry-ipam

See contracts/neutron-ipam-driver.md and explanation/sql-ipam.md.
"""

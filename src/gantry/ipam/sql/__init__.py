"""The reference IPAM driver over SQL, on SQLite and PostgreSQL.

The driver also runs inside other projects' programs, so it is synchronous, needs no ``Runtime`` and opens its own
connections; the master calls it in threads. Import its modules by name::

    requests        what to allocate in a subnet: any address, the next, a specific or an automatic address
    driver          subnets and allocations: the interface for callers
    allocation      chooses and allocates one address
    checks          compares the allocations with another list, and repairs
    sharing         a master's functions on a database that others use too
    fence           refuses the changes of a former master there
    availability    the ranges of free addresses: taken by compare-and-set, returned, recalculated
    records         the stored objects, and the text form of addresses
    engines         where statements run: in own connections, or in the caller's transaction
    statements      the SQL, by name, from statements.sql
    schema          tables, created and changed by the steps in migrations/
    faults          translates errors of databases to Gantry's errors
    program         the command gantry-ipam

See contracts/neutron-ipam-driver.md and explanation/sql-ipam.md.
"""

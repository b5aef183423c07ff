"""Who is the master, and why nodes obey it: votes, epochs and their proofs, keys, and what a new master has to do.

``role`` is the way of a machine to the role: ``poll`` asks the nodes, ``vote`` decides from their answers, ``grants``
collects what makes an epoch one master's alone, ``newer_records`` fetches what this machine lacks. ``bootstrap`` makes
the first master of a cluster, ``retrieval`` and ``repair`` one after a loss. While a machine has the role,
``witnesses``, ``introduction`` and ``distribution`` tell the nodes what they must know.

See explanation/state.md#epochs.
"""

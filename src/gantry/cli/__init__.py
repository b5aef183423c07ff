"""The ``gnt-*`` commands. They use the standard library only, for a quick start, and the master's socket only."""

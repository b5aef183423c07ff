"""The node daemon: its server, the table of calls, and their handlers."""

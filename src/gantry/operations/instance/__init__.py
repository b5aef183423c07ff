"""Instances: created, started, stopped, changed, renamed, reinstalled."""

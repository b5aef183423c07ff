"""Ports of networks and their addresses."""

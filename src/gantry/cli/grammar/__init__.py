"""Parsers of option values: they turn text into the structures of opcodes, and do not check the meaning."""

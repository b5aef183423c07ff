"""Formatters of the commands' output: tables, documents, pool maps, files for other programs."""

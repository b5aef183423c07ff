"""The daemons and their command lines: the top layer, which reads settings and assembles the packages."""

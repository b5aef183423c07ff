"""The programs that stay: the only floor that knows everybody, reads settings and wires the rooms together."""

"""The ssconf files: ``ssconf/ssconf_<key>``, a value or a value per line. Pure.

See contracts/configuration.md#ssconf.
"""

MASTERS = "master_candidates_certs"
"""The key of the file with the keys of the master candidates: a line UUID=digest for each."""

NODE_KEYS = "node_certs"
"""The key of the file with the keys of all nodes, in the same form."""


def path(folder: str, key: str) -> str:
    """Return the path of a key's file.

    >>> path("/var/lib/gantry/ssconf", MASTERS)
    '/var/lib/gantry/ssconf/ssconf_master_candidates_certs'
    """
    return f"{folder}/ssconf_{key}"

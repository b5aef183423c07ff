"""TLS for streams between nodes: the listener has the node's certificate, the sender trusts the cluster's authority,
and of its certificates those for the keys of nodes, which are in ``ssconf_node_certs``.

``backup`` and ``xen.migration`` use it. The listener authenticates the sender by its token (``runtime.streams``).
"""

import ssl

from gantry import security
from gantry.lib_files import ssconf as ssconf_file
from gantry.rpc import calls
from gantry.runtime import interface, paths


class Contexts:
    """The TLS contexts of a node; ``secure`` as in ``membership.enrollment.Enrolment``."""

    def __init__(self, disk: interface.Disk, folders: paths.Paths, *, secure: bool = True) -> None:
        self._disk = disk
        self._certificates = folders.certificates
        self._node_keys = ssconf_file.path(folders.ssconf, ssconf_file.NODE_KEYS)
        self._secure = secure

    def server(self) -> ssl.SSLContext | None:
        """Return the listener's context; None without TLS."""
        own = f"{self._certificates}/node.pem", f"{self._certificates}/node.key"
        return security.stream_server_context(*own) if self._secure else None

    def client(self) -> ssl.SSLContext | None:
        """Return the sender's context; None without TLS."""
        if not self._secure:
            return None
        return security.member_context(self._disk.read(f"{self._certificates}/authority.pem"), keys=self._keys)

    def _keys(self, _: str) -> frozenset[str] | None:
        """Return the keys of all nodes; None if the cluster has not recorded them."""
        if not self._disk.exists(self._node_keys):
            return None
        return frozenset(calls.nodes_by_key(self._disk.read(self._node_keys).decode())) or None

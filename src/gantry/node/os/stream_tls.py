"""The TLS of streams between nodes: who listens shows the node's certificate, who sends trusts the cluster's authority.

``backup`` and ``xen.migration`` use it; that the sender is the right one is seen by its token (``runtime.streams``).
"""

import ssl

from gantry import security
from gantry.runtime import interface, paths


class Channels:
    """The channels of one node; ``secure`` as in ``membership.enrollment.Enrolment``."""

    def __init__(self, disk: interface.Disk, folders: paths.Paths, *, secure: bool = True) -> None:
        self._disk = disk
        self._certificates = folders.certificates
        self._secure = secure

    def here(self) -> ssl.SSLContext | None:
        """Return the side that listens; None where there is no TLS."""
        own = f"{self._certificates}/node.pem", f"{self._certificates}/node.key"
        return security.stream_server_context(*own) if self._secure else None

    def there(self) -> ssl.SSLContext | None:
        """Return the side that sends; None where there is no TLS."""
        if not self._secure:
            return None
        return security.stream_client_context(self._disk.read(f"{self._certificates}/authority.pem"))

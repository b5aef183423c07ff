"""The certificate and key of a server, in two files or one, which are loaded again when they change.

A renewed certificate is presented within ``CHECK_SECONDS``, and no connection is lost.
"""

import logging
import ssl
from collections.abc import Callable

from gantry import security
from gantry.runtime import interface

log = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
"""Seconds between two checks for a new certificate."""

Paths = Callable[[], tuple[str, str]]
"""Returns the paths of certificate and key; they may be different when the files have been replaced."""


class CertificateFiles:
    """A TLS context of a server with the certificate in files; raises OSError if they cannot be used."""

    def __init__(self, runtime: interface.Runtime, paths: Paths) -> None:
        self._runtime = runtime
        self._paths = paths
        self._loaded = self._read()
        self.context: ssl.SSLContext = security.bootstrap_server_context(*paths())

    def _read(self) -> tuple[bytes, ...]:
        return tuple(self._runtime.disk.read(path) for path in self._paths())

    async def follow(self) -> None:
        """Load changed files for new connections, until cancelled; files that cannot be used are left out."""
        while True:
            await self._runtime.clock.sleep(CHECK_SECONDS)
            try:
                content = self._read()
                if content != self._loaded:
                    security.renew_server_context(self.context, *self._paths())
                    self._loaded = content
                    log.info("loaded a new certificate from %s", self._paths()[0])
            except OSError as error:
                log.warning("the new certificate in %s cannot be used: %s", self._paths()[0], error)

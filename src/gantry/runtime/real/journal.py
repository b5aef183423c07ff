"""The journal of systemd as a target of logging: a message is a datagram of fields (systemd.journal-fields(7)).

    MESSAGE, PRIORITY, SYSLOG_IDENTIFIER, GANTRY_LOGGER; GANTRY_JOB, GANTRY_INSTANCE and GANTRY_NODE from a message's
    ``extra`` {"job": ..., "instance": ..., "node": ...}; GANTRY_REQUEST, the id of the request that the task works for

``daemons.logs`` uses it for a daemon that is a service. The journal adds unit, process and time by itself.
"""

import logging
import os
import socket
import struct

from gantry.runtime import request_ids

SOCKET = "/run/systemd/journal/socket"
CONTEXT = ("job", "instance", "node")
"""Attributes of a log record that become fields."""
MAX_MESSAGE_BYTES = 64 << 10
"""A longer message is cut: it would not fit into a datagram."""

_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG = 7


def is_available() -> bool:
    """Return whether the machine has a journal."""
    return os.path.exists(SOCKET)


class Handler(logging.Handler):
    """Sends log records to the journal; one that cannot be sent goes to standard error."""

    def __init__(self, identifier: str, path: str = SOCKET) -> None:
        super().__init__()
        self._identifier = identifier
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record."""
        try:
            self._socket.sendto(self.datagram(record), self._path)
        except (OSError, ValueError, TypeError):
            self.handleError(record)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        super().close()

    def datagram(self, record: logging.LogRecord) -> bytes:
        """Return the fields of a record in the journal's own protocol."""
        priority = next((number for level, number in _PRIORITIES if record.levelno >= level), _DEBUG)
        fields = {
            "MESSAGE": self.format(record),
            "PRIORITY": str(priority),
            "SYSLOG_IDENTIFIER": self._identifier,
            "GANTRY_LOGGER": record.name,
        }
        context = {f"GANTRY_{name.upper()}": record.__dict__.get(name) for name in CONTEXT}
        fields |= {name: str(value) for name, value in context.items() if value is not None}
        if request := request_ids.CURRENT.get():
            fields["GANTRY_REQUEST"] = request
        return b"".join(_field(name, text) for name, text in fields.items())


def _field(name: str, text: str) -> bytes:
    """Return a field with its length, so that its text may have several lines."""
    data = text.encode(errors="replace")[:MAX_MESSAGE_BYTES]
    return b"%b\n%b%b\n" % (name.encode(), struct.pack("<Q", len(data)), data)

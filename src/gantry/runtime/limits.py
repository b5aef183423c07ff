"""Limits of listening servers: how much of a daemon a client may use before it is refused.

A *stranger* is a client that has not proven who it is: by a client certificate, a password or a token. A stranger may
keep little, and must make room when the server is full; a client that is known may not be displaced while it works.
A *peer* is the network address of a client; for IPv6 it is the /64 network, which one client may have whole.

Each daemon states its own numbers (docs/reference/limits.md); times are in seconds, sizes in bytes.
"""

import dataclasses
import ipaddress
from dataclasses import dataclass

RETRY_SECONDS = 1
"""Seconds after which a refused client may try again (the header Retry-After)."""

STRANGER_BODY_BYTES = 16 << 10
"""The longest body of a stranger, such as the request for a token of the Neutron API."""

HEADER_BYTES = 64 << 10
"""The longest headers of a request, all together."""


@dataclass(frozen=True)
class HttpLimits:
    """Limits of an HTTP server; a connection counts from the moment when its TLS or its first request begins.

    ``connections`` are all, ``strangers`` those of clients that are not known, ``per_peer`` those of one peer.
    ``requests`` are in work at a time, ``requests_per_peer`` those of one peer. ``body_bytes`` is the total of the
    request bodies in memory. ``handshake_seconds``, ``header_seconds`` and ``body_seconds`` are the times for TLS, for
    the headers and for the body of a request; ``idle_seconds`` for the next request on a connection;
    ``stall_seconds`` for a client to continue with the reading of an answer.
    """

    connections: int = 500
    strangers: int = 200
    per_peer: int = 250
    requests: int = 200
    requests_per_peer: int = 150
    body_bytes: int = 64 << 20
    handshake_seconds: float = 10.0
    header_seconds: float = 10.0
    body_seconds: float = 60.0
    idle_seconds: float = 120.0
    stall_seconds: float = 60.0

    def within(self, descriptors: int) -> "HttpLimits":
        """Return these limits, with fewer connections where the process may open few file descriptors.

        A daemon may have two servers, and needs descriptors for its own files and connections.

        >>> HttpLimits(connections=500).within(120).connections
        40
        """
        most = max(1, descriptors // 3)
        return dataclasses.replace(
            self,
            connections=min(self.connections, most),
            strangers=min(self.strangers, max(1, most * 3 // 4)),
            per_peer=min(self.per_peer, most),
        )


ARRIVALS = 4096
"""Connections of an HTTP server that have not begun: their first message is not complete, or waits for its turn."""


def arrivals_within(descriptors: int) -> int:
    """Return ``ARRIVALS``, or fewer where the process may open few file descriptors.

    >>> arrivals_within(65536), arrivals_within(1024)
    (4096, 128)
    """
    return max(1, min(ARRIVALS, descriptors // 8))


@dataclass(frozen=True)
class UnixLimits:
    """Limits of a server on a UNIX socket; the user of a connection is the one that opened it.

    ``connections`` are all, ``per_user`` those of one user other than root. ``refused`` are those above these limits,
    which are accepted for the answer that refuses their first message. ``message_seconds`` is the time to complete
    a message that has begun, ``message_bytes`` the total of the messages in memory that are not answered yet.
    """

    connections: int = 4000
    per_user: int = 250
    refused: int = 500
    message_bytes: int = 64 << 20
    message_seconds: float = 60.0

    def within(self, descriptors: int) -> "UnixLimits":
        """Return these limits, with fewer connections where the process may open few file descriptors.

        A daemon needs descriptors for its own files and connections too.

        >>> allowed = UnixLimits(connections=4000).within(1024)
        >>> allowed.connections, allowed.refused
        (512, 128)
        """
        return dataclasses.replace(
            self,
            connections=max(1, min(self.connections, descriptors // 2)),
            refused=max(1, min(self.refused, descriptors // 8)),
        )


@dataclass(frozen=True)
class Admission:
    """The decision about a request by its headers: the longest body it may have, and whether its client is known."""

    body_bytes: int
    known: bool = False


def plain(address: str) -> str:
    """Return an IP address without its zone, and one of IPv4 in the form of IPv4; raises ValueError for other texts.

    >>> plain("fe80::1%br0"), plain("::ffff:192.0.2.1")
    ('fe80::1', '192.0.2.1')
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def peer_of(address: str) -> str:
    """Return the peer to which an address belongs; other texts are returned as they are.

    >>> peer_of("2001:db8::1:2"), peer_of("::ffff:192.0.2.1"), peer_of("192.0.2.1")
    ('2001:db8::/64', '192.0.2.1', '192.0.2.1')
    """
    if ":" not in address:
        return address
    try:
        peer = plain(address)
    except ValueError:
        return address
    if ":" not in peer:
        return peer
    return str(ipaddress.IPv6Network((int(ipaddress.IPv6Address(peer)) >> 64 << 64, 64)))

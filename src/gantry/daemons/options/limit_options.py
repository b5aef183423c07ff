"""Options of the daemons for the limits of their servers (``runtime.limits``), with the defaults of each daemon.

The reference page of limits and the pages of the programs have them all; a test compares the page with this table.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gantry.runtime import limits

MAX_NUMBER = 100_000
MAX_BYTES = 1 << 40
MAX_SECONDS = 86_400.0


class Option(NamedTuple):
    """An option: its name, its kind and what its help says."""

    flag: str
    kind: Callable[[str], float]
    metavar: str
    text: str


def _whole_number(text: str, most: int) -> int:
    if not text.isdecimal() or not 0 < int(text[:20]) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most}")
    return int(text)


def count(text: str) -> int:
    """Return a number of things of the command line."""
    return _whole_number(text, MAX_NUMBER)


def size(text: str) -> int:
    """Return a number of bytes of the command line."""
    return _whole_number(text, MAX_BYTES)


def seconds(text: str) -> float:
    """Return a time of the command line."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and up to {MAX_SECONDS:.0f}")
    return value


HTTP: Mapping[str, Option] = {
    "connections": Option("--max-connections", count, "N", "serve N connections at a time"),
    "strangers": Option(
        "--max-strangers", count, "N", "keep N connections of clients that have not proven who they are"
    ),
    "per_peer": Option("--max-connections-per-address", count, "N", "serve N connections of one address at a time"),
    "requests": Option("--max-requests", count, "N", "work on N requests at a time"),
    "requests_per_peer": Option(
        "--max-requests-per-address", count, "N", "work on N requests of one address at a time"
    ),
    "body_bytes": Option("--max-body-bytes", size, "BYTES", "keep BYTES of the bodies of all requests in memory"),
    "handshake_seconds": Option("--handshake-timeout", seconds, "SECONDS", "wait SECONDS for the TLS handshake"),
    "header_seconds": Option("--header-timeout", seconds, "SECONDS", "wait SECONDS for the headers of a request"),
    "body_seconds": Option("--body-timeout", seconds, "SECONDS", "wait SECONDS for the body of a request"),
    "idle_seconds": Option("--idle-timeout", seconds, "SECONDS", "wait SECONDS for the next request on a connection"),
    "stall_seconds": Option(
        "--stall-timeout", seconds, "SECONDS", "wait SECONDS for a client to read more of an answer"
    ),
}
"""The options of an HTTP server, by the field of ``limits.HttpLimits``."""

UNIX: Mapping[str, Option] = {
    "connections": Option("--max-connections", count, "N", "accept N connections at a time on the LUXI socket"),
    "per_user": Option(
        "--max-connections-per-user", count, "N", "accept N connections of a user other than root at a time"
    ),
    "message_bytes": Option("--max-message-bytes", size, "BYTES", "keep BYTES of all unanswered messages in memory"),
    "message_seconds": Option(
        "--message-timeout", seconds, "SECONDS", "wait SECONDS for a message that has begun, and for the first one"
    ),
}
"""The options of a server on a UNIX socket, by the field of ``limits.UnixLimits``."""


def stated(value: float) -> str:
    """Return a limit as help and pages state it.

    >>> stated(10.0), stated(67108864)
    ('10', '67108864')
    """
    return f"{value:.15g}"


def _add(parser: argparse.ArgumentParser, options: Mapping[str, Option], defaults: object) -> None:
    for field, option in options.items():
        default = getattr(defaults, field)
        parser.add_argument(
            option.flag,
            type=option.kind,
            default=default,
            metavar=option.metavar,
            dest=f"limit_{field}",
            help=f"{option.text} (default: {stated(default)})",
        )


def add_http(parser: argparse.ArgumentParser, defaults: limits.HttpLimits) -> None:
    """Add the options of an HTTP server."""
    _add(parser, HTTP, defaults)


def add_unix(parser: argparse.ArgumentParser, defaults: limits.UnixLimits) -> None:
    """Add the options of a server on a UNIX socket."""
    _add(parser, UNIX, defaults)


def http_limits(options: argparse.Namespace) -> limits.HttpLimits:
    """Return the limits of an HTTP server from its options."""
    return limits.HttpLimits(**{field: getattr(options, f"limit_{field}") for field in HTTP})


def unix_limits(options: argparse.Namespace) -> limits.UnixLimits:
    """Return the limits of a server on a UNIX socket from its options."""
    return limits.UnixLimits(**{field: getattr(options, f"limit_{field}") for field in UNIX})

"""The port for probes and figures of a daemon that speaks no HTTP to users: its options, and its server."""

import argparse
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from gantry.daemons import program
from gantry.doors.http import exposition, probes
from gantry.runtime import interface, limits, measures

BIND = "127.0.0.1"
BODY_LIMIT = 1 << 10
LIMITS = limits.HttpLimits(
    connections=50, strangers=50, per_peer=50, requests=10, requests_per_peer=10, body_bytes=BODY_LIMIT * 10
)
"""A monitoring system and an init system ask a few times a minute."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options to those of a daemon."""
    parser.add_argument(
        "--health-port",
        type=program.port,
        default=0,
        metavar="PORT",
        help="serve /healthz, /readyz and /metrics on this TCP port, without a password, 0: none (default: 0)",
    )
    parser.add_argument(
        "--health-bind", default=BIND, metavar="ADDRESS", help="address of the health port (default: %(default)s)"
    )


@contextlib.asynccontextmanager
async def opened(
    runtime: interface.Runtime,
    options: argparse.Namespace,
    families: Callable[[], Sequence[measures.Family]],
    *,
    problem: Callable[[], str],
) -> AsyncIterator[None]:
    """Serve what a daemon counts while the block runs; ``problem`` as in ``probes.Probes``. OSError: port in use."""
    if not options.health_port:
        yield
        return
    handler = probes.Probes(lambda: map(exposition.measured, families()), problem=problem)
    server = await runtime.network.serve_http(
        options.health_bind, options.health_port, handler, tls=None, body_limit=BODY_LIMIT, allowed=LIMITS
    )
    try:
        yield
    finally:
        await server.close()

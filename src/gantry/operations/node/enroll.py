"""How a machine becomes a node: it shows a join token, sends a certificate request, and gets its certificate.

Shared by the opcode that adds a node and by the initialization of a cluster. A node's private key never leaves it.
Both sides authenticate each other before they exchange secrets: the token contains the node's provisional certificate
and a secret that only the node's administrator can have read.
"""

import asyncio
import datetime
from collections.abc import Awaitable, Callable

from gantry import errors, security
from gantry.operations import base
from gantry.rpc import calls, targets

JOIN_TIMEOUT_SECONDS = 30.0
"""The time in which a node must listen again after it received its certificate."""

DAY_SECONDS = 86400.0
CLOCK_LIMIT_SECONDS = 2 * DAY_SECONDS
"""Difference of the clocks of master and node, above which the node cannot join.

It is well below the time by which certificates begin earlier (``security.EARLIER``).
"""

_RETRY_SECONDS = 0.1
_CHECK_TIMEOUT_SECONDS = 5.0
TOKEN_HINT = "gantry-noded on the machine wrote lib/join-token below its folder; pass it with --join-token-file"

Sleep = Callable[[float], Awaitable[None]]


async def join(
    nodes: base.Nodes,
    authority: base.Authority,
    target: targets.Target,
    *,
    token: str,
    cluster: str,
    now: float,
    sleep: Sleep,
) -> None:
    """Send a node its certificate and wait until it listens with it; ``now`` is this machine's time of day.

    Raises InvalidError for the token, EnvironmentFaultError for different clocks, RemoteError for everything else.

    A node that already has the certificate, because the answer to an earlier call was lost, is not changed.
    """
    try:
        secret = security.JoinToken.decode(token).secret
    except ValueError as error:
        raise errors.InvalidError(f"node {target.name}: {error}", hint=TOKEN_HINT) from None
    if await _has_joined(nodes, target):
        return
    _check_clock(target.name, await nodes.join(target, token, calls.NodeClock()), now)
    join_call = calls.Join(secret=secret, cluster=cluster, node=target.name, uuid=target.uuid, address=target.address)
    request = await nodes.join(target, token, join_call)
    certificate = authority.issue(request, uuid=target.uuid, name=target.name, address=target.address)
    enrol = calls.Enrol(secret=secret, certificate=certificate, authority=authority.certificate)
    await nodes.join(target, token, enrol)
    await _wait(nodes, target, sleep)


def _check_clock(node: str, node_time: float, now: float) -> None:
    """Refuse a node whose clock is so different that the certificates would not be valid on one of the machines."""
    difference = abs(node_time - now)
    if difference > CLOCK_LIMIT_SECONDS:
        raise errors.EnvironmentFaultError(
            f"node {node} cannot join: its clock is {difference / DAY_SECONDS:.1f} days "
            f"{'ahead' if node_time > now else 'behind'}, it shows {_moment(node_time)} and this machine's clock "
            f"{_moment(now)}; the limit is {CLOCK_LIMIT_SECONDS / DAY_SECONDS:.0f} days",
            hint="set both clocks, for example by NTP, and repeat the command",
        )


def _moment(seconds: float) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


async def _has_joined(nodes: base.Nodes, target: targets.Target) -> bool:
    """Return whether a node answers with the UUID of the joining node; a new machine does not trust the cluster yet."""
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_SECONDS):
            return (await nodes.call(target, calls.Version())).uuid == target.uuid
    except (errors.RemoteError, TimeoutError):
        return False


async def _wait(nodes: base.Nodes, target: targets.Target, sleep: Sleep) -> None:
    last = errors.RemoteError(
        f"node {target.name} did not listen within {JOIN_TIMEOUT_SECONDS:g} s after it received its certificate"
    )
    try:
        async with asyncio.timeout(JOIN_TIMEOUT_SECONDS):
            while True:
                try:
                    await nodes.call(target, calls.Version())
                except errors.RemoteError as error:
                    last = error
                    await sleep(_RETRY_SECONDS)
                else:
                    return
    except TimeoutError:
        raise last from None

"""How a machine becomes a node: it shows a join token, sends a certificate request, and gets its certificate.

Shared by the opcode that adds a node and by the initialization of a cluster. A node's private key never leaves it.
Both sides authenticate each other before they exchange secrets: the token contains the node's provisional certificate
and a secret that only the node's administrator can have read.
"""

import asyncio
from collections.abc import Awaitable, Callable

from gantry import errors, security
from gantry.operations import base
from gantry.rpc import calls, targets

JOIN_TIMEOUT_SECONDS = 30.0
"""The time in which a node must listen again after it received its certificate."""

_RETRY_SECONDS = 0.1
_CHECK_TIMEOUT_SECONDS = 5.0
TOKEN_HINT = "gantry-noded on the machine wrote lib/join-token below its folder; pass it with --join-token-file"

Sleep = Callable[[float], Awaitable[None]]


async def join(
    nodes: base.Nodes, authority: base.Authority, target: targets.Target, *, token: str, cluster: str, sleep: Sleep
) -> None:
    """Send a node its certificate and wait until it listens with it; raises InvalidError, RemoteError.

    A node that already has the certificate, because the answer to an earlier call was lost, is not changed.
    """
    try:
        secret = security.JoinToken.decode(token).secret
    except ValueError as error:
        raise errors.InvalidError(f"node {target.name}: {error}", hint=TOKEN_HINT) from None
    if await _has_joined(nodes, target):
        return
    join_call = calls.Join(secret=secret, cluster=cluster, node=target.name, uuid=target.uuid, address=target.address)
    request = await nodes.join(target, token, join_call)
    certificate = authority.issue(request, uuid=target.uuid, name=target.name, address=target.address)
    enrol = calls.Enrol(secret=secret, certificate=certificate, authority=authority.certificate)
    await nodes.join(target, token, enrol)
    await _wait(nodes, target, sleep)


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

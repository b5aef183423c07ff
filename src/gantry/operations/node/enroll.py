"""How a machine becomes a node: its join token is shown, it sends a certificate request, it gets its certificate.

Shared by the opcode that adds a node and by the initialisation of a cluster. A node's private key never leaves it;
both sides know each other before anything secret travels: the token holds the certificate that the node shows, and a
secret that only its administrator can have read.
"""

import asyncio
from collections.abc import Awaitable, Callable

from gantry import errors, security
from gantry.operations import base
from gantry.rpc import calls, targets

PATIENCE = 30.0
"""Seconds that a node has to listen again after it got its certificate."""

_PAUSE = 0.1
_QUICK = 5.0
TOKEN_HINT = "its gantry-noded wrote one to lib/join-token below its folder; give it with --join-token-file"

Sleep = Callable[[float], Awaitable[None]]


async def join(
    nodes: base.Nodes, authority: base.Authority, target: targets.Target, *, token: str, cluster: str, sleep: Sleep
) -> None:
    """Give a node its certificate and wait until it listens with it; raises InvalidError, RemoteError.

    A node that has it already, because the answer to an earlier call was lost, is left as it is.
    """
    try:
        secret = security.JoinToken.decode(token).secret
    except ValueError as error:
        raise errors.InvalidError(f"node {target.name}: {error}", hint=TOKEN_HINT) from None
    if await _has_joined(nodes, target):
        return
    who = calls.Join(secret=secret, cluster=cluster, node=target.name, uuid=target.uuid, address=target.address)
    request = await nodes.join(target, token, who)
    certificate = authority.issue(request, uuid=target.uuid, name=target.name, address=target.address)
    enrol = calls.Enrol(secret=secret, certificate=certificate, authority=authority.certificate)
    await nodes.join(target, token, enrol)
    await _wait(nodes, target, sleep)


async def _has_joined(nodes: base.Nodes, target: targets.Target) -> bool:
    """Tell whether a node answers as the one that is to join; a newcomer does not trust us yet."""
    try:
        async with asyncio.timeout(_QUICK):
            return (await nodes.call(target, calls.Version())).uuid == target.uuid
    except (errors.RemoteError, TimeoutError):
        return False


async def _wait(nodes: base.Nodes, target: targets.Target, sleep: Sleep) -> None:
    last = errors.RemoteError(f"node {target.name} did not listen within {PATIENCE:g} s after it got its certificate")
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await nodes.call(target, calls.Version())
                except errors.RemoteError as error:
                    last = error
                    await sleep(_PAUSE)
                else:
                    return
    except TimeoutError:
        raise last from None

"""How a machine becomes a node: it shows a join token, sends a certificate request, and gets its certificate.

Shared by the opcode that adds a node and by the initialization of a cluster. A node's private key never leaves it.
Both sides authenticate each other before they exchange secrets: the token contains the node's provisional certificate
and a secret that only the node's administrator can have read.

The master calls a node with its certificate only after the state has recorded the key of its certificate request, so
nobody else can answer for the node, even with a certificate that was signed with a stolen key of the authority.
"""

import asyncio
import datetime
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gantry import errors, security
from gantry.model.cluster import Certificate, Revoked
from gantry.operations import base
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states

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

LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain"})
"""What every machine is called, or one that nobody named."""

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class Request:
    """A machine's certificate request in PEM, and the digest of its key."""

    csr: str
    key: str


def check_name(name: str) -> None:
    """Refuse a name that says nothing about which machine the node is; raises InvalidError."""
    if name in LOCAL_NAMES:
        raise errors.InvalidError(
            f"{name} is what every machine is called, so no node can have this name",
            hint="set a name of its own: hostnamectl set-hostname NAME",
        )


async def certificate_request(
    nodes: base.Nodes, target: targets.Target, *, token: str, cluster: str, now: float
) -> Request:
    """Return the certificate request of a machine that is to join; ``now`` is this machine's time of day.

    Raises InvalidError for the token, EnvironmentFaultError for different clocks, RemoteError for everything else.
    """
    secret = _secret(target.name, token)
    _check_clock(target.name, await nodes.join(target, token, calls.NodeClock()), now)
    join_call = calls.Join(secret=secret, cluster=cluster, node=target.name, uuid=target.uuid, address=target.address)
    return _request(target, await nodes.join(target, token, join_call))


async def member_request(nodes: base.Nodes, target: targets.Target) -> Request:
    """Return a certificate request of a machine that is a node already, for its present key; errors as the other's."""
    return _request(target, await nodes.call(target, calls.CertificateRequest(new_key=False)))


def _request(target: targets.Target, csr: str) -> Request:
    try:
        return Request(csr, security.key_of_request(csr.encode()))
    except ValueError as error:
        raise errors.InvalidError(f"node {target.name} sent an invalid certificate request: {error}") from None


async def send_certificate(
    nodes: base.Nodes,
    authority: base.Authority,
    target: targets.Target,
    *,
    request: Request,
    token: str,
    masters: Sequence[str] = (),
) -> Certificate:
    """Send a node its certificate, and return what the cluster records of it; errors as ``certificate_request``.

    ``masters`` are the keys of the master candidates; empty for the first node of a cluster, which is the only one.
    """
    certificate = _issue(authority, target, request)
    known = tuple(masters) or (f"{target.uuid}={request.key}",)
    secret = _secret(target.name, token)
    enrol = calls.Enrol(secret=secret, certificate=certificate, authority=authority.certificates, masters=known)
    await nodes.join(target, token, enrol)
    return issued_as(certificate)


def _issue(authority: base.Authority, target: targets.Target, request: Request) -> str:
    return authority.issue(request.csr, uuid=target.uuid, name=target.name, address=target.address)


def _secret(node: str, token: str) -> str:
    try:
        return security.JoinToken.decode(token).secret
    except ValueError as error:
        raise errors.InvalidError(f"node {node}: {error}", hint=TOKEN_HINT) from None


async def join(
    nodes: base.Nodes,
    authority: base.Authority,
    target: targets.Target,
    *,
    request: Request,
    token: str,
    masters: Sequence[str],
    sleep: Sleep,
) -> Certificate:
    """Send a node its certificate and wait until it listens with it; arguments and errors as ``send_certificate``.

    A node that has joined already, because the answer to an earlier call was lost, gets another certificate. The state
    must have recorded the request's key.
    """
    if await has_joined(nodes, target):
        certificate = _issue(authority, target, request)
        renewal = calls.CertificateStore(authority=authority.certificates, certificate=certificate)
        await nodes.call(target, renewal)
        return issued_as(certificate)
    issued = await send_certificate(nodes, authority, target, request=request, token=token, masters=masters)
    await wait(nodes, target, sleep)
    return issued


def issued_as(certificate: str) -> Certificate:
    """Return what the cluster records of a node's certificate."""
    facts = security.facts_of(certificate.encode())
    return Certificate(keys=(facts.key,), serial=facts.serial, end=facts.end)


def revoked(current: states.Snapshot, certificates: Sequence[Certificate], *, now: float) -> tuple[Revoked, ...]:
    """Return the cluster's list of revoked certificates with these; those that have ended meanwhile leave it then."""
    before = current.the_cluster.revoked
    serials = [Revoked(serial=each.serial, end=each.end) for each in certificates if each.serial]
    return tuple(dict.fromkeys(each for each in (*before, *serials) if each.end > now)) if serials else before


def revocation(current: states.Snapshot, certificates: Sequence[Certificate], *, now: float) -> list[states.Change]:
    """Return the change that revokes certificates."""
    owner, after = current.the_cluster, revoked(current, certificates, now=now)
    return [states.Put(base.changed(owner, now, revoked=after))] if after != owner.revoked else []


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


async def has_joined(nodes: base.Nodes, target: targets.Target) -> bool:
    """Return whether a node answers with the UUID of the joining node; a new machine does not trust the cluster yet."""
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_SECONDS):
            return (await nodes.call(target, calls.Version())).uuid == target.uuid
    except (errors.RemoteError, TimeoutError):
        return False


async def wait(nodes: base.Nodes, target: targets.Target, sleep: Sleep) -> None:
    """Wait until a node listens with its certificate; RemoteError after ``JOIN_TIMEOUT_SECONDS``."""
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

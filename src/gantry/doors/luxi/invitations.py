"""The two methods by which a machine joins with an invitation, for the node daemon at whose port the machine knocks.

``ProveInvitation`` answers a machine that has sent nothing yet; ``UseInvitation`` takes its secret and its join token,
and adds it by a job. A machine learns of the cluster only what the answers contain (``rpc.invitations``).
See explanation/security.md#joining-by-invitation.
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from gantry import errors, security
from gantry.doors.luxi.services import Seconds, Services
from gantry.model import cluster, job, opcodes
from gantry.operations.node import invitations
from gantry.rpc.invitations import Progress, Proof
from gantry.state.objects import snapshot as states

WAIT_LIMIT = 30.0
"""Maximum time that ``UseInvitation`` waits for a change of the job, in seconds."""

_Text = Annotated[str, msgspec.Meta(max_length=255)]


class Use(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``[secret, join token, name, address]``; and to watch a job: its number, a log serial, seconds to wait."""

    secret: _Text
    join_token: Annotated[str, msgspec.Meta(max_length=16384)]
    name: _Text
    address: _Text
    number: Annotated[int, msgspec.Meta(ge=0)] = 0
    serial: Annotated[int, msgspec.Meta(ge=0)] = 0
    seconds: Seconds = 0.0

    def __iter__(self) -> Iterator[object]:
        return iter(msgspec.structs.astuple(self))


async def prove(services: Services, invitation_id: str, nonce: str, key: str) -> Proof:
    """Return the proof for a machine that sees this key, if it is one of this machine's."""
    state = services.snapshot()
    try:
        invitation = invitations.opened(invitations.find(state, invitation_id), services.now())
        own_keys = state.nodes[state.the_cluster.master_node].certificate.keys
        if own_keys and key not in own_keys:
            raise errors.WrongStateError(
                "the node daemon of the master presents another key than the cluster recorded for it",
                hint="run gnt-cluster renew-crypto --new-node-certificates",
            )
    except errors.GantryError as error:
        return Proof(refusal=error.luxi_pair())
    return Proof(security.invitation.proof(invitation.secret_hash, nonce, key))


async def use(
    services: Services, secret: str, join_token: str, name: str, address: str, number: int, serial: int, seconds: float
) -> Progress:
    """Add the machine by a job and return its number; with a number, wait for news of that job."""
    invitation_id = security.invitation.id_of(security.invitation.hash_of(secret))
    try:
        if not number:
            number = await _submitted(services, invitation_id, join_token=join_token, name=name, address=address)
        return await _progress(services, invitation_id, join_token, number=number, serial=serial, seconds=seconds)
    except errors.GantryError as error:
        return Progress(refusal=error.luxi_pair())


async def _submitted(services: Services, invitation_id: str, *, join_token: str, name: str, address: str) -> int:
    """Return the job that adds a machine: the one that runs, if the machine asks again, or a new one."""
    state, now = services.snapshot(), services.now()
    invitation = invitations.opened(invitations.find(state, invitation_id), now)
    for running in services.queue.jobs().values():
        op = running.ops[0].input
        if running.status in job.FINAL or not isinstance(op, opcodes.NodeAdd) or op.invitation != invitation_id:
            continue
        if not security.invitation.is_equal(op.join_token, join_token):
            raise errors.BusyError(
                f"another machine, at {op.primary_ip}, is joining with this token: job {running.id}",
                hint=f"if you do not know that machine, run gnt-job cancel {running.id} on the master",
            )
        return running.id
    return await services.queue.submit([_addition(state, invitation, join_token, name=name, address=address, now=now)])


def _addition(
    state: states.Snapshot, invitation: cluster.Invitation, join_token: str, *, name: str, address: str, now: float
) -> opcodes.NodeAdd:
    node = invitation.node
    if name != node and (name.partition(".")[0] != node.partition(".")[0] or ("." in name and "." in node)):
        raise errors.WrongStateError(
            f"the token is for {node}, but this machine is called {name}",
            hint=f"run the line on {node}; if this is that machine, add --name {node}",
        )
    if ("nodes", node) in state.names and not invitation.readd:
        raise errors.ExistsError(
            f"node {node} is already part of the cluster", hint="gnt-node remove it first, or invite another name"
        )
    try:
        certificate = security.JoinToken.decode(join_token).certificate
        security.der_of(certificate.encode())
    except ValueError as error:
        raise errors.InvalidError(f"the machine sent an invalid join token: {error}") from None
    return opcodes.NodeAdd(
        node_name=node,
        primary_ip=invitation.primary_ip or address,
        port=invitation.port,
        join_token=join_token,
        invitation=invitations.id_of(invitation),
        group=invitation.group,
        master_capable=invitation.master_capable,
        vm_capable=invitation.vm_capable,
        ndparams=invitation.ndparams,
        readd=invitation.readd,
        reason=(("gnt:client:gantry-node", "join", int(now * 1e9)),),
    )


async def _progress(
    services: Services, invitation_id: str, join_token: str, *, number: int, serial: int, seconds: float
) -> Progress:
    """Return what is new of a job that a machine has started."""
    current = services.queue.jobs().get(number)
    op = current.ops[0].input if current else None
    if not (
        current
        and isinstance(op, opcodes.NodeAdd)
        and security.invitation.is_equal(op.invitation, invitation_id)
        and security.invitation.is_equal(op.join_token, join_token)
    ):
        raise errors.JobLostError(f"this token has started no job {number}, or it is archived")

    def values(changing: job.Job) -> list[object]:
        return [changing.status.value]

    change = await services.queue.wait_for_change(
        number, values, previous=values(current), serial=serial, timeout=min(seconds, WAIT_LIMIT)
    )
    ended = services.queue.jobs().get(number, current)
    entries = () if change is None else change[1]
    log = tuple((each[0], each[1][0], each[3]) for each in entries if isinstance(each[3], str))
    return Progress(number, ended.status.value, log, _failure(ended))


def _failure(ended: job.Job) -> tuple[str, list[object]] | None:
    """Return the error with which a job has ended."""
    if ended.status is job.Status.CANCELED:
        return errors.JobCanceledError(f"job {ended.id} was canceled").luxi_pair()
    if ended.status is not job.Status.ERROR:
        return None
    try:
        return msgspec.convert(ended.ops[0].result, tuple[str, list[object]])
    except msgspec.ValidationError:
        return errors.ExecutionError(f"job {ended.id} failed: {ended.ops[0].result}").luxi_pair()

"""Mirrored disks that get a new pair of nodes: the disks' part of a failover to any node.

``model.pairing`` decides which node keeps its copy (S2) and which node gets a copy (P2); here are the steps. Until the
new pair is recorded, each step has an undo that restores the old pair; the abandoned copy is kept until the new copy is
complete.
"""

from collections.abc import Collection

from msgspec import structs

from gantry import errors
from gantry.ipam import mirrors
from gantry.model import cluster, instance, pairing
from gantry.operations import base, fill
from gantry.operations.disk_planning import volumes
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states

PAIRING_POLLS = 120
"""The number of polls, a second apart, for a new pair of nodes to connect."""


def paired(vm: instance.Instance, *, keeps: str, new: str, picks: mirrors.Picks) -> tuple[instance.Disk, ...]:
    """Return the disks of an instance for a new pair of nodes; the node ``keeps`` has a copy and keeps its minors.

    The pair gets new ports. DRBD accepts any peer with the secret: on the old port the abandoned node could connect
    first, if it could not be disconnected (``disconnect``).
    """

    def repaired(disk: instance.Disk) -> instance.Disk:
        if disk.mirror is None:
            raise errors.InternalError(f"a disk of instance {vm.name} is not mirrored")
        minors = {keeps: disk.mirror.minors[keeps], new: picks.minor(new)}
        return structs.replace(disk, mirror=structs.replace(disk.mirror, minors=minors, port=picks.port()))

    return tuple(repaired(disk) for disk in vm.disks)


def disconnect(snapshot: states.Snapshot, vm: instance.Instance, *, node: str) -> list[base.Step]:
    """Return the steps that disconnect the disks on a node that the instance leaves from their peer.

    The instance may leave the node because it failed, so errors are only logged. The undo lets it connect again.
    """
    target = snapshot.target(snapshot.nodes[node])
    return [
        base.Step(
            f"disconnect disk {disk.index} on {target.name} from its peer",
            (base.Command(target, calls.DrbdDisconnectNet(disk=disk), errors.GantryError),),
            (base.Command(target, calls.DrbdAttachNet(disk=disk), errors.GantryError),),
        )
        for disk in fill.fill(snapshot, vm, node=node).disks
        if not target.offline
    ]


async def check_copy(
    environment: base.Environment,
    snapshot: states.Snapshot,
    vm: instance.Instance,
    *,
    node: cluster.Node,
    only: Collection[str] | None = None,
    follows: bool = False,
    lenient: bool = False,
) -> None:
    """Refuse to continue with an incomplete copy, as far as its node knows before anything is activated.

    With ``follows``, the copy must also be connected to its working primary node; two nodes that were just activated
    get some time for that. ``only`` are UUIDs of disks, None for all. ``lenient`` is as in ``pairing.problem``.
    """
    own = fill.fill(snapshot, vm, node=node.uuid).disks
    disks = tuple(disk for disk in own if only is None or disk.uuid in only)
    for _ in range(volumes.MEETING_POLLS):
        reported = await environment.nodes.call(snapshot.target(node), calls.BlockdevStatus(disks=disks))
        if not (follows and any(state and state.connection in pairing.MEETING for state in reported)):
            break
        await environment.sleep(1.0)
    for disk, state in zip(disks, reported, strict=True):
        if state is None or state.active:
            _refuse(vm.name, disk, node.name, state, follows=follows, lenient=lenient)


def _refuse(
    name: str, disk: calls.Disk, node: str, state: calls.DiskState | None, *, follows: bool = False, lenient: bool
) -> None:
    connection = {"connection": state.connection} if state and follows else {}
    if reason := pairing.problem(state.local if state else None, **connection, lenient=lenient):
        details = f"; {state.problem}" if state and state.problem else ""
        raise errors.WrongStateError(
            f"disk {disk.index} of instance {name} on node {node} is not a usable copy: {reason}{details}",
            hint="wait until the disk is synchronized; gnt-instance info shows the progress",
        )


async def check_free_space(
    environment: base.Environment, snapshot: states.Snapshot, vm: instance.Instance, *, node: cluster.Node
) -> None:
    """Refuse a node whose volume groups have not enough free space for a copy of the disks; raises NoRoomError."""
    needed: dict[str, int] = {}
    for part in (child for disk in vm.disks for child in disk.children):
        needed[part.logical_id[0]] = needed.get(part.logical_id[0], 0) + part.size
    units = tuple(calls.StorageUnit(kind="plain", name=name) for name in needed)
    status = await environment.nodes.call(snapshot.target(node), calls.NodeInfo(storage=units))
    for unit, storage in zip(units, status.storage, strict=False):
        if storage.problem or storage.free < needed[unit.name]:
            reason = storage.problem or f"needs {needed[unit.name]} MiB, {storage.free} MiB are free"
            raise errors.NoRoomError(f"node {node.name}, volume group {unit.name}: {reason}")


class Remirror:
    """The steps for the disks of one instance; ``new`` is the instance as it will be recorded."""

    def __init__(
        self,
        environment: base.Environment,
        snapshot: states.Snapshot,
        old: instance.Instance,
        *,
        new: instance.Instance,
    ) -> None:
        self._environment = environment
        self._snapshot = snapshot
        self._old = old
        self._new = new

    def _target(self, node: str) -> targets.Target:
        return self._snapshot.target(self._snapshot.nodes[node])

    def begin(self, pair: pairing.Pairing, *, wait: bool) -> list[base.Step]:
        """Return the steps until the new node receives data, with ``wait`` until it has received everything."""
        here, there = self._target(pair.primary), self._target(pair.secondary)
        new_disks = fill.fill(self._snapshot, self._new, node=pair.primary).disks
        kept_disks = fill.fill(self._snapshot, self._new, node=pair.secondary).disks
        old_disks = fill.fill(self._snapshot, self._old, node=pair.secondary).disks
        # An old primary node has stopped already, and its disks are inactive.
        abandoned = pair.gone if pair.gone in self._old.secondary_nodes else ""
        steps = disconnect(self._snapshot, self._old, node=abandoned) if abandoned else []
        for disk, kept_disk, old_disk in zip(new_disks, kept_disks, old_disks, strict=True):
            steps += [
                base.call_step(
                    f"create disk {disk.index} on {here.name}",
                    here,
                    calls.BlockdevCreate(disk=disk, owner=self._new.name),
                    calls.BlockdevRemove(disk=disk, owner=self._new.name),
                ),
                base.Step(
                    f"pair disk {disk.index} of {there.name} with {here.name}",
                    self._pair(there, kept_disk),
                    (base.Command(there, calls.BlockdevAssemble(disk=old_disk, primary=False)),),
                ),
                base.Step(
                    f"let disk {disk.index} on {here.name} receive",
                    self._receive(here, disk),
                    (base.Command(here, calls.BlockdevShutdown(disk=disk)),),
                ),
            ]
        return steps + (self._new_volumes.wait() if wait else [])

    @property
    def _new_volumes(self) -> volumes.Volumes:
        return volumes.Volumes(self._environment, self._snapshot, self._new)

    def _pair(self, target: targets.Target, disk: calls.Disk) -> base.Actions:
        """Connect the kept copy to its new peer, and check the copy before it is the only one."""

        async def check() -> None:
            state = await self._environment.nodes.call(target, calls.BlockdevFind(disk=disk))
            _refuse(self._new.name, disk, target.name, state, lenient=True)

        connect = base.Command(target, calls.BlockdevAssemble(disk=disk, primary=False))
        return (connect, base.Procedure("checks the disk state that the node reports", check))

    def _receive(self, target: targets.Target, disk: calls.Disk) -> base.Actions:
        async def wait() -> None:
            nodes = self._environment.nodes
            for _ in range(PAIRING_POLLS):
                state = await nodes.call(target, calls.BlockdevFind(disk=disk))
                if state and pairing.may_be_promoted(connection=state.connection, local=state.local, peer=state.peer):
                    return
                await self._environment.sleep(1.0)
            status = f"{state.connection}, {state.local}" if state else "missing"
            raise errors.ExecutionError(
                f"disk {disk.index} on node {target.name} receives no data from its peer: it is {status}"
            )

        connect = base.Command(target, calls.BlockdevAssemble(disk=disk, primary=False))
        return (connect, base.Procedure("polls until the disk receives", wait))

    def end(self, pair: pairing.Pairing) -> list[base.Step]:
        """Return the steps after the new pair is recorded: wait for the copy, then remove the abandoned copy."""
        abandoned = volumes.Volumes(self._environment, self._snapshot, self._old, nodes=[pair.gone])
        return self._new_volumes.wait() + abandoned.remove(tolerant=True)

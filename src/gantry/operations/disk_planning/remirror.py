"""Mirrored disks that get a new pair of nodes: the part of a failover to any node that concerns them.

``model.pairing`` decides which node keeps its copy (S2) and which gets one (P2); here are the steps. Until the new pair
is recorded, each has an undo that brings the old one back; the copy that is given up stays until the new one is whole.
"""

from collections.abc import Collection

from msgspec import structs

from gantry import errors
from gantry.ipam import mirrors
from gantry.model import cluster, instance, pairing
from gantry.operations import base, fill
from gantry.operations.disk_planning import volumes
from gantry.rpc import calls, targets
from gantry.state import snapshot as states

PATIENCE = 120
"""How many looks, a second apart, a new pair gets to find each other."""


def paired(vm: instance.Instance, *, keeps: str, new: str, picks: mirrors.Picks) -> tuple[instance.Disk, ...]:
    """Return the disks of an instance for a new pair of nodes, of which one ``keeps`` its copy and so its minors.

    The pair has ports of its own. DRBD takes in whoever knows the secret, from wherever that comes: on the old port
    the node that is left could come first, where it could not be told that it is (``part``).
    """

    def again(disk: instance.Disk) -> instance.Disk:
        if disk.mirror is None:
            raise errors.InternalError(f"a disk of instance {vm.name} is not mirrored")
        minors = {keeps: disk.mirror.minors[keeps], new: picks.minor(new)}
        return structs.replace(disk, mirror=structs.replace(disk.mirror, minors=minors, port=picks.port()))

    return tuple(again(disk) for disk in vm.disks)


def part(snapshot: states.Snapshot, vm: instance.Instance, *, node: str) -> list[base.Step]:
    """Return the steps that keep the secondary node of an instance, which is left, from looking for its peer.

    The node may be left because it failed, so errors are only logged. The undo lets it connect again.
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
    """Refuse to build on a copy that is not complete, as far as its node can tell before anything is activated.

    One that ``follows`` a primary node that works has to be connected to it, which two that have just been activated
    get a while for. ``only`` are UUIDs of disks, all without it.
    """
    own = fill.fill(snapshot, vm, node=node.uuid).disks
    disks = tuple(disk for disk in own if only is None or disk.uuid in only)
    for _ in range(volumes.MEETING_POLLS):
        found = await environment.nodes.call(snapshot.target(node), calls.BlockdevStatus(disks=disks))
        if not (follows and any(state and state.connection in pairing.MEETING for state in found)):
            break
        await environment.sleep(1.0)
    for disk, state in zip(disks, found, strict=True):
        if state is None or state.active:
            _refuse(vm.name, disk, node.name, state, follows=follows, lenient=lenient)


def _refuse(
    name: str, disk: calls.Disk, node: str, state: calls.DiskState | None, *, follows: bool = False, lenient: bool
) -> None:
    connection = {"connection": state.connection} if state and follows else {}
    if why := pairing.problem(state.local if state else None, **connection, lenient=lenient):
        more = f"; {state.problem}" if state and state.problem else ""
        raise errors.WrongStateError(
            f"disk {disk.index} of instance {name} on {node} is no good copy: {why}{more}",
            hint="wait until it is synchronised; gnt-instance info shows how far it is",
        )


async def check_room(
    environment: base.Environment, snapshot: states.Snapshot, vm: instance.Instance, *, node: cluster.Node
) -> None:
    """Refuse a node whose volume groups have no room for a copy of the disks; raises NoRoomError."""
    wanted: dict[str, int] = {}
    for part in (child for disk in vm.disks for child in disk.children):
        wanted[part.logical_id[0]] = wanted.get(part.logical_id[0], 0) + part.size
    units = tuple(calls.StorageUnit(kind="plain", name=name) for name in wanted)
    status = await environment.nodes.call(snapshot.target(node), calls.NodeInfo(storage=units))
    for unit, found in zip(units, status.storage, strict=False):
        if found.problem or found.free < wanted[unit.name]:
            why = found.problem or f"{wanted[unit.name]} MiB do not fit, {found.free} MiB are free"
            raise errors.NoRoomError(f"node {node.name}, volume group {unit.name}: {why}")


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
        """Return the steps until the new node receives, or with ``wait`` has received all."""
        here, there = self._target(pair.primary), self._target(pair.secondary)
        coming = fill.fill(self._snapshot, self._new, node=pair.primary).disks
        kept = fill.fill(self._snapshot, self._new, node=pair.secondary).disks
        before = fill.fill(self._snapshot, self._old, node=pair.secondary).disks
        # An old primary node has been told to stop, and has its disks out of use.
        left = pair.gone if pair.gone in self._old.secondary_nodes else ""
        steps = part(self._snapshot, self._old, node=left) if left else []
        for disk, keeps, was in zip(coming, kept, before, strict=True):
            steps += [
                base.call_step(
                    f"create disk {disk.index} on {here.name}",
                    here,
                    calls.BlockdevCreate(disk=disk, owner=self._new.name),
                    calls.BlockdevRemove(disk=disk, owner=self._new.name),
                ),
                base.Step(
                    f"pair disk {disk.index} of {there.name} with {here.name}",
                    self._pair(there, keeps),
                    (base.Command(there, calls.BlockdevAssemble(disk=was, primary=False)),),
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
        """Connect the copy that is kept to its new peer, and check it before anything depends on it alone."""

        async def check() -> None:
            state = await self._environment.nodes.call(target, calls.BlockdevFind(disk=disk))
            _refuse(self._new.name, disk, target.name, state, lenient=True)

        connect = base.Command(target, calls.BlockdevAssemble(disk=disk, primary=False))
        return (connect, base.Procedure("judges the state that the node reports", check))

    def _receive(self, target: targets.Target, disk: calls.Disk) -> base.Actions:
        async def wait() -> None:
            nodes = self._environment.nodes
            for _ in range(PATIENCE):
                state = await nodes.call(target, calls.BlockdevFind(disk=disk))
                if state and pairing.may_be_promoted(connection=state.connection, local=state.local, peer=state.peer):
                    return
                await self._environment.sleep(1.0)
            status = f"{state.connection}, {state.local}" if state else "not there"
            raise errors.ExecutionError(f"disk {disk.index} on {target.name} receives nothing: it is {status}")

        connect = base.Command(target, calls.BlockdevAssemble(disk=disk, primary=False))
        return (connect, base.Procedure("polls until the disk receives", wait))

    def end(self, pair: pairing.Pairing) -> list[base.Step]:
        """Return the steps when the new pair is recorded: wait for the copy, remove the one that was given up."""
        gone = volumes.Volumes(self._environment, self._snapshot, self._old, nodes=[pair.gone])
        return self._new_volumes.wait() + gone.remove(tolerant=True)

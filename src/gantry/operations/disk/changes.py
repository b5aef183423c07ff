"""Disks of an existing instance: add, remove, change, attach and detach them, for ``instance.set_params``.

``Facts`` is what nodes report; ``Change`` is pure. A running instance gets and loses disks at once if its hypervisor
supports hotplug. Until then the state contains the disks that it loses as disks of the instance (``during``). Removed
disks are lost, so the removal comes last, when nothing else can fail. A detached disk stays on its nodes, in the state
as a disk without an instance; while a disk is attached or detached, a lock with its UUID keeps other jobs away
(``locks``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from gantry import errors
from gantry.model import instance, lock, opcodes, templates
from gantry.operations import base, device_index, draws, fill
from gantry.operations.disk_planning import disk_owners, disk_spec, requirements, volumes
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states

LIMIT = 16
"""The maximum number of disks of an instance (contracts/opcodes.md#value-coercion)."""

ACTIONS = ("add", "modify", "remove", "attach", "detach")
CHANGEABLE = ("mode", "name")


@dataclass(frozen=True)
class Edit:
    """A normalized change of a disk: the action, the disk (empty for the last one), and the parameters."""

    action: str
    ident: str
    disk: opcodes.DiskMod


@dataclass(frozen=True)
class Facts:
    """About the added disks: UUID and driver's name of each, in order, and their physical volumes.

    ``moved`` contains the new path of an attached file, by disk UUID; ``drawn`` contains the values drawn for the new
    disks that nodes checked.
    """

    new_disks: Sequence[tuple[str, str]] = ()
    physical_volumes: volumes.PhysicalVolumes = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)
    drawn: draws.Draws = field(default_factory=draws.Draws)


NOTHING = Facts()


def edit(change: opcodes.DiskChange) -> Edit:
    """Return a change in normalized form; raises InvalidError for an unknown action.

    See contracts/opcodes.md#device-modifications.
    """
    action, target = str(change.action), change.target
    if not isinstance(target, opcodes.DiskMod):
        normalized = Edit(action, "" if str(target) == "-1" else str(target), change.disk)
    elif action in ACTIONS and action != "modify":
        normalized = Edit(action, "", target)
    else:
        normalized = Edit("modify", "" if action == "-1" else action, target)
    if normalized.action not in ACTIONS:
        raise errors.InvalidError(
            f"{normalized.action!r} is not a disk action",
            hint=f"actions are {', '.join(ACTIONS)}; gnt-instance grow-disk enlarges a disk",
        )
    return normalized


def locks(snapshot: states.Snapshot, vm: instance.Instance, changes: Sequence[opcodes.DiskChange]) -> lock.LockSet:
    """Lock the disks to attach exclusively, their nodes shared; for a detach, all disks of the instance exclusively.

    A mirrored disk gives an instance without disks a secondary node, which the instance's own locks do not have.
    """
    edits = [edit(change) for change in changes]
    attached = [snapshot.detached_disk(_attached_disk(change)) for change in edits if change.action == "attach"]
    uuids = {detached.uuid for detached in attached}
    if any(change.action == "detach" for change in edits):
        uuids |= {disk.uuid for disk in vm.disks}
    return {
        **{(lock.Level.INSTANCE, uuid): lock.Mode.EXCLUSIVE for uuid in uuids},
        **{(lock.Level.NODE, node): lock.Mode.SHARED for detached in attached for node in detached.nodes},
    }


def _attached_disk(change: Edit) -> str:
    """Return the UUID or the name of the disk to attach."""
    fields = {name: value for name, value in structs.asdict(change.disk).items() if value is not None}
    if len(fields) != 1 or not fields.keys() <= {"uuid", "name"}:
        raise errors.InvalidError(
            "attach takes either the UUID or the name of a disk, nothing else", hint="as in attach:uuid=UUID"
        )
    return str(*fields.values())


async def ask(
    environment: base.Environment,
    snapshot: states.Snapshot,
    vm: instance.Instance,
    changes: Sequence[opcodes.DiskChange],
) -> Facts:
    """Ask for names and free space for added disks, and for attached disks; raises all other errors first."""
    count = sum(edit(change).action == "add" for change in changes)
    uuids = tuple(environment.inputs.uuid() for _ in range(count))
    draft = Change(environment, snapshot, vm, changes, Facts([(uuid, "draft") for uuid in uuids]))
    target = snapshot.target(snapshot.nodes[vm.primary_node])
    moved = await _moved(environment, snapshot, draft, target=target)
    if not uuids:
        return Facts(moved=moved)
    first = max((index for index, disk in enumerate(draft.vm.disks) if disk.uuid in uuids), default=0)
    paths = calls.BlockdevPath(dev_type=vm.disk_template, instance=vm.name, uuids=uuids, first=first)
    new_disks = [*zip(uuids, await environment.nodes.call(target, paths), strict=True)]
    recorder = draws.Recorder(environment.inputs)
    new = Change(environment, snapshot, vm, changes, Facts(new_disks, moved=moved), inputs=recorder.inputs).vm
    await requirements.check_free_space(environment, snapshot, new, only=uuids)
    physical_volumes = await volumes.Volumes(environment, snapshot, new, only=uuids).choose_physical_volumes()
    return Facts(new_disks, physical_volumes, moved, recorder.drawn())


async def _moved(
    environment: base.Environment, snapshot: states.Snapshot, draft: "Change", *, target: targets.Target
) -> Mapping[str, str]:
    """Check that attached disks exist; return the new paths of files, which contain the instance's name."""
    moved = {}
    for disk in fill.fill(snapshot, draft.vm).disks:
        if disk.uuid in draft.attached:
            if await environment.nodes.call(target, calls.BlockdevFind(disk=disk)) is None:
                raise errors.NotFoundError(f"detached disk {disk.uuid} does not exist on node {target.name}")
            if disk.dev_type in templates.BY_NAME:
                paths = calls.BlockdevPath(dev_type=disk.dev_type, instance=draft.vm.name, uuids=(disk.uuid,))
                (moved[disk.uuid],) = await environment.nodes.call(target, paths)
    return moved


class Change:
    """The instance with its disks after the changes (``vm``), and a ``report``.

    ``added``, ``removed``, ``attached`` and ``detached`` are UUIDs.
    """

    def __init__(
        self,
        environment: base.Environment,
        snapshot: states.Snapshot,
        old: instance.Instance,
        changes: Sequence[opcodes.DiskChange],
        facts: Facts,
        *,
        inputs: draws.Inputs | None = None,
    ) -> None:
        self._environment, self._snapshot, self._old = environment, snapshot, old
        self._inputs = inputs or facts.drawn.replay(environment.inputs)
        self._picks = environment.ledger.mirrors.picks()
        self._facts, self._unused_ids = facts, list(facts.new_disks)
        self._disks, self._template = list(old.disks), old.disk_template
        self.added: list[str] = []
        self.removed: list[str] = []
        self.attached: list[str] = []
        self.detached: list[str] = []
        self.report: list[tuple[str, object]] = []
        for change in changes:
            self._apply(edit(change))
        if len(self._disks) > LIMIT:
            raise errors.InvalidError(
                f"instance {old.name} would have {len(self._disks)} disks, the maximum is {LIMIT}",
                hint="remove a disk first",
            )
        self.vm = self._now()

    @property
    def during(self) -> instance.Instance:
        """Return the instance with the disks that the state contains while the steps run.

        It has the removed and the detached disks too, where they were: if a step fails and cannot be undone, they are
        still on the node, and perhaps in the guest.
        """
        disks = list(self.vm.disks)
        for index, disk in enumerate(self._old.disks):
            if disk.uuid in (*self.removed, *self.detached):
                disks.insert(index, disk)
        return structs.replace(self.vm, disks=tuple(disks))

    def _now(self) -> instance.Instance:
        return structs.replace(self._old, disks=tuple(self._disks), disk_template=self._template)

    def _apply(self, change: Edit) -> None:
        match change.action:
            case "add":
                self._add(change)
            case "attach":
                self._attach(change)
            case "remove" | "detach":
                self._remove_or_detach(change)
            case _:
                self._modify(device_index.find(self._disks, change.ident, noun="disk"), change.disk)

    def _remove_or_detach(self, change: Edit) -> None:
        action = change.action
        if change.disk != opcodes.DiskMod():
            raise errors.InvalidError(f"{action} of a disk takes no parameters")
        index = device_index.find(self._disks, change.ident, noun="disk")
        uuid = self._disks.pop(index).uuid
        if uuid in (*self.added, *self.attached):
            raise errors.InvalidError(f"disk {index} is added and removed in the same request")
        (self.removed if action == "remove" else self.detached).append(uuid)
        self.report.append((f"disk/{index}", action))

    def _attach(self, change: Edit) -> None:
        index, detached = (
            device_index.insert_index(len(self._disks), change.ident, noun="disk"),
            self._snapshot.detached_disk(_attached_disk(change)),
        )
        disk, old = detached.disk, self._old
        if disk.uuid in self.attached:
            raise errors.InvalidError(f"disk {disk.uuid} is attached twice")
        if not self._disks:
            self._template = disk.dev_type
        elif disk.dev_type != self._template:
            raise errors.InvalidError(
                f"disk {disk.uuid} has template {disk.dev_type}, but instance {old.name} has {self._template} disks"
            )
        if not self._reaches(detached):
            names = " and ".join(self._snapshot.nodes[node].name for node in detached.nodes)
            raise errors.WrongStateError(
                f"disk {disk.uuid} is on node {names}, where instance {old.name} is not",
                hint="move the instance to that node first",
            )
        self._check_copies(detached)
        if path := self._facts.moved.get(disk.uuid):
            disk = structs.replace(disk, logical_id=(*disk.logical_id[:-1], path))
        self._disks.insert(index, disk)
        self.attached.append(disk.uuid)
        self.report.append((f"disk/{index}", f"attach:uuid={disk.uuid},size={disk.size}"))

    def _reaches(self, detached: instance.DetachedDisk) -> bool:
        """Return whether the instance is on the disk's nodes; the first disk determines the secondary node."""
        here, nodes = self._now().nodes, self._snapshot.nodes
        if detached.disk.dev_type in templates.SHARED:
            return nodes[detached.nodes[0]].group == nodes[here[0]].group
        return {*detached.nodes} == {*here} if self._disks else here[0] in detached.nodes

    def _check_copies(self, detached: instance.DetachedDisk) -> None:
        """Refuse a mirrored disk with a copy on an offline node, or on a drained one that the instance is not on."""
        here = self._now().nodes
        for node in (self._snapshot.nodes[uuid] for uuid in detached.nodes if detached.disk.children):
            flag = "offline" if node.offline else "drained"
            if node.offline or (node.drained and node.uuid not in here):
                raise errors.WrongStateError(
                    f"disk {detached.disk.uuid} has a copy on node {node.name}, and that node is {flag}",
                    hint=f"gnt-node modify --{flag} no {node.name}",
                )

    def _add(self, change: Edit) -> None:
        template = self._template
        if template == "diskless":
            raise errors.InvalidError(f"instance {self._old.name} is diskless, so a disk cannot be added")
        index, nodes = device_index.insert_index(len(self._disks), change.ident, noun="disk"), self._now().nodes
        if template == "drbd" and len(nodes) < 2:
            raise errors.WrongStateError(
                f"instance {self._old.name} has no disks, so it has no secondary node for a new mirrored disk",
                hint="attach a detached disk",
            )
        values = {name: value for name, value in structs.asdict(change.disk).items() if value is not None}
        spec = opcodes.DiskSpec(**values)
        disk_spec.check(spec, index, template=template)
        if spec.adopt:
            raise errors.InvalidError(
                "disks can be adopted only for a new instance", hint="gnt-instance add adopts disks"
            )
        size = disk_spec.size(self._snapshot, spec, index)
        uuid, name = self._unused_ids.pop(0)
        maker = disk_spec.Maker(self._snapshot, template, nodes, self._inputs, self._picks)
        disk = maker.make(index, spec, size=size, uuid=uuid, name=name)
        self._disks.insert(index, disk)
        if spec.path:
            disk_owners.check_distinct((index, other.logical_id) for index, other in enumerate(self._disks))
        self.added.append(uuid)
        self.report.append((f"disk/{index}", f"add:size={size},mode={disk.mode}"))

    def _modify(self, index: int, change: opcodes.DiskMod) -> None:
        values = {name: value for name, value in structs.asdict(change).items() if value is not None}
        if fixed := [name for name in values if name not in CHANGEABLE]:
            raise errors.InvalidError(
                f"disk {index}: {fixed[0]} of a disk cannot be changed",
                hint="gnt-instance grow-disk enlarges it" if fixed[0] == "size" else "only mode and name can change",
            )
        if "mode" in values:
            values["mode"] = disk_spec.MODES.get(str(values["mode"]), values["mode"])
        if values.get("name") == "none":
            values["name"] = ""
        self._disks[index] = structs.replace(self._disks[index], **values)
        self.report += [(f"disk.{name}/{index}", value) for name, value in values.items()]

    def changes(self) -> list[states.Change]:
        """Return the changes of disks without an instance that come with ``during``: attached disks."""
        return [states.Delete("disks", uuid) for uuid in self.attached]

    def last_changes(self) -> list[states.Change]:
        """Return the changes of disks without an instance that come with ``vm``: detached disks."""
        return [
            states.Put(
                instance.DetachedDisk(
                    disk=disk,
                    nodes=self._old.nodes if disk.mirror else (self._old.primary_node,),
                    instance=self._old.name,
                )
            )
            for disk in self._old.disks
            if disk.uuid in self.detached
        ]

    def check_running(self, running: calls.RunningInstance | None, *, hotplug: bool) -> None:
        """Refuse to remove disks that a running instance needs, or that its hypervisor cannot unplug."""
        if not running or not (self.removed or self.detached):
            return
        stop = f"gnt-instance stop {self._old.name}"
        if not self._disks:
            raise errors.WrongStateError(
                f"instance {self._old.name} is running, so its last disk cannot be removed", hint=stop
            )
        if not (hotplug and running.hotplug):
            raise errors.WrongStateError(
                f"instance {self._old.name} is running, and its hypervisor cannot unplug disks", hint=stop
            )

    def notes(self, running: calls.RunningInstance | None, *, hotplug: bool) -> list[str]:
        """Return the log's lines about changes that a running guest does not get."""
        if not running:
            return []
        name, known = self._old.name, {disk.uuid: disk.mode for disk in self._old.disks}
        notes = []
        if (self.added or self.attached) and not (hotplug and running.hotplug):
            notes.append(f"instance {name} is running: it gets the new disks at its next start")
        if any(known.get(disk.uuid, disk.mode) != disk.mode for disk in self._disks):
            notes.append(f"instance {name} is running: the mode of its disks changes at its next start")
        return notes

    def steps(
        self, new: instance.Instance, running: calls.RunningInstance | None, *, hotplug: bool, wait: bool
    ) -> list[base.Step]:
        """Return the steps for removed and added disks; ``new`` is the instance with all its changes."""
        plugs = bool(running and hotplug and running.hotplug)
        own = self._volumes(new, self.added)
        wipes = self._snapshot.the_cluster.prealloc_wipe_disks
        used = plugs or wipes or bool(new.secondary_nodes)
        return [
            *(self._plug_steps(self._old, [*self.removed, *self.detached], into=False) if plugs else []),
            *self._attach_steps(new),
            *(self._volumes(new, self.attached).activate() if plugs else []),
            *own.create(self._facts.physical_volumes),
            *(own.activate(fresh=True) if used else []),
            *(own.wipe() if wipes else []),
            *(own.wait() if wait else []),
            *(self._plug_steps(new, [*self.added, *self.attached], into=True) if plugs else []),
            *(own.deactivate() if used and not plugs else []),
        ]

    def after(self) -> list[base.Step]:
        """Return the steps that deactivate detached disks, and deactivate and remove removed disks."""
        detached, removed = (self._volumes(self._old, uuids) for uuids in (self.detached, self.removed))
        return [*detached.deactivate(), *removed.deactivate(), *removed.remove(tolerant=True)]

    def _volumes(self, vm: instance.Instance, uuids: Sequence[str]) -> volumes.Volumes:
        return volumes.Volumes(self._environment, self._snapshot, vm, only=uuids, ignore_secondaries=vm is self._old)

    def _attach_steps(self, new: instance.Instance) -> list[base.Step]:
        """Return the steps that assign attached disks to the instance on its nodes: rename a file, label a volume."""
        steps = []
        for target, disks in self._volumes(new, self.attached).seats():
            for disk in disks:
                before = self._snapshot.disks[disk.uuid]
                old = structs.replace(disk, logical_id=before.disk.logical_id)
                if old.logical_id != disk.logical_id:
                    move = calls.BlockdevRename(disk=old, to=disk.logical_id)
                    undo = calls.BlockdevRename(disk=disk, to=old.logical_id)
                    steps.append(
                        base.call_step(f"rename disk {disk.index} to {disk.logical_id[-1]}", target, move, undo)
                    )
                mark = calls.BlockdevSetinfo(disk=disk, owner=new.name)
                unmark = calls.BlockdevSetinfo(disk=disk, owner=before.instance)
                text = f"label disk {disk.index} on {target.name} with the name {new.name}"
                steps.append(base.call_step(text, target, mark, unmark))
        return steps

    def _plug_steps(self, vm: instance.Instance, uuids: Sequence[str], *, into: bool) -> list[base.Step]:
        whole = fill.fill(self._snapshot, vm)
        target = self._snapshot.target(self._snapshot.nodes[vm.primary_node])
        steps = []
        for disk in whole.disks:
            if disk.uuid in uuids:
                plug, unplug = calls.DiskPlug(instance=whole, disk=disk), calls.DiskUnplug(instance=whole, disk=disk)
                text = f"plug disk {disk.index} into {vm.name}" if into else f"unplug disk {disk.index} of {vm.name}"
                first, second = (plug, unplug) if into else (unplug, plug)
                steps.append(base.call_step(text, target, first, second))
        return steps

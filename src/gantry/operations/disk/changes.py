"""Disks of an instance that exists: added, removed, changed, attached, detached, for ``instance.set_params``.

``Facts`` is what nodes have to be asked for; ``Change`` is pure. A running instance gets and gives up disks at once
where its hypervisor can do that. What is removed is gone for good, so that comes last, when nothing can fail any more.
A disk that is detached stays where it is, in the state as a disk without an instance; while it comes or goes, a lock
with its UUID keeps other jobs from it (``locks``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from gantry import errors
from gantry.model import instance, lock, opcodes, templates
from gantry.operations import base, device_index, fill
from gantry.operations.disk_planning import disk_spec, volumes
from gantry.rpc import calls, targets
from gantry.state import snapshot as states

LIMIT = 16
"""How many disks an instance can have (contracts/opcodes.md#value-coercion)."""

ACTIONS = ("add", "modify", "remove", "attach", "detach")
CHANGEABLE = ("mode", "name")


@dataclass(frozen=True)
class Edit:
    """A change of disks in one form: the action, which disk (empty for the last), and what of it."""

    action: str
    ident: str
    disk: opcodes.DiskMod


@dataclass(frozen=True)
class Facts:
    """Of the disks that are added: UUID and their driver's name each, in order, and physical volumes for them.

    ``moved`` gives the path that a file which is attached gets, by the UUID of the disk; ``drawn`` is what was drawn
    for the new disks that nodes checked.
    """

    made: Sequence[tuple[str, str]] = ()
    places: volumes.Places = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)
    drawn: base.Draws = field(default_factory=base.Draws)


NOTHING = Facts()


def edit(change: opcodes.DiskChange) -> Edit:
    """Return a change of either form in one form; InvalidError for an unknown action.

    See contracts/opcodes.md#device-modifications.
    """
    action, target = str(change.action), change.target
    if not isinstance(target, opcodes.DiskMod):
        found = Edit(action, "" if str(target) == "-1" else str(target), change.disk)
    elif action in ACTIONS and action != "modify":
        found = Edit(action, "", target)
    else:
        found = Edit("modify", "" if action == "-1" else action, target)
    if found.action not in ACTIONS:
        raise errors.InvalidError(
            f"{found.action!r} is no change of a disk",
            hint=f"there are {', '.join(ACTIONS)}; grow-disk makes it larger",
        )
    return found


def locks(snapshot: states.Snapshot, vm: instance.Instance, changes: Sequence[opcodes.DiskChange]) -> lock.LockSet:
    """Take the disks that may come and go: what is attached, and for a detach any that the instance has."""
    edits = [edit(one) for one in changes]
    uuids = {snapshot.detached_disk(_wanted(one)).uuid for one in edits if one.action == "attach"}
    if any(one.action == "detach" for one in edits):
        uuids |= {disk.uuid for disk in vm.disks}
    return {(lock.Level.INSTANCE, uuid): lock.Mode.EXCLUSIVE for uuid in uuids}


def _wanted(change: Edit) -> str:
    """Return the UUID or the name of the disk that is attached."""
    given = {name: value for name, value in structs.asdict(change.disk).items() if value is not None}
    if len(given) != 1 or not given.keys() <= {"uuid", "name"}:
        raise errors.InvalidError("a disk is attached by its UUID or its name alone", hint="as in attach:uuid=UUID")
    return str(*given.values())


async def ask(
    environment: base.Environment,
    snapshot: states.Snapshot,
    vm: instance.Instance,
    changes: Sequence[opcodes.DiskChange],
) -> Facts:
    """Ask for names and room of what is added, and for what is attached; raises what else is wrong first."""
    count = sum(edit(one).action == "add" for one in changes)
    uuids = tuple(environment.inputs.uuid() for _ in range(count))
    draft = Change(environment, snapshot, vm, changes, Facts([(uuid, "draft") for uuid in uuids]))
    target = snapshot.target(snapshot.nodes[vm.primary_node])
    moved = await _moved(environment, snapshot, draft, target=target)
    if not uuids:
        return Facts(moved=moved)
    first = max((index for index, disk in enumerate(draft.vm.disks) if disk.uuid in uuids), default=0)
    paths = calls.BlockdevPath(dev_type=vm.disk_template, instance=vm.name, uuids=uuids, first=first)
    made = [*zip(uuids, await environment.nodes.call(target, paths), strict=True)]
    recorder = base.Recorder(environment.inputs)
    new = Change(environment, snapshot, vm, changes, Facts(made, moved=moved), inputs=recorder.inputs).vm
    await volumes.check_room(environment, snapshot, new, only=uuids)
    places = await volumes.Volumes(environment, snapshot, new, only=uuids).place()
    return Facts(made, places, moved, recorder.drawn())


async def _moved(
    environment: base.Environment, snapshot: states.Snapshot, draft: "Change", *, target: targets.Target
) -> Mapping[str, str]:
    """Check that what is attached is there; return the paths that files get, which have the instance's name in them."""
    moved = {}
    for disk in fill.fill(snapshot, draft.vm).disks:
        if disk.uuid in draft.attached:
            if await environment.nodes.call(target, calls.BlockdevFind(disk=disk)) is None:
                raise errors.NotFoundError(f"disk {disk.uuid} is not there on node {target.name}")
            if disk.dev_type in templates.BY_NAME:
                paths = calls.BlockdevPath(dev_type=disk.dev_type, instance=draft.vm.name, uuids=(disk.uuid,))
                (moved[disk.uuid],) = await environment.nodes.call(target, paths)
    return moved


class Change:
    """An instance with its disks after the changes: ``vm``, and a ``report``.

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
        inputs: base.Inputs | None = None,
    ) -> None:
        self._environment, self._snapshot, self._old = environment, snapshot, old
        self._inputs = inputs or facts.drawn.replay(environment.inputs)
        self._picks = environment.ledger.mirrors.picks()
        self._facts, self._fresh = facts, list(facts.made)
        self._disks, self._template = list(old.disks), old.disk_template
        self.added: list[str] = []
        self.removed: list[str] = []
        self.attached: list[str] = []
        self.detached: list[str] = []
        self.report: list[tuple[str, object]] = []
        for one in changes:
            self._apply(edit(one))
        if len(self._disks) > LIMIT:
            raise errors.InvalidError(
                f"instance {old.name} would have {len(self._disks)} disks, {LIMIT} is the most", hint="remove one first"
            )
        self.vm = self._now()

    @property
    def during(self) -> instance.Instance:
        """Return the instance with the disks that the state has while the steps run."""
        return self.vm

    def _now(self) -> instance.Instance:
        return structs.replace(self._old, disks=tuple(self._disks), disk_template=self._template)

    def _apply(self, change: Edit) -> None:
        match change.action:
            case "add":
                self._add(change)
            case "attach":
                self._attach(change)
            case "remove" | "detach":
                self._take_out(change)
            case _:
                self._modify(device_index.find(self._disks, change.ident, noun="disk"), change.disk)

    def _take_out(self, change: Edit) -> None:
        action = change.action
        if change.disk != opcodes.DiskMod():
            raise errors.InvalidError(f"{action} of a disk takes no parameters")
        index = device_index.find(self._disks, change.ident, noun="disk")
        gone = self._disks.pop(index).uuid
        if gone in (*self.added, *self.attached):
            raise errors.InvalidError(f"disk {index} comes and goes at once")
        (self.removed if action == "remove" else self.detached).append(gone)
        self.report.append((f"disk/{index}", action))

    def _attach(self, change: Edit) -> None:
        index, found = (
            device_index.place(len(self._disks), change.ident, noun="disk"),
            self._snapshot.detached_disk(_wanted(change)),
        )
        disk, old = found.disk, self._old
        if disk.uuid in self.attached:
            raise errors.InvalidError(f"disk {disk.uuid} is attached twice")
        if not self._disks:
            self._template = disk.dev_type
        elif disk.dev_type != self._template:
            raise errors.InvalidError(
                f"instance {old.name} has disks of template {self._template}, disk {disk.uuid} is of {disk.dev_type}"
            )
        if not self._reaches(found):
            names = " and ".join(self._snapshot.nodes[node].name for node in found.nodes)
            raise errors.WrongStateError(
                f"disk {disk.uuid} is on node {names}, instance {old.name} is not", hint="move the instance there first"
            )
        if path := self._facts.moved.get(disk.uuid):
            disk = structs.replace(disk, logical_id=(*disk.logical_id[:-1], path))
        self._disks.insert(index, disk)
        self.attached.append(disk.uuid)
        self.report.append((f"disk/{index}", f"attach:uuid={disk.uuid},size={disk.size}"))

    def _reaches(self, found: instance.DetachedDisk) -> bool:
        """Tell whether the instance is where a disk is; one that has no disks yet gets its other node with it."""
        here, nodes = self._now().nodes, self._snapshot.nodes
        if found.disk.dev_type in templates.SHARED:
            return nodes[found.nodes[0]].group == nodes[here[0]].group
        return {*found.nodes} == {*here} if self._disks else here[0] in found.nodes

    def _add(self, change: Edit) -> None:
        template = self._template
        if template == "diskless":
            raise errors.InvalidError(f"instance {self._old.name} is diskless, a disk cannot be added")
        index, nodes = device_index.place(len(self._disks), change.ident, noun="disk"), self._now().nodes
        if template == "drbd" and len(nodes) < 2:
            raise errors.WrongStateError(
                f"instance {self._old.name} has no disks, and so no secondary node for a new one",
                hint="attach one that was detached",
            )
        given = {name: value for name, value in structs.asdict(change.disk).items() if value is not None}
        spec = opcodes.DiskSpec(**given)
        disk_spec.check(spec, index, template=template)
        if spec.adopt:
            raise errors.InvalidError("disks are adopted when an instance is created", hint="gnt-instance add")
        size = disk_spec.size(self._snapshot, spec, index)
        uuid, name = self._fresh.pop(0)
        maker = disk_spec.Maker(self._snapshot, template, nodes, self._inputs, self._picks)
        made = maker.make(index, spec, size=size, uuid=uuid, name=name)
        self._disks.insert(index, made)
        self.added.append(uuid)
        self.report.append((f"disk/{index}", f"add:size={size},mode={made.mode}"))

    def _modify(self, index: int, change: opcodes.DiskMod) -> None:
        given = {name: value for name, value in structs.asdict(change).items() if value is not None}
        if wrong := [name for name in given if name not in CHANGEABLE]:
            raise errors.InvalidError(
                f"disk {index}: {wrong[0]} of a disk cannot be changed",
                hint="gnt-instance grow-disk makes it larger" if wrong[0] == "size" else "mode and name can",
            )
        if "mode" in given:
            given["mode"] = disk_spec.MODES.get(str(given["mode"]), given["mode"])
        if given.get("name") == "none":
            given["name"] = ""
        self._disks[index] = structs.replace(self._disks[index], **given)
        self.report += [(f"disk.{name}/{index}", value) for name, value in given.items()]

    def changes(self) -> list[states.Change]:
        """Return what becomes of disks without an instance, beside the change of the instance."""
        leaving = [disk for disk in self._old.disks if disk.uuid in self.detached]
        loose = [
            instance.DetachedDisk(
                disk=disk,
                nodes=self._old.nodes if disk.mirror else (self._old.primary_node,),
                instance=self._old.name,
            )
            for disk in leaving
        ]
        return [*map(states.Put, loose), *(states.Delete("disks", uuid) for uuid in self.attached)]

    def check_running(self, running: calls.RunningInstance | None, *, hotplug: bool) -> None:
        """Refuse to take from a running instance what it cannot do without, or does not let go."""
        if not running or not (self.removed or self.detached):
            return
        stop = f"gnt-instance stop {self._old.name}"
        if not self._disks:
            raise errors.WrongStateError(f"instance {self._old.name} runs, its last disk cannot be removed", hint=stop)
        if not (hotplug and running.hotplug):
            raise errors.WrongStateError(
                f"instance {self._old.name} runs, and its disks cannot be taken out while it does", hint=stop
            )

    def notes(self, running: calls.RunningInstance | None, *, hotplug: bool) -> list[str]:
        """Return what the job's log says of changes that a running guest does not see."""
        if not running:
            return []
        name, known = self._old.name, {disk.uuid: disk.mode for disk in self._old.disks}
        notes = []
        if (self.added or self.attached) and not (hotplug and running.hotplug):
            notes.append(f"instance {name} runs: it gets the new disks with its next start")
        if any(known.get(disk.uuid, disk.mode) != disk.mode for disk in self._disks):
            notes.append(f"instance {name} runs: the mode of its disks changes with its next start")
        return notes

    def steps(
        self, new: instance.Instance, running: calls.RunningInstance | None, *, hotplug: bool, wait: bool
    ) -> list[base.Step]:
        """Return the steps for what goes and what comes; ``new`` is the instance with all its changes."""
        plugs = bool(running and hotplug and running.hotplug)
        own = self._volumes(new, self.added)
        wipes = self._snapshot.the_cluster.prealloc_wipe_disks
        used = plugs or wipes or bool(new.secondary_nodes)
        return [
            *(self._plugged(self._old, [*self.removed, *self.detached], into=False) if plugs else []),
            *self._taken(new),
            *(self._volumes(new, self.attached).activate() if plugs else []),
            *own.create(self._facts.places),
            *(own.activate(fresh=True) if used else []),
            *(own.wipe() if wipes else []),
            *(own.wait() if wait else []),
            *(self._plugged(new, [*self.added, *self.attached], into=True) if plugs else []),
            *(own.deactivate() if used and not plugs else []),
        ]

    def after(self) -> list[base.Step]:
        """Return the steps that remove what is not the instance's any more."""
        loose, gone = (self._volumes(self._old, uuids) for uuids in (self.detached, self.removed))
        return [*loose.deactivate(), *gone.deactivate(), *gone.remove(tolerant=True)]

    def _volumes(self, vm: instance.Instance, uuids: Sequence[str]) -> volumes.Volumes:
        return volumes.Volumes(self._environment, self._snapshot, vm, only=uuids, ignore_secondaries=vm is self._old)

    def _taken(self, new: instance.Instance) -> list[base.Step]:
        """Return the steps that make attached disks the instance's on its nodes: a file's place, a volume's owner."""
        steps = []
        for target, seen in self._volumes(new, self.attached).seats():
            for disk in seen:
                before = self._snapshot.disks[disk.uuid]
                old = structs.replace(disk, logical_id=before.disk.logical_id)
                if old.logical_id != disk.logical_id:
                    move = calls.BlockdevRename(disk=old, to=disk.logical_id)
                    back = calls.BlockdevRename(disk=disk, to=old.logical_id)
                    steps.append(base.call_step(f"move disk {disk.index} to {disk.logical_id[-1]}", target, move, back))
                mark = calls.BlockdevSetinfo(disk=disk, owner=new.name)
                unmark = calls.BlockdevSetinfo(disk=disk, owner=before.instance)
                text = f"label disk {disk.index} on {target.name} with the name {new.name}"
                steps.append(base.call_step(text, target, mark, unmark))
        return steps

    def _plugged(self, vm: instance.Instance, uuids: Sequence[str], *, into: bool) -> list[base.Step]:
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

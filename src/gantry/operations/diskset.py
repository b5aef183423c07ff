"""Disks of an instance that exists: added, removed, changed, for ``modify``.

``Facts`` is what nodes have to be asked for; ``Change`` is pure. A running instance gets and gives up disks at once
where its hypervisor can do that. What is removed is gone for good, so that comes last, when nothing can fail any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import structs

from gantry import errors
from gantry.model import instance, opcodes
from gantry.operations import base, disks, filled, volumes
from gantry.rpc import calls
from gantry.state import snapshot as states

LIMIT = 16
"""How many disks an instance can have (contract: value coercion)."""

ACTIONS = ("add", "modify", "remove")
CHANGEABLE = ("mode", "name")


@dataclass(frozen=True)
class Edit:
    """A change of disks in one form: the action, which disk (empty for the last), and what of it."""

    action: str
    ident: str
    disk: opcodes.DiskMod


@dataclass(frozen=True)
class Facts:
    """Of the disks that are added: UUID and their driver's name each, in order, and physical volumes for them."""

    made: Sequence[tuple[str, str]] = ()
    places: volumes.Places = field(default_factory=dict)


NOTHING = Facts()


def edit(change: opcodes.DiskChange) -> Edit:
    """Return a change of either form of the contract in one form; InvalidError for an unknown action."""
    action, target = str(change.action), change.target
    if not isinstance(target, opcodes.DiskMod):
        found = Edit(action, "" if str(target) == "-1" else str(target), change.disk)
    elif action in ("add", "remove"):
        found = Edit(action, "", target)
    else:
        found = Edit("modify", "" if action == "-1" else action, target)
    if found.action not in ACTIONS:
        raise errors.InvalidError(
            f"{found.action!r} is no change of a disk",
            hint=f"there are {', '.join(ACTIONS)}; grow-disk makes it larger",
        )
    return found


async def ask(
    environment: base.Environment,
    snapshot: states.Snapshot,
    vm: instance.Instance,
    changes: Sequence[opcodes.DiskChange],
) -> Facts:
    """Ask for names and room of what is added; raises what else is wrong with the changes first."""
    count = sum(edit(one).action == "add" for one in changes)
    uuids = tuple(environment.inputs.uuid() for _ in range(count))
    draft = Change(environment, snapshot, vm, changes, Facts([(uuid, "draft") for uuid in uuids]))
    if not uuids:
        return NOTHING
    target = snapshot.target(snapshot.nodes[vm.primary_node])
    first = max((index for index, disk in enumerate(draft.vm.disks) if disk.uuid in uuids), default=0)
    paths = calls.BlockdevPath(dev_type=vm.disk_template, instance=vm.name, uuids=uuids, first=first)
    made = [*zip(uuids, await environment.nodes.call(target, paths), strict=True)]
    new = Change(environment, snapshot, vm, changes, Facts(made)).vm
    return Facts(made, await volumes.Volumes(environment, snapshot, new, only=uuids).place())


class Change:
    """An instance with its disks after the changes: ``vm``, what was ``added`` and ``removed``, and a ``report``."""

    def __init__(
        self,
        environment: base.Environment,
        snapshot: states.Snapshot,
        old: instance.Instance,
        changes: Sequence[opcodes.DiskChange],
        facts: Facts,
    ) -> None:
        self._environment, self._snapshot, self._old = environment, snapshot, old
        self._picks = environment.ledger.mirrors.picks()
        self._facts, self._fresh = facts, list(facts.made)
        self._disks = list(old.disks)
        self.added: list[str] = []
        self.removed: list[str] = []
        self.report: list[tuple[str, object]] = []
        for one in changes:
            self._apply(edit(one))
        if len(self._disks) > LIMIT:
            raise errors.InvalidError(
                f"instance {old.name} would have {len(self._disks)} disks, {LIMIT} is the most", hint="remove one first"
            )
        self.vm = structs.replace(old, disks=tuple(self._disks))

    def _apply(self, change: Edit) -> None:
        match change.action:
            case "add":
                self._add(change)
            case "remove":
                if change.disk != opcodes.DiskMod():
                    raise errors.InvalidError("remove of a disk takes no parameters")
                index = self._find(change.ident)
                gone = self._disks.pop(index).uuid
                if gone in self.added:
                    raise errors.InvalidError(f"disk {index} is added and removed at once")
                self.removed.append(gone)
                self.report.append((f"disk/{index}", "remove"))
            case _:
                self._modify(self._find(change.ident), change.disk)

    def _add(self, change: Edit) -> None:
        index, template = len(self._disks), self._old.disk_template
        if template == "diskless":
            raise errors.InvalidError(f"instance {self._old.name} is diskless, a disk cannot be added")
        if change.ident:
            if not change.ident.isdecimal() or int(change.ident) > index:
                raise errors.InvalidError(
                    f"a disk cannot be added at {change.ident!r}",
                    hint=f"places are 0 to {index}, -1 is behind the last",
                )
            index = int(change.ident)
        given = {name: value for name, value in structs.asdict(change.disk).items() if value is not None}
        spec = opcodes.DiskSpec(**given)
        disks.check(spec, index, template=template)
        if spec.adopt:
            raise errors.InvalidError("disks are adopted when an instance is created", hint="gnt-instance add")
        size = disks.size(self._snapshot, spec, index)
        uuid, name = self._fresh.pop(0)
        maker = disks.Maker(self._snapshot, template, self._old.nodes, self._environment.inputs, self._picks)
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
            given["mode"] = disks.MODES.get(str(given["mode"]), given["mode"])
        if given.get("name") == "none":
            given["name"] = ""
        self._disks[index] = structs.replace(self._disks[index], **given)
        self.report += [(f"disk.{name}/{index}", value) for name, value in given.items()]

    def _find(self, ident: str) -> int:
        """Return the index of a disk named by index, name or UUID; empty for the last."""
        count = len(self._disks)
        known = f"there are {count}, numbered from 0; gnt-instance info shows names and UUIDs"
        if ident.isdecimal() or not ident:
            index = int(ident) if ident else count - 1
            if not 0 <= index < count:
                raise errors.NotFoundError(f"the instance has no disk {ident}".strip(), hint=known)
            return index
        found = [index for index, disk in enumerate(self._disks) if ident in (disk.name, disk.uuid)]
        if len(found) != 1:
            fault = errors.InvalidError if found else errors.NotFoundError
            raise fault(f"the instance has {len(found) or 'no'} disks named {ident}", hint=known)
        return found[0]

    def check_running(self, running: calls.RunningInstance | None, *, hotplug: bool) -> None:
        """Refuse to take from a running instance what it cannot do without, or does not let go."""
        if not running or not self.removed:
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
        if self.added and not (hotplug and running.hotplug):
            notes.append(f"instance {name} runs: it gets the new disks with its next start")
        if any(known.get(disk.uuid, disk.mode) != disk.mode for disk in self._disks):
            notes.append(f"instance {name} runs: the mode of its disks changes with its next start")
        return notes

    def steps(
        self, new: instance.Instance, running: calls.RunningInstance | None, *, hotplug: bool, wait: bool
    ) -> list[base.Step]:
        """Return the steps for what goes and what comes; ``new`` is the instance with all its changes."""
        plugs = bool(running and hotplug and running.hotplug)
        own = volumes.Volumes(self._environment, self._snapshot, new, only=self.added)
        wipes = self._snapshot.the_cluster.prealloc_wipe_disks
        used = plugs or wipes or bool(new.secondary_nodes)
        return [
            *(self._plugged(self._old, self.removed, into=False) if plugs else []),
            *own.create(self._facts.places),
            *(own.activate(fresh=True) if used else []),
            *(own.wipe() if wipes else []),
            *(own.wait() if wait else []),
            *(self._plugged(new, self.added, into=True) if plugs else []),
            *(own.deactivate() if used and not plugs else []),
        ]

    def after(self) -> list[base.Step]:
        """Return the steps that remove what is not the instance's any more."""
        gone = volumes.Volumes(self._environment, self._snapshot, self._old, only=self.removed, ignore_secondaries=True)
        return [*gone.deactivate(), *gone.remove(tolerant=True)]

    def _plugged(self, vm: instance.Instance, uuids: Sequence[str], *, into: bool) -> list[base.Step]:
        whole = filled.fill(self._snapshot, vm)
        target = self._snapshot.target(self._snapshot.nodes[vm.primary_node])

        def call(what: calls.Call[None]) -> base.Action:
            async def action() -> None:
                await self._environment.nodes.call(target, what)

            return action

        found = []
        for disk in whole.disks:
            if disk.uuid in uuids:
                plug, unplug = calls.DiskPlug(instance=whole, disk=disk), calls.DiskUnplug(instance=whole, disk=disk)
                text = f"plug disk {disk.index} into {vm.name}" if into else f"unplug disk {disk.index} of {vm.name}"
                first, second = (plug, unplug) if into else (unplug, plug)
                found.append(base.Step(text, call(first), call(second)))
        return found

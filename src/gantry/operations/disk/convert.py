"""The disks of a stopped instance made disks of another template, for ``instance.set_params``.

Between ``plain`` and ``drbd`` the data stays where it is: its volume gets metadata beside it and a copy on a second
node, or loses both. In every other case new disks are made on the node of the instance and filled by copying, as in a
move (``transfer``); they have UUIDs of their own, the old ones are removed last.

``ask`` returns what nodes have to be asked for, ``changed`` the change that follows from it; where the disks stay what
they are, both are ``changes``'s. While the steps run the state has the disks that must not get lost, and all numbers
that are in use: the mirrored ones from the first step on when disks become mirrored, otherwise the old ones.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import structs

from gantry import errors
from gantry.model import base as entities
from gantry.model import instance, lock, opcodes, parameters, templates
from gantry.operations import base, fill
from gantry.operations.disk import changes
from gantry.operations.disk_planning import disk_spec, remirror, transfer, volumes
from gantry.operations.move import relocation
from gantry.operations.placement import builtin_allocator, node_choice
from gantry.rpc import calls
from gantry.state import snapshot as states

PLAIN, MIRRORED, DISKLESS, PROVIDED = "plain", "drbd", "diskless", "ext"
QCOW2: Final = "qcow2"


@dataclass(frozen=True)
class Facts:
    """What nodes reported for the new disks: a UUID and the driver's name for each, and physical volumes.

    Then the secondary node, why it was chosen, and what was drawn for the disks that the nodes checked.
    """

    made: Sequence[tuple[str, str]] = ()
    places: volumes.Places = field(default_factory=dict)
    secondary: str = ""
    why: Sequence[str] = ()
    drawn: base.Draws = field(default_factory=base.Draws)


AnyFacts = changes.Facts | Facts


def locks(snapshot: states.Snapshot, vm: instance.Instance, op: opcodes.InstanceSetParams) -> lock.LockSet:
    """Take the disks that come or go; share the node that gets copies, or all nodes where one is to be chosen."""
    if op.disk_template != MIRRORED:
        return changes.locks(snapshot, vm, op.disks)
    node = snapshot.node(op.remote_node).uuid if op.remote_node else lock.ALL_NAMES
    return {(lock.Level.NODE, node): lock.Mode.SHARED}


async def ask(
    environment: base.Environment, snapshot: states.Snapshot, vm: instance.Instance, op: opcodes.InstanceSetParams
) -> AnyFacts:
    """Check all that can be checked before anything is changed; ask for names, room and a second node."""
    template = op.disk_template
    if not template:
        if op.remote_node or op.ext_params:
            raise errors.InvalidError(
                f"the disks of instance {vm.name} stay what they are, a node or a provider for others is named",
                hint="say what they are to become, with -t",
            )
        return await changes.ask(environment, snapshot, vm, op.disks)
    _check(snapshot, vm, op, template=template)
    volumes.check_stopped(vm, await volumes.running(environment, snapshot, vm))
    if not vm.disks or vm.disk_template == MIRRORED:
        return Facts()
    secondary = node_choice.Choice([])
    if template == MIRRORED:
        secondary = await _secondary(environment, snapshot, vm, op)
    uuids = tuple(environment.inputs.uuid() for _ in vm.disks)
    names = calls.BlockdevPath(dev_type=template, instance=vm.name, uuids=uuids)
    target = snapshot.target(snapshot.nodes[vm.primary_node])
    made = [*zip(uuids, await environment.nodes.call(target, names), strict=True)]
    facts = Facts(made, {}, "".join(node.uuid for node in secondary.nodes), secondary.why)
    recorder = base.Recorder(environment.inputs)
    draft = _kind(vm, template)(environment, snapshot, vm, op, facts, inputs=recorder.inputs)
    return replace(facts, places=await draft.place(), drawn=recorder.drawn())


def _check(snapshot: states.Snapshot, vm: instance.Instance, op: opcodes.InstanceSetParams, *, template: str) -> None:
    """Refuse what the configuration says no to; raises InvalidError, WrongStateError."""
    if op.disks:
        raise errors.InvalidError("disks cannot be changed and converted at once", hint="do one after the other")
    disk_spec.check_template(snapshot, template)
    if template == vm.disk_template:
        raise errors.WrongStateError(f"the disks of instance {vm.name} are of template {template} already")
    if template != MIRRORED and op.remote_node:
        raise errors.InvalidError(f"disks of template {template} are on one node, a second one is named")
    if op.ext_params and template != PROVIDED:
        raise errors.InvalidError(f"disks of template {template} have no provider, one is described")
    if template == PROVIDED and vm.disks:
        _provided(op.ext_params)
    if template == DISKLESS and vm.disks:
        raise errors.InvalidError(
            f"instance {vm.name} has disks, it cannot become diskless",
            hint="remove or detach them first: gnt-instance modify --disk remove, or --disk detach",
        )
    if template == MIRRORED and not vm.disks:
        raise errors.InvalidError(f"instance {vm.name} has no disks that could be mirrored")
    if vm.disks and MIRRORED in (template, vm.disk_template) and PLAIN not in (template, vm.disk_template):
        raise errors.InvalidError(
            f"disks of template {vm.disk_template} do not become {template} in one go",
            hint=f"convert them to {PLAIN} first",
        )


async def _secondary(
    environment: base.Environment, snapshot: states.Snapshot, vm: instance.Instance, op: opcodes.InstanceSetParams
) -> node_choice.Choice:
    """Return the node named for the copies, if it can take them, or the one that the built-in allocator chooses."""
    node_choice.refuse_both(op.remote_node, op.iallocator)
    if op.iallocator not in (None, "", ".", node_choice.BUILT_IN):
        raise errors.InvalidError(
            f"allocator {op.iallocator} cannot be asked for a secondary node alone",
            hint=f"name the node, or {node_choice.BUILT_IN} for the built-in allocator",
        )
    size = sum(disk.size + templates.META_SIZE for disk in vm.disks)
    networks = {nic.network for nic in vm.nics if nic.network}
    need = builtin_allocator.Need(0, size, networks, tags=vm.tags, ignored=(vm.uuid,), copy=True)
    if op.remote_node:
        node = snapshot.node(op.remote_node)
        relocation.check_copy_target(snapshot, vm, node, need)
        relocation.check_group(snapshot, vm, node)
        return node_choice.Choice([node])
    chooser = node_choice.Allocation(environment, snapshot, named=node_choice.BUILT_IN)
    group = snapshot.nodegroups[snapshot.nodes[vm.primary_node].group]
    return await chooser.choose(need, [group], but=vm.nodes, units=relocation.units(vm))


def changed(
    environment: base.Environment,
    snapshot: states.Snapshot,
    vm: instance.Instance,
    op: opcodes.InstanceSetParams,
    facts: AnyFacts,
) -> changes.Change:
    """Return the change of an instance's disks that an opcode asks for."""
    if isinstance(facts, changes.Facts):
        return changes.Change(environment, snapshot, vm, op.disks, facts)
    return _kind(vm, str(op.disk_template))(environment, snapshot, vm, op, facts)


def _kind(vm: instance.Instance, template: str) -> type["Conversion"]:
    if not vm.disks:
        return Conversion
    return Mirroring if template == MIRRORED else Parting if vm.disk_template == MIRRORED else Copying


class Conversion(changes.Change):
    """The change of an instance without disks: there is nothing to do."""

    def __init__(
        self,
        environment: base.Environment,
        snapshot: states.Snapshot,
        old: instance.Instance,
        op: opcodes.InstanceSetParams,
        facts: Facts,
        *,
        inputs: base.Inputs | None = None,
    ) -> None:
        inputs = inputs or facts.drawn.replay(environment.inputs)
        super().__init__(environment, snapshot, old, (), changes.NOTHING, inputs=inputs)
        self._op, self._found, self._template = op, facts, str(op.disk_template)
        self._target = snapshot.target(snapshot.nodes[old.primary_node])
        self.vm = structs.replace(old, disk_template=self._template, disks=tuple(self._converted()))
        self.report.append(("disk_template", self._template))

    def _converted(self) -> Sequence[instance.Disk]:
        return ()

    def _maker(self, *nodes: str) -> disk_spec.Maker:
        return disk_spec.Maker(self._snapshot, self._template, nodes, self._inputs, self._picks)

    def _all(
        self, vm: instance.Instance, *, nodes: Collection[str] | None = None, ignore_secondaries: bool = False
    ) -> volumes.Volumes:
        return volumes.Volumes(
            self._environment, self._snapshot, vm, nodes=nodes, ignore_secondaries=ignore_secondaries
        )

    async def place(self) -> volumes.Places:
        """Ask which physical volumes the new disks shall be on; raises NoRoomError."""
        return {}


class Mirroring(Conversion):
    """``plain`` to ``drbd``: the metadata's volumes have new names, so that none is ever taken for an older one's."""

    def _converted(self) -> Sequence[instance.Disk]:
        maker = self._maker(self._old.primary_node, self._found.secondary)
        found = []
        for index, (disk, (_, name)) in enumerate(zip(self._old.disks, self._found.made, strict=True)):
            spec = opcodes.DiskSpec(name=disk.name, vg=disk.logical_id[0])
            made = maker.make(index, spec, size=disk.size, uuid=disk.uuid, name=name)
            data, meta = made.children
            data = structs.replace(data, logical_id=disk.logical_id)
            found.append(structs.replace(made, mode=disk.mode, children=(data, meta)))
        return found

    async def place(self) -> volumes.Places:
        """Ask the second node for room for all volumes, and the first one for the metadata's."""
        there = self._all(self.vm, nodes={self._found.secondary})
        return {**await there.place(), **await self._all(_metadata(self.vm)).place()}

    def steps(
        self, new: instance.Instance, running: calls.RunningInstance | None, *, hotplug: bool, wait: bool
    ) -> list[base.Step]:
        """Make what is missing on both nodes, and let the second one copy; without ``wait`` it goes on by itself.

        When the second node dies meanwhile, the disks become plain again, and what it may have left is warned of.
        """
        places, here = self._found.places, {new.primary_node}
        own, there = self._all(new), self._all(new, nodes={self._found.secondary})
        made = self._all(_metadata(new)).create(places)
        return [
            *base.noted(self._found.why),
            *map(self._forgiving, there.create(places)),
            *_of_metadata(made),
            *(self._labelled(disk, owner=new.name) for disk in fill.fill(self._snapshot, new).disks),
            *map(self._forgiving, there.activate(fresh=True)),
            *self._all(new, nodes=here).activate(fresh=True),
            *([*own.wait(), *own.deactivate()] if wait else []),
        ]

    def _forgiving(self, step: base.Step) -> base.Step:
        """Return a step on the second node that counts as undone when that does not answer: it has the copy only."""
        warning = f"not undone, check the node when it is back: {step.text}"
        return replace(step, undo=base.tolerant(step.undo, errors.RemoteError, warning=warning))

    def _labelled(self, disk: calls.Disk, *, owner: str) -> base.Step:
        """Return the step that writes the metadata; both volumes are there, so nothing is made."""
        return base.call_step(
            f"prepare disk {disk.index} on {self._target.name} to be mirrored",
            self._target,
            calls.BlockdevCreate(disk=disk, owner=owner),
            calls.BlockdevShutdown(disk=disk),
        )

    def after(self) -> list[base.Step]:
        """Return no steps: all is in use."""
        return []


class Parting(Conversion):
    """``drbd`` to ``plain``: what is on the primary node is kept, and has to be whole; a dead peer is no hindrance."""

    @property
    def during(self) -> instance.Instance:
        """Return the instance as it was: its numbers are free when they are not in use any more."""
        return self._old

    def _converted(self) -> Sequence[instance.Disk]:
        return [
            structs.replace(disk, dev_type=PLAIN, logical_id=disk.children[0].logical_id, children=(), mirror=None)
            for disk in self._old.disks
        ]

    def steps(
        self, new: instance.Instance, running: calls.RunningInstance | None, *, hotplug: bool, wait: bool
    ) -> list[base.Step]:
        """Let both nodes compare their copies, look at the primary's, and take all out of use.

        By force it is taken as it is: of disks whose metadata is lost nothing can be compared.
        """
        if self._op.force:
            return self._all(self._old, ignore_secondaries=True).deactivate()
        own = self._all(self._old, ignore_secondaries=True)
        node = self._snapshot.nodes[self._old.primary_node]

        async def check() -> None:
            await remirror.check_copy(self._environment, self._snapshot, self._old, node=node)

        action = base.Procedure("judges the state that the node reports", check)
        look = base.Step(f"check that {node.name} has complete copies of the disks", (action,))
        return [*own.activate(), look, *own.deactivate()]

    def after(self) -> list[base.Step]:
        """Remove the other node's volumes, and the metadata here."""
        there = self._all(self._old, nodes={*self._old.secondary_nodes})
        return [
            *there.remove(tolerant=True),
            *_of_metadata(self._all(_metadata(self._old)).remove(tolerant=True)),
        ]


class Copying(Conversion):
    """Every other change: new disks on the same node, and the old ones removed when all has been copied."""

    @property
    def during(self) -> instance.Instance:
        """Return the instance as it was: only the old disks are whole."""
        return self._old

    def _converted(self) -> Sequence[instance.Disk]:
        maker = self._maker(self._old.primary_node)
        found = []
        for index, (disk, (uuid, name)) in enumerate(zip(self._old.disks, self._found.made, strict=True)):
            made = maker.make(index, self._spec(disk), size=disk.size, uuid=uuid, name=name)
            found.append(structs.replace(made, mode=disk.mode))
        return found

    def _spec(self, disk: instance.Disk) -> opcodes.DiskSpec:
        """Return what is said of a new disk: its name, that of its provider, the format of a file that stays one."""
        if self._template == PROVIDED:
            return structs.replace(_provided(self._op.ext_params), name=disk.name)
        stays = self._template in templates.BY_NAME and disk.params.get("format") == QCOW2
        return opcodes.DiskSpec(name=disk.name, format=QCOW2 if stays else None)

    async def place(self) -> volumes.Places:
        """Ask the node for room."""
        new = {disk.uuid for disk in self.vm.disks}
        await volumes.check_room(self._environment, self._snapshot, self.vm, only=new)
        return await self._all(self.vm).place()

    def steps(
        self, new: instance.Instance, running: calls.RunningInstance | None, *, hotplug: bool, wait: bool
    ) -> list[base.Step]:
        """Make the new disks, fill them, and take all out of use."""
        source, sink = ((self._target, fill.fill(self._snapshot, vm)) for vm in (self._old, new))
        return [
            *self._all(self._old).activate(),
            *self._all(new).create(self._found.places),
            *self._all(transfer.writable(new)).activate(),
            *transfer.copies(self._environment, source, sink),
            *self._all(new).deactivate(),
            *self._all(self._old).deactivate(),
        ]

    def after(self) -> list[base.Step]:
        """Remove the old disks."""
        return self._all(self._old).remove(tolerant=True)


def _provided(given: entities.Parameters) -> opcodes.DiskSpec:
    """Return a disk of the provider that is described, with what only that one knows; raises InvalidError."""
    if not given.get("provider"):
        raise errors.InvalidError("no provider is named for the disks", hint="as in -e provider=NAME")
    known = templates.PARAMETERS[PROVIDED]
    own = parameters.check({name: value for name, value in given.items() if name in known}, known, what="disk")
    rest = {name: value for name, value in given.items() if name != "provider"}
    return opcodes.DiskSpec(provider=str(given["provider"]), params={**rest, **own})


def _metadata(vm: instance.Instance) -> instance.Instance:
    """Return an instance whose disks are the metadata's volumes of mirrored disks, as its primary node has them."""
    return structs.replace(vm, disks=tuple(disk.children[1] for disk in vm.disks))


def _of_metadata(steps: Sequence[base.Step]) -> list[base.Step]:
    return [replace(step, text=step.text.replace("disk", "the metadata of disk", 1)) for step in steps]

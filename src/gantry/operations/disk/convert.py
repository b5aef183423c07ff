"""Convert the disks of a stopped instance to another disk template, for ``instance.set_params``.

Between ``plain`` and ``drbd`` the data stays in its volume, which gets metadata and a copy on a second node, or loses
both. Every other conversion creates new disks on the instance's node and copies the data, as a move does
(``transfer``); the new disks have new UUIDs, the old ones are removed last.

``ask`` returns what nodes report, ``changed`` the change that follows from it; if the disks keep their template, both
delegate to ``changes``. While the steps run, the state contains the disks that must not get lost, and all numbers in
use: the mirrored disks from the first step on when disks become mirrored, otherwise the old disks.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import structs

from gantry import errors
from gantry.model import base as entities
from gantry.model import instance, lock, opcodes, parameters, templates
from gantry.operations import base, draws, fill
from gantry.operations.disk import changes
from gantry.operations.disk_planning import disk_spec, remirror, requirements, transfer, volumes
from gantry.operations.move import relocation
from gantry.operations.placement import builtin_allocator, node_choice
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

PLAIN, MIRRORED, DISKLESS, PROVIDED = "plain", "drbd", "diskless", "ext"
QCOW2: Final = "qcow2"


@dataclass(frozen=True)
class Facts:
    """What nodes reported for the new disks: a UUID and the driver's name of each, and their physical volumes.

    Further the secondary node, why it was chosen, and the values drawn for the disks that the nodes checked.
    """

    new_disks: Sequence[tuple[str, str]] = ()
    physical_volumes: volumes.PhysicalVolumes = field(default_factory=dict)
    secondary: str = ""
    why: Sequence[str] = ()
    drawn: draws.Draws = field(default_factory=draws.Draws)


AnyFacts = changes.Facts | Facts


def locks(snapshot: states.Snapshot, vm: instance.Instance, op: opcodes.InstanceSetParams) -> lock.LockSet:
    """Lock the disks that change exclusively; the node that gets copies shared, or all nodes if it must be chosen."""
    if op.disk_template != MIRRORED:
        return changes.locks(snapshot, vm, op.disks)
    node = snapshot.node(op.remote_node).uuid if op.remote_node else lock.ALL_NAMES
    return {(lock.Level.NODE, node): lock.Mode.SHARED}


async def ask(
    environment: base.Environment, snapshot: states.Snapshot, vm: instance.Instance, op: opcodes.InstanceSetParams
) -> AnyFacts:
    """Check everything that can be checked before a change; ask for names, free space and a secondary node."""
    template = op.disk_template
    if not template:
        if op.remote_node or op.ext_params:
            raise errors.InvalidError(
                f"instance {vm.name} keeps its disk template, but the request has a node or provider for new disks",
                hint="specify the new disk template with -t",
            )
        return await changes.ask(environment, snapshot, vm, op.disks)
    _check(snapshot, vm, op, template=template)
    requirements.check_stopped(vm, await requirements.running(environment, snapshot, vm))
    if not vm.disks or vm.disk_template == MIRRORED:
        return Facts()
    secondary = node_choice.Choice([])
    if template == MIRRORED:
        secondary = await _secondary(environment, snapshot, vm, op)
    uuids = tuple(environment.inputs.uuid() for _ in vm.disks)
    names = calls.BlockdevPath(dev_type=template, instance=vm.name, uuids=uuids)
    target = snapshot.target(snapshot.nodes[vm.primary_node])
    new_disks = [*zip(uuids, await environment.nodes.call(target, names), strict=True)]
    facts = Facts(new_disks, {}, "".join(node.uuid for node in secondary.nodes), secondary.why)
    recorder = draws.Recorder(environment.inputs)
    draft = _kind(vm, template)(environment, snapshot, vm, op, facts, inputs=recorder.inputs)
    return replace(facts, physical_volumes=await draft.choose_physical_volumes(), drawn=recorder.drawn())


def _check(snapshot: states.Snapshot, vm: instance.Instance, op: opcodes.InstanceSetParams, *, template: str) -> None:
    """Refuse what the configuration forbids; raises InvalidError, WrongStateError."""
    if op.disks:
        raise errors.InvalidError("disks cannot be changed and converted in the same request", hint="send two requests")
    disk_spec.check_template(snapshot, template)
    if template == vm.disk_template:
        raise errors.WrongStateError(f"the disks of instance {vm.name} already have template {template}")
    if template != MIRRORED and op.remote_node:
        raise errors.InvalidError(f"template {template} has no secondary node: omit node {op.remote_node}")
    if op.ext_params and template != PROVIDED:
        raise errors.InvalidError(f"template {template} has no storage provider", hint="omit the ext parameters")
    if template == PROVIDED and vm.disks:
        _provided(op.ext_params)
    if template == DISKLESS and vm.disks:
        raise errors.InvalidError(
            f"instance {vm.name} has disks, so it cannot become diskless",
            hint="remove or detach the disks first: gnt-instance modify --disk remove, or --disk detach",
        )
    if template == MIRRORED and not vm.disks:
        raise errors.InvalidError(f"instance {vm.name} has no disks to mirror")
    if vm.disks and MIRRORED in (template, vm.disk_template) and PLAIN not in (template, vm.disk_template):
        raise errors.InvalidError(
            f"disks of template {vm.disk_template} cannot be converted directly to {template}",
            hint=f"convert the disks to {PLAIN} first",
        )


async def _secondary(
    environment: base.Environment, snapshot: states.Snapshot, vm: instance.Instance, op: opcodes.InstanceSetParams
) -> node_choice.Choice:
    """Return the requested node for the copies if it can take them, or the built-in allocator's choice."""
    node_choice.refuse_both(op.remote_node, op.iallocator)
    if op.iallocator not in (None, "", ".", node_choice.BUILT_IN):
        raise errors.InvalidError(
            f"allocator {op.iallocator} cannot choose a secondary node alone",
            hint=f"specify the node, or {node_choice.BUILT_IN} for the built-in allocator",
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
    return await chooser.choose(need, [group], excluded=vm.nodes, units=relocation.units(vm))


def changed(
    environment: base.Environment,
    snapshot: states.Snapshot,
    vm: instance.Instance,
    op: opcodes.InstanceSetParams,
    facts: AnyFacts,
) -> changes.Change:
    """Return the change of an instance's disks that the opcode requests."""
    if isinstance(facts, changes.Facts):
        return changes.Change(environment, snapshot, vm, op.disks, facts)
    return _kind(vm, str(op.disk_template))(environment, snapshot, vm, op, facts)


def _kind(vm: instance.Instance, template: str) -> type["Conversion"]:
    if not vm.disks:
        return Conversion
    return Mirroring if template == MIRRORED else Unmirroring if vm.disk_template == MIRRORED else Copying


class Conversion(changes.Change):
    """The change of an instance without disks: only the template changes."""

    def __init__(
        self,
        environment: base.Environment,
        snapshot: states.Snapshot,
        old: instance.Instance,
        op: opcodes.InstanceSetParams,
        facts: Facts,
        *,
        inputs: draws.Inputs | None = None,
    ) -> None:
        inputs = inputs or facts.drawn.replay(environment.inputs)
        super().__init__(environment, snapshot, old, (), changes.NOTHING, inputs=inputs)
        self._op, self._node_facts, self._template = op, facts, str(op.disk_template)
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

    async def choose_physical_volumes(self) -> volumes.PhysicalVolumes:
        """Ask which physical volumes the new disks shall use; raises NoRoomError."""
        return {}


class Mirroring(Conversion):
    """``plain`` to ``drbd``; the metadata volumes get new names, so that they cannot be mistaken for older ones."""

    def _converted(self) -> Sequence[instance.Disk]:
        maker = self._maker(self._old.primary_node, self._node_facts.secondary)
        disks = []
        for index, (disk, (_, name)) in enumerate(zip(self._old.disks, self._node_facts.new_disks, strict=True)):
            spec = opcodes.DiskSpec(name=disk.name, vg=disk.logical_id[0])
            mirrored = maker.make(index, spec, size=disk.size, uuid=disk.uuid, name=name)
            data, meta = mirrored.children
            data = structs.replace(data, logical_id=disk.logical_id)
            disks.append(structs.replace(mirrored, mode=disk.mode, children=(data, meta)))
        return disks

    async def choose_physical_volumes(self) -> volumes.PhysicalVolumes:
        """Ask the secondary node for free space for all volumes, and the primary node for the metadata volumes."""
        there = self._all(self.vm, nodes={self._node_facts.secondary})
        metadata = self._all(_metadata(self.vm))
        return {**await there.choose_physical_volumes(), **await metadata.choose_physical_volumes()}

    def steps(
        self, new: instance.Instance, running: calls.RunningInstance | None, *, hotplug: bool, wait: bool
    ) -> list[base.Step]:
        """Create what is missing on both nodes, and let the secondary node copy; without ``wait`` in the background.

        If the secondary node fails meanwhile, the disks become plain again, and a warning lists what may remain on it.
        """
        physical_volumes, here = self._node_facts.physical_volumes, {new.primary_node}
        own, there = self._all(new), self._all(new, nodes={self._node_facts.secondary})
        create_metadata = self._all(_metadata(new)).create(physical_volumes)
        return [
            *base.log_steps(self._node_facts.why),
            *map(self._forgiving, there.create(physical_volumes)),
            *_of_metadata(create_metadata),
            *(self._write_metadata(disk, owner=new.name) for disk in fill.fill(self._snapshot, new).disks),
            *map(self._forgiving, there.activate(fresh=True)),
            *self._all(new, nodes=here).activate(fresh=True),
            *([*own.wait(), *own.deactivate()] if wait else []),
        ]

    def _forgiving(self, step: base.Step) -> base.Step:
        """Return a step on the secondary node whose undo only warns if that node does not answer."""
        warning = f"not undone, check the secondary node when it answers again: {step.text}"
        return replace(step, undo=base.tolerant(step.undo, errors.RemoteError, warning=warning))

    def _write_metadata(self, disk: calls.Disk, *, owner: str) -> base.Step:
        """Return the step that writes the metadata; both volumes exist, so nothing is created."""
        return base.call_step(
            f"prepare disk {disk.index} on {self._target.name} for mirroring",
            self._target,
            calls.BlockdevCreate(disk=disk, owner=owner),
            calls.BlockdevShutdown(disk=disk),
        )

    def after(self) -> list[base.Step]:
        """Return no steps: everything is in use."""
        return []


class Unmirroring(Conversion):
    """``drbd`` to ``plain``: keeps the primary node's copy, which must be complete; the peer may be unreachable."""

    @property
    def during(self) -> instance.Instance:
        """Return the instance as it was: its numbers are released when they are no longer in use."""
        return self._old

    def _converted(self) -> Sequence[instance.Disk]:
        return [
            structs.replace(disk, dev_type=PLAIN, logical_id=disk.children[0].logical_id, children=(), mirror=None)
            for disk in self._old.disks
        ]

    def steps(
        self, new: instance.Instance, running: calls.RunningInstance | None, *, hotplug: bool, wait: bool
    ) -> list[base.Step]:
        """Let both nodes compare their copies, check the primary node's copy, and deactivate both.

        ``force`` skips the check: disks whose metadata is lost cannot be compared.
        """
        if self._op.force:
            return self._all(self._old, ignore_secondaries=True).deactivate()
        own = self._all(self._old, ignore_secondaries=True)
        node = self._snapshot.nodes[self._old.primary_node]

        async def check() -> None:
            await remirror.check_copy(self._environment, self._snapshot, self._old, node=node)

        action = base.Procedure("checks the disk state that the node reports", check)
        look = base.Step(f"check that {node.name} has complete copies of the disks", (action,))
        return [*own.activate(), look, *own.deactivate()]

    def after(self) -> list[base.Step]:
        """Remove the volumes of the secondary node, and the metadata on the primary node."""
        there = self._all(self._old, nodes={*self._old.secondary_nodes})
        return [
            *there.remove(tolerant=True),
            *_of_metadata(self._all(_metadata(self._old)).remove(tolerant=True)),
        ]


class Copying(Conversion):
    """Every other conversion: creates disks on the same node, and removes the old disks when all data is copied."""

    @property
    def during(self) -> instance.Instance:
        """Return the instance as it was: only the old disks are complete."""
        return self._old

    def _converted(self) -> Sequence[instance.Disk]:
        maker = self._maker(self._old.primary_node)
        disks = []
        for index, (disk, (uuid, name)) in enumerate(zip(self._old.disks, self._node_facts.new_disks, strict=True)):
            new_disk = maker.make(index, self._spec(disk), size=disk.size, uuid=uuid, name=name)
            disks.append(structs.replace(new_disk, mode=disk.mode))
        return disks

    def _spec(self, disk: instance.Disk) -> opcodes.DiskSpec:
        """Return the specification of a new disk: the old name, the provider, the format if both are files."""
        if self._template == PROVIDED:
            return structs.replace(_provided(self._op.ext_params), name=disk.name)
        stays = self._template in templates.BY_NAME and disk.params.get("format") == QCOW2
        return opcodes.DiskSpec(name=disk.name, format=QCOW2 if stays else None)

    async def choose_physical_volumes(self) -> volumes.PhysicalVolumes:
        """Ask the node for free space and physical volumes."""
        new = {disk.uuid for disk in self.vm.disks}
        await requirements.check_free_space(self._environment, self._snapshot, self.vm, only=new)
        return await self._all(self.vm).choose_physical_volumes()

    def steps(
        self, new: instance.Instance, running: calls.RunningInstance | None, *, hotplug: bool, wait: bool
    ) -> list[base.Step]:
        """Create the new disks, copy the data, and deactivate all disks."""
        source, sink = ((self._target, fill.fill(self._snapshot, vm)) for vm in (self._old, new))
        return [
            *self._all(self._old).activate(),
            *self._all(new).create(self._node_facts.physical_volumes),
            *self._all(transfer.writable(new)).activate(),
            *transfer.copies(self._environment, source, sink),
            *self._all(new).deactivate(),
            *self._all(self._old).deactivate(),
        ]

    def after(self) -> list[base.Step]:
        """Remove the old disks."""
        return self._all(self._old).remove(tolerant=True)


def _provided(values: entities.Parameters) -> opcodes.DiskSpec:
    """Return a disk of the storage provider in the parameters, with that provider's own; raises InvalidError."""
    if not values.get("provider"):
        raise errors.InvalidError("no storage provider specified for the disks", hint="as in -e provider=NAME")
    known = templates.PARAMETERS[PROVIDED]
    own = parameters.check({name: value for name, value in values.items() if name in known}, known, noun="disk")
    provider_params = {name: value for name, value in values.items() if name != "provider"}
    return opcodes.DiskSpec(provider=str(values["provider"]), params={**provider_params, **own})


def _metadata(vm: instance.Instance) -> instance.Instance:
    """Return an instance whose disks are the metadata volumes of mirrored disks, as its primary node sees them."""
    return structs.replace(vm, disks=tuple(disk.children[1] for disk in vm.disks))


def _of_metadata(steps: Sequence[base.Step]) -> list[base.Step]:
    return [replace(step, text=step.text.replace("disk", "the metadata of disk", 1)) for step in steps]

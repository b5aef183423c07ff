"""OP_INSTANCE_CREATE: record an instance, create its disks, install or import its operating system, start it.

Everything is checked before anything is changed: names and parameters in the snapshot; OS definition, hypervisor
parameters, bridges and free space by the node. One transaction then writes the instance with its addresses; the steps
on the node follow, each with its undo (explanation/architecture.md#deciding-and-doing). Its admin state is down until
it is about to be started: a successor of a master that dies then finds it as it may run.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from gantry import errors
from gantry.model import allowed, cluster, confidential, instance, lock, opcodes, parameters
from gantry.model import base as entities
from gantry.operations import base, draws, fill, hook_environment, parameter_levels
from gantry.operations.backup import restore
from gantry.operations.disk_planning import disk_owners, disk_spec, requirements, transfer, volumes
from gantry.operations.instance import description
from gantry.operations.network import attached_ports, nics
from gantry.operations.os import os_check
from gantry.operations.placement import builtin_allocator, iallocator, node_choice
from gantry.rpc import calls, liveness, targets
from gantry.state.objects import snapshot as states


@dataclass(frozen=True)
class Facts:
    """What ``inspect`` learned: the complete opcode, the nodes (primary first) and why, the export, the drawn values.

    About the disks: UUIDs, the names that their driver gives them, sizes in MiB, adopted sources, physical volumes.
    """

    op: opcodes.InstanceCreate
    nodes: tuple[cluster.Node, ...]
    disk_uuids: tuple[str, ...]
    disk_ids: tuple[str, ...]
    sizes: Sequence[int]
    adopted: volumes.Sources = field(default_factory=dict)
    physical_volumes: volumes.PhysicalVolumes = field(default_factory=dict)
    export: restore.Source | None = None
    why: tuple[str, ...] = ()
    drawn: draws.Draws = field(default_factory=draws.Draws)


class InstanceCreate(base.Unit[opcodes.InstanceCreate, Facts]):
    """Creates an instance."""

    OPCODE = opcodes.InstanceCreate

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance name exclusively; the node (all nodes if it must be chosen) and the networks shared."""
        return _Creation(self.op, self.environment).locks(snapshot)

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Check everything that does not depend on addresses, and ask the node for what only the node knows."""
        if ("instances", self.op.instance_name) in snapshot.names:
            raise errors.ExistsError(f"instance {self.op.instance_name} exists already", hint="choose another name")
        if self.op.mode != "import":
            return await _Creation(self.op, self.environment).inspect(snapshot, None)
        export = await restore.find(self.environment, snapshot, self.op)
        # From here on, the opcode looks as if the user had passed everything that the export contains.
        return await _Creation(restore.completed(self.op, export.content), self.environment).inspect(snapshot, export)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Put the instance with its addresses; then create disks, install the operating system, start."""
        return _Creation(facts.op, self.environment).plan(snapshot, facts)


class _Creation:
    """The work on one opcode; for an import, the opcode is completed with the contents of the export."""

    def __init__(self, op: opcodes.InstanceCreate, environment: base.Environment) -> None:
        self.op = op
        self.environment = environment
        self._why: list[str] = []

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the instance name exclusively; the node (all nodes if it must be chosen) and the networks shared.

        An import has not read its export yet, so it shares everything that the export may name.
        """
        named = [self.op.pnode, self.op.src_node] if self._imports() else [self.op.pnode]
        named += [self.op.snode] if self.op.snode or self._is_mirrored(snapshot) else []
        nodes = {snapshot.node(name).uuid for name in named if name} if all(named) else {lock.ALL_NAMES}
        networks = self._networks(snapshot) or ({lock.ALL_NAMES} if self._imports() and not self.op.nics else set())
        return {
            (lock.Level.INSTANCE, self.op.instance_name): lock.Mode.EXCLUSIVE,
            **{(lock.Level.NODE, uuid): lock.Mode.SHARED for uuid in nodes},
            **{(lock.Level.NETWORK, uuid): lock.Mode.SHARED for uuid in networks},
            **attached_ports.locks(snapshot, self.op.nics),
        }

    def _networks(self, snapshot: states.Snapshot) -> set[str]:
        """Return the networks of the NICs."""
        networks = (attached_ports.network_of(snapshot, spec) for spec in self.op.nics)
        return {net.uuid for net in networks if net}

    async def inspect(self, snapshot: states.Snapshot, export: restore.Source | None) -> Facts:
        """Check what does not depend on addresses, and ask the nodes for what only they know."""
        self._check_static(snapshot)
        template, sizes = self._template(snapshot), self._sizes(snapshot)
        chosen = await self._choose_nodes(snapshot, sum(sizes))
        uuids = tuple(self.environment.inputs.uuid() for _ in sizes)
        target = snapshot.target(chosen[0])
        disk_ids: tuple[str, ...] = ()
        if sizes:
            paths = calls.BlockdevPath(dev_type=template, instance=self.op.instance_name, uuids=uuids)
            disk_ids = await self.environment.nodes.call(target, paths)
        recorder = draws.Recorder(self.environment.inputs)
        facts = Facts(self.op, chosen, uuids, disk_ids, sizes, export=export, why=tuple(self._why))
        if any(spec.adopt for spec in self.op.disks):
            draft = self._draft(snapshot, facts, self.environment.inputs, allocate=False)
            known, adopted = await requirements.adoptable(self.environment, snapshot, draft, self.op.disks)
            facts = replace(facts, sizes=known, adopted=adopted)
        draft = self._draft(snapshot, facts, recorder.inputs, allocate=False)
        facts = replace(facts, drawn=recorder.drawn())
        self._check_policy(snapshot, draft)
        new_disks = volumes.Volumes(self.environment, snapshot, draft, only={*uuids} - {*facts.adopted})
        facts = replace(facts, physical_volumes=await new_disks.choose_physical_volumes())
        whole = fill.fill(snapshot, draft)
        if self._installs() or (export and export.content.scripted):
            installed = os_check.with_secrets(whole, self.op.osparams_secret)
            await self._check_os(snapshot, target, installed, imports=export is not None)
        allowed.check(snapshot.the_cluster, whole.hypervisor, whole.hvparams)
        validate = calls.HypervisorValidate(hypervisor=whole.hypervisor, hvparams=whole.hvparams)
        await self.environment.nodes.call(target, validate)
        await self.environment.nodes.call(target, calls.NicValidate(nics=whole.nics))
        return facts

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Return the plan for the instance that ``inspect`` checked, with its addresses."""
        vm = self._draft(snapshot, facts, facts.drawn.replay(self.environment.inputs), allocate=True)
        self._check_policy(snapshot, vm)
        stopped = structs.replace(vm, admin_state=instance.AdminState.DOWN)
        whole = fill.fill(snapshot, vm)
        node = snapshot.nodes[vm.primary_node]
        names = [snapshot.nodes[uuid].name for uuid in vm.nodes]
        return base.Plan(
            lines=[*facts.why, *description.lines(snapshot, vm, names)],
            # Nothing may start it, or report that it is down, before its disks are complete.
            changes=[
                *attached_ports.changes(None, vm, now=self.environment.inputs.now),
                states.Put(stopped),
            ],
            steps=[
                *base.log_steps(facts.why),
                *self._disk_steps(snapshot, vm, facts),
                *self._steps(whole, snapshot.target(node), export=facts.export),
                *(self._start(stopped, whole, snapshot.target(node)) if self.op.start else ()),
                *self._last_steps(snapshot, vm),
            ],
            result=lambda: names,
            hooks=hook_environment.of_instance(snapshot, vm, path="instance-add", ADD_MODE=self.op.mode),
        )

    def _start(self, stopped: instance.Instance, whole: calls.Instance, on: targets.Target) -> list[base.Step]:
        """Return the step that records that the instance should run, and starts it."""
        start, stop = calls.InstanceStart(instance=whole), calls.InstanceShutdown(instance=whole, timeout=0)
        up = base.changed(stopped, self.environment.inputs.now, admin_state=instance.AdminState.UP)
        return [base.call_step(f"start {whole.name} on {on.name}", on, start, stop, changes=[states.Put(up)])]

    def _check_static(self, snapshot: states.Snapshot) -> None:
        """Refuse what can be refused without asking a node."""
        enabled = snapshot.the_cluster.enabled_hypervisors
        if self.op.hypervisor and self.op.hypervisor not in enabled:
            hint = f"enabled hypervisors: {', '.join(enabled)}"
            if self.op.hypervisor in parameters.HYPERVISORS:
                names = ",".join([*enabled, self.op.hypervisor])
                hint += f"; to enable it: gnt-cluster modify --enabled-hypervisors {names}"
            raise errors.InvalidError(f"hypervisor {self.op.hypervisor} is not enabled", hint=hint)
        parameters.instance_hypervisor(self._hypervisor(snapshot), self.op.hvparams)
        parameters.check_memory(self._backend(snapshot))
        op = self.op
        confidential.check_apart(public=op.osparams, private=op.osparams_private, secret=op.osparams_secret)
        template = self._template(snapshot)
        for index, spec in enumerate(self.op.disks):
            disk_spec.check(spec, index, template=template)
        if self.op.snode and not self._is_mirrored(snapshot):
            raise errors.InvalidError(f"template {template} has no secondary node: omit node {self.op.snode}")
        if any(spec.adopt for spec in self.op.disks) and not self.op.pnode:
            raise errors.InvalidError("adopting disks requires an explicit node", hint="add -n NODE")
        if self._installs() and not self.op.os_type:
            raise errors.InvalidError("no operating system was specified", hint="use -o OS, or --no-install")

    def _check_policy(self, snapshot: states.Snapshot, vm: instance.Instance) -> None:
        if not self.op.ignore_ipolicy:
            parameter_levels.check_policy(snapshot, vm)

    def _hypervisor(self, snapshot: states.Snapshot) -> str:
        return self.op.hypervisor or snapshot.the_cluster.enabled_hypervisors[0]

    def _template(self, snapshot: states.Snapshot) -> str:
        template = self.op.disk_template or snapshot.the_cluster.enabled_disk_templates[0]
        disk_spec.check_template(snapshot, template)
        if template == "diskless" and self.op.disks:
            raise errors.InvalidError("a diskless instance cannot have disks", hint="omit the disks")
        if template != "diskless" and not self.op.disks:
            raise errors.InvalidError(f"disk template {template} needs at least one disk", hint="--disk 0:size=1g")
        return template

    def _sizes(self, snapshot: states.Snapshot) -> list[int]:
        return [disk_spec.size(snapshot, spec, index) for index, spec in enumerate(self.op.disks)]

    def _is_mirrored(self, snapshot: states.Snapshot) -> bool:
        """Return whether the disks need a second node; True for an import whose export may say so."""
        if self._imports() and not self.op.disk_template:
            return True
        return (self.op.disk_template or snapshot.the_cluster.enabled_disk_templates[0]) == "drbd"

    def _imports(self) -> bool:
        return self.op.mode == "import"

    def _installs(self) -> bool:
        return bool(self.op.disks) and not self.op.no_install and not self._imports()

    async def _check_os(
        self, snapshot: states.Snapshot, target: targets.Target, whole: calls.Instance, *, imports: bool
    ) -> None:
        """Refuse an OS that the node cannot install (or import) for this hypervisor."""
        definition = await os_check.check(
            self.environment.nodes,
            target,
            whole,
            the_cluster=snapshot.the_cluster,
            force_variant=self.op.force_variant,
        )
        if imports and "import" not in definition.scripts:
            raise errors.WrongStateError(
                f"OS {definition.name} on node {target.name} has no import script, which this export needs"
            )

    async def _choose_nodes(self, snapshot: states.Snapshot, disk: int) -> tuple[cluster.Node, ...]:
        """Return the requested nodes if they fit, or choose nodes: the primary node, then a secondary node."""
        backend = self._backend(snapshot)
        networks = self._networks(snapshot)
        # An external storage provider does not report its free space.
        disk_mib = 0 if self._template(snapshot) == "ext" else disk
        memory, vcpus = int(backend["maxmem"]) if self.op.start else 0, int(backend["vcpus"])
        need = builtin_allocator.Need(memory, disk_mib, networks, vcpus=vcpus, tags=self.op.tags)
        if chosen_nodes := await self._ask_program(snapshot):
            return chosen_nodes
        if self.op.pnode:
            primary = await self._named(snapshot, self.op.pnode, need)
        else:
            groups, reasons = self._groups(snapshot)
            without = {snapshot.node(self.op.snode).uuid} if self.op.snode else set()
            primary = await self._choose(snapshot, need, groups, without=without, reasons=reasons)
        if not self._is_mirrored(snapshot):
            return (primary,)
        secondary_need = replace(need, memory=0, copy=True)
        if not self.op.snode:
            group = snapshot.nodegroups[primary.group]
            return primary, await self._choose(snapshot, secondary_need, [group], without={primary.uuid})
        secondary = await self._named(snapshot, self.op.snode, secondary_need)
        if secondary.uuid == primary.uuid:
            raise errors.InvalidError(f"node {primary.name} cannot be both the primary and the secondary node")
        return primary, secondary

    async def _named(self, snapshot: states.Snapshot, name: str, need: builtin_allocator.Need) -> cluster.Node:
        node = snapshot.node(name)
        status = (await self._statuses(snapshot, [node], need))[node.uuid]
        if why := builtin_allocator.unfit(snapshot, node, status, need):
            static = builtin_allocator.static_unfit(snapshot, node, need)
            no_answer = errors.WrongStateError if static else errors.EnvironmentFaultError
            fault = errors.NoRoomError if status else no_answer
            raise fault(f"node {node.name} cannot take instance {self.op.instance_name}: {why}")
        return node

    async def _choose(
        self,
        snapshot: states.Snapshot,
        need: builtin_allocator.Need,
        groups: list[cluster.NodeGroup],
        *,
        without: Collection[str],
        reasons: Sequence[str] = (),
    ) -> cluster.Node:
        """Let the built-in allocator choose a node; its reasons are kept for the log."""
        units = disk_spec.units(snapshot, self._template(snapshot), self.op.disks)
        chooser = node_choice.Allocation(self.environment, snapshot, named=node_choice.BUILT_IN)
        choice = await chooser.choose(need, groups, excluded=without, reasons=reasons, units=units)
        self._why += tuple(choice.why)
        return choice.nodes[0]

    async def _ask_program(self, snapshot: states.Snapshot) -> tuple[cluster.Node, ...] | None:
        """Return the nodes that an allocator program chooses; None if the built-in allocator decides."""
        node_choice.refuse_both(self.op.pnode, self.op.iallocator)
        chooser = node_choice.Allocation(self.environment, snapshot, named=self.op.iallocator)
        if self.op.pnode or not chooser.program:
            return None
        mirrored = self._is_mirrored(snapshot)
        request = iallocator.allocate(snapshot, self._outline(snapshot), mirrored=mirrored, group=self.op.group_name)
        raw = await chooser.ask(request)
        chosen_nodes, reason = iallocator.nodes(raw, snapshot, program=chooser.program, count=1 + mirrored)
        names = ", ".join(node.name for node in chosen_nodes)
        self._why += (f"allocator {chooser.program} chose {names}: {reason}",)
        node_choice.check_answer(snapshot, chosen_nodes, program=chooser.program)
        return tuple(chosen_nodes)

    def _groups(self, snapshot: states.Snapshot) -> tuple[list[cluster.NodeGroup], list[str]]:
        """Return the node groups that may take the instance, and the reasons against the other groups."""
        named = [snapshot.group(self.op.group_name)] if self.op.group_name else list(snapshot.nodegroups.values())
        forbidden = (lambda _: ()) if self.op.ignore_ipolicy else None
        return node_choice.open_groups(snapshot, self._outline(snapshot), named, forbidden=forbidden)

    def _outline(self, snapshot: states.Snapshot) -> instance.Instance:
        """Return the attributes of the instance that a policy checks, before the instance has a node."""
        template = self._template(snapshot)
        return instance.Instance(
            uuid="",
            name=self.op.instance_name,
            primary_node="",
            hypervisor=self._hypervisor(snapshot),
            disk_template=template,
            disks=tuple(instance.Disk(uuid="", dev_type=template, size=size) for size in self._sizes(snapshot)),
            nics=tuple(instance.Nic(uuid="", mac="") for _ in self.op.nics),
            beparams=parameters.merge({}, parameters.backend(self.op.beparams)),
        )

    async def _statuses(
        self, snapshot: states.Snapshot, nodes: list[cluster.Node], need: builtin_allocator.Need
    ) -> builtin_allocator.Statuses:
        """Ask the nodes that the configuration allows for the instance; the status of all other nodes is None."""
        asking = [snapshot.target(node) for node in nodes if not builtin_allocator.static_unfit(snapshot, node, need)]
        storage_units = disk_spec.units(snapshot, self._template(snapshot), self.op.disks)
        answers = await liveness.attend(self.environment.nodes, asking, calls.NodeInfo(storage=storage_units))
        unknown: builtin_allocator.Statuses = {node.uuid: None for node in nodes}
        return unknown | {answer.target.uuid: answer.value for answer in answers}

    def _backend(self, snapshot: states.Snapshot) -> entities.Parameters:
        own_values = parameters.merge({}, parameters.backend(self.op.beparams))
        defaults = snapshot.the_cluster.beparams.get(parameters.RESET, {})
        return parameters.fill(parameters.BACKEND, defaults, own_values)

    def _draft(
        self, snapshot: states.Snapshot, facts: Facts, inputs: draws.Inputs, *, allocate: bool
    ) -> instance.Instance:
        """Return the instance to create; without ``allocate`` its NICs have no addresses from pools yet."""
        op = self.op
        hypervisor = self._hypervisor(snapshot)
        template = self._template(snapshot)
        nodes = tuple(node.uuid for node in facts.nodes)
        maker = disk_spec.Maker(snapshot, template, nodes, inputs, self.environment.ledger.mirrors.picks())
        disks = [
            maker.make(index, spec, size=size, uuid=uuid, name=name)
            for index, (spec, size, uuid, name) in enumerate(
                zip(op.disks, facts.sizes, facts.disk_uuids, facts.disk_ids, strict=True)
            )
        ]
        disk_owners.check_distinct(
            (index, (*disk.logical_id[:-1], spec.adopt) if spec.adopt else disk.logical_id)
            for index, (spec, disk) in enumerate(zip(op.disks, disks, strict=True))
            if spec.adopt or spec.path
        )
        vm = instance.Instance(
            uuid=inputs.uuid(),
            name=op.instance_name,
            ctime=inputs.now,
            mtime=inputs.now,
            tags=op.tags,
            primary_node=nodes[0],
            hypervisor=hypervisor,
            os=op.os_type or "",
            disk_template=template,
            admin_state=instance.AdminState.UP if op.start else instance.AdminState.DOWN,
            disks=tuple(disks),
            nics=self._nics(snapshot, snapshot.nodegroups[facts.nodes[0].group], inputs, allocate=allocate),
            hvparams=parameters.merge({}, parameters.instance_hypervisor(hypervisor, op.hvparams)),
            beparams=parameters.merge({}, parameters.backend(op.beparams)),
            osparams=op.osparams,
            osparams_private=op.osparams_private,
        )
        attached_ports.check(vm)
        return vm

    def _nics(
        self, snapshot: states.Snapshot, group: cluster.NodeGroup, inputs: draws.Inputs, *, allocate: bool
    ) -> tuple[instance.Nic, ...]:
        ledger = self.environment.ledger
        allocations = ledger.allocations(snapshot) if allocate else None
        maker = nics.Maker(
            snapshot, group, inputs, macs=nics.Macs(snapshot, inputs, held_macs=ledger.macs), allocations=allocations,
            force=self.op.force, conflicts_check=self.op.conflicts_check,
        )  # fmt: skip
        return tuple(maker.make(index, spec) for index, spec in enumerate(self.op.nics))

    def _disk_steps(self, snapshot: states.Snapshot, vm: instance.Instance, facts: Facts) -> list[base.Step]:
        """Return the steps that create or adopt the disks and activate them on all nodes."""
        disks = volumes.Volumes(self.environment, snapshot, transfer.writable(vm) if facts.export else vm)
        new = volumes.Volumes(self.environment, snapshot, vm, only={*facts.disk_uuids} - {*facts.adopted})
        adopted = volumes.Volumes(self.environment, snapshot, vm, only=facts.adopted)
        steps = [*adopted.adopt(facts.adopted), *new.create(facts.physical_volumes), *disks.activate(fresh=True)]
        steps += new.wipe() if snapshot.the_cluster.prealloc_wipe_disks else []
        return steps + (disks.wait() if self.op.wait_for_sync else [])

    def _last_steps(self, snapshot: states.Snapshot, vm: instance.Instance) -> list[base.Step]:
        """Deactivate the disks of an instance that is not started, unless they are still synchronizing."""
        settled = self.op.wait_for_sync or not vm.secondary_nodes
        return volumes.Volumes(self.environment, snapshot, vm).deactivate() if settled and not self.op.start else []

    def _steps(self, whole: calls.Instance, on: targets.Target, *, export: restore.Source | None) -> list[base.Step]:
        steps: list[base.Step] = []
        debug, with_secrets = self.op.debug_level or 0, os_check.with_secrets(whole, self.op.osparams_secret)
        if export:
            steps += restore.steps(self.environment, export, with_secrets, target=on, debug=debug)
        if export and whole.os and whole.name != export.content.instance:
            steps.append(restore.rename_step(self.environment, export, with_secrets, target=on, debug=debug))
        if self._installs():
            add = calls.OsAdd(instance=with_secrets, debug=debug)
            script = os_check.script(self.environment, on, add, whole=whole)
            steps.append(base.Step(f"install {whole.os} on {whole.name}", (script,)))
        return steps

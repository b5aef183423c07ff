"""OP_INSTANCE_CREATE: record an instance, make its disks, install its operating system, start it.

All that can be refused is refused before anything is changed: names and parameters from the snapshot, OS definition,
hypervisor parameters, bridges and room by asking the node. One transaction then writes the instance with its
addresses; the steps on the node follow, each with its undo (design section 5).
"""

from dataclasses import dataclass

from gantry import errors
from gantry.model import base as entities
from gantry.model import cluster, instance, opcodes, parameters
from gantry.operations import base, filled, hooks, nics, placement
from gantry.rpc import calls, targets
from gantry.state import snapshot as states


@dataclass(frozen=True)
class Facts:
    """What the nodes said: the node chosen, the ids of the disks and their driver's names for them."""

    node: cluster.Node
    disk_uuids: tuple[str, ...]
    disk_ids: tuple[str, ...]


class InstanceCreate(base.Unit[opcodes.InstanceCreate, Facts]):
    """Creates an instance."""

    OPCODE = opcodes.InstanceCreate

    def locks(self, snapshot: states.Snapshot) -> base.LockSet:
        """Take the name; share the node, or all nodes where one is to be chosen, and the networks."""
        node = snapshot.node(self.op.pnode).uuid if self.op.pnode else base.ALL_NAMES
        networks = {spec.network for spec in self.op.nics if nics.given(spec.network)}
        return {
            (base.Level.INSTANCE, self.op.instance_name): base.Mode.EXCLUSIVE,
            (base.Level.NODE, node): base.Mode.SHARED,
            **{(base.Level.NETWORK, snapshot.network(str(name)).uuid): base.Mode.SHARED for name in networks},
        }

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Check everything that needs no address yet, and ask the node for what only it knows."""
        if ("instances", self.op.instance_name) in snapshot.names:
            raise errors.ExistsError(f"instance {self.op.instance_name} exists already", hint="choose another name")
        self._check_static(snapshot)
        template, sizes = self._template(snapshot), self._sizes(snapshot)
        node = await self._place(snapshot, sum(sizes))
        uuids = tuple(self.environment.inputs.uuid() for _ in sizes)
        target = snapshot.target(node)
        disk_ids: tuple[str, ...] = ()
        if sizes:
            paths = calls.BlockdevPath(dev_type=template, instance=self.op.instance_name, uuids=uuids)
            disk_ids = await self.environment.nodes.call(target, paths)
        if self._installs():
            await self._check_os(target, str(self.op.os_type), hypervisor=self._hypervisor(snapshot))
        draft = self._draft(snapshot, Facts(node, uuids, disk_ids), allocate=False)
        whole = filled.fill(snapshot, draft)
        validate = calls.HypervisorValidate(hypervisor=whole.hypervisor, hvparams=whole.hvparams)
        await self.environment.nodes.call(target, validate)
        await self.environment.nodes.call(target, calls.NicValidate(nics=whole.nics))
        return Facts(node, uuids, disk_ids)

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Put the instance with its addresses; then disks, operating system, start."""
        vm = self._draft(snapshot, facts, allocate=True)
        whole = filled.fill(snapshot, vm)
        node = snapshot.nodes[facts.node.uuid]
        return base.Plan(
            lines=_describe(vm, node),
            changes=[states.Put(vm)],
            steps=self._steps(whole, snapshot.target(node)),
            result=lambda: [node.name],
            hooks=hooks.of_instance(snapshot, vm, path="instance-add", ADD_MODE=self.op.mode),
        )

    def _check_static(self, snapshot: states.Snapshot) -> None:
        """Refuse what no node needs to be asked for."""
        enabled = snapshot.the_cluster.enabled_hypervisors
        if self.op.hypervisor and self.op.hypervisor not in enabled:
            raise errors.InvalidError(
                f"hypervisor {self.op.hypervisor} is not enabled", hint=f"enabled are {', '.join(enabled)}"
            )
        parameters.hypervisor(self._hypervisor(snapshot), self.op.hvparams)
        if self._installs() and not self.op.os_type:
            raise errors.InvalidError("no operating system is named", hint="gnt-os list shows them; or --no-install")

    def _hypervisor(self, snapshot: states.Snapshot) -> str:
        return self.op.hypervisor or snapshot.the_cluster.enabled_hypervisors[0]

    def _template(self, snapshot: states.Snapshot) -> str:
        enabled = snapshot.the_cluster.enabled_disk_templates
        template = self.op.disk_template or enabled[0]
        if template not in enabled:
            raise errors.InvalidError(
                f"disk template {template} is not enabled", hint=f"enabled are {', '.join(enabled)}"
            )
        if template == "diskless" and self.op.disks:
            raise errors.InvalidError("a diskless instance has no disks", hint="leave the disks out")
        if template != "diskless" and not self.op.disks:
            raise errors.InvalidError(f"an instance of template {template} needs a disk", hint="--disk 0:size=1g")
        return template

    def _sizes(self, snapshot: states.Snapshot) -> list[int]:
        """Return the sizes of the disks in MiB; ``auto`` is the cluster's default (seed "Interface changes")."""
        default = snapshot.the_cluster.default_disk_size
        sizes = [default if disk.size == "auto" else parameters.size(disk.size) for disk in self.op.disks]
        for index, (disk, size) in enumerate(zip(self.op.disks, sizes, strict=True)):
            if disk.size == "auto" and not default:
                raise errors.InvalidError(
                    f"disk {index} has no size, and the cluster has no default for it",
                    hint="say it, as in 0:size=10g; or gnt-cluster modify --defaults disksize=10g",
                )
            if size <= 0:
                raise errors.InvalidError(f"disk {index}: size {disk.size} is not above 0 MiB")
        return sizes

    def _installs(self) -> bool:
        return bool(self.op.disks) and not self.op.no_install

    async def _check_os(self, target: targets.Target, os_type: str, *, hypervisor: str) -> None:
        """Refuse an OS that the node cannot install for this hypervisor."""
        name, _, variant = os_type.partition("+")
        definition = await self.environment.nodes.call(target, calls.OsValidate(name=name))
        if definition.problem:
            raise errors.InvalidError(f"OS {name} cannot be installed: {definition.problem}")
        known = ", ".join(definition.variants) or "none"
        if definition.variants and not variant:
            raise errors.InvalidError(f"OS {name} needs a variant", hint=f"write {name}+VARIANT; it has {known}")
        if variant and variant not in definition.variants and not self.op.force_variant:
            raise errors.InvalidError(f"OS {name} has no variant {variant}", hint=f"it has {known}")
        if definition.hypervisors and hypervisor not in definition.hypervisors:
            raise errors.InvalidError(
                f"OS {name} does not support hypervisor {hypervisor}",
                hint=f"it supports {', '.join(definition.hypervisors)}",
            )

    async def _place(self, snapshot: states.Snapshot, disk: int) -> cluster.Node:
        """Return the named node when it fits, or choose one."""
        backend = self._backend(snapshot)
        networks = {snapshot.network(str(spec.network)).uuid for spec in self.op.nics if nics.given(spec.network)}
        need = placement.Need(int(backend["maxmem"]) if self.op.start else 0, disk, networks)
        if not self.op.pnode:
            return await self._choose(snapshot, need)
        node = snapshot.node(self.op.pnode)
        status = (await self._statuses(snapshot, [node], need))[node.uuid]
        if why := placement.unfit(snapshot, node, status, need):
            static = placement.static_unfit(snapshot, node, need)
            silent = errors.WrongStateError if static else errors.EnvironmentFaultError
            fault = errors.NoRoomError if status else silent
            raise fault(f"node {node.name} cannot take instance {self.op.instance_name}: {why}")
        return node

    async def _choose(self, snapshot: states.Snapshot, need: placement.Need) -> cluster.Node:
        """Ask some nodes, and more only when none of those fits: a large cluster is not asked as a whole."""
        group = snapshot.group(self.op.group_name).uuid if self.op.group_name else None
        # in an order that is the same in every run; that of the snapshot's maps is not
        left = sorted(snapshot.nodes if group is None else snapshot.nodes_in.get(group) or ())
        statuses: placement.Statuses = {}
        while left:
            some = placement.sample(left, len(statuses) or placement.ASKED, below=self.environment.inputs.below)
            found = await self._statuses(snapshot, [snapshot.nodes[uuid] for uuid in some], need)
            statuses |= found
            if placement.fitting(snapshot, found, need):
                break
        return placement.choose(snapshot, statuses, need)

    async def _statuses(
        self, snapshot: states.Snapshot, nodes: list[cluster.Node], need: placement.Need
    ) -> placement.Statuses:
        """Ask those of the nodes that the configuration does not keep the instance off."""
        asked = [snapshot.target(node) for node in nodes if not placement.static_unfit(snapshot, node, need)]
        answers = await self.environment.nodes.fan_out(asked, calls.NodeInfo())
        silent: placement.Statuses = {node.uuid: None for node in nodes}
        return silent | {answer.target.uuid: answer.value for answer in answers}

    def _backend(self, snapshot: states.Snapshot) -> entities.Parameters:
        given = parameters.merge({}, parameters.backend(self.op.beparams))
        defaults = snapshot.the_cluster.beparams.get(parameters.RESET, {})
        return parameters.fill(parameters.BACKEND, defaults, given)

    def _draft(self, snapshot: states.Snapshot, facts: Facts, *, allocate: bool) -> instance.Instance:
        """Return the instance to be; without ``allocate`` its NICs have no addresses from pools yet."""
        op, inputs = self.op, self.environment.inputs
        hypervisor = self._hypervisor(snapshot)
        template = self._template(snapshot)
        disks = tuple(
            instance.Disk(
                uuid=uuid,
                dev_type=template,
                size=size,
                name=spec.name or "",
                mode={"w": "rw", "r": "ro"}.get(spec.mode, spec.mode),
                logical_id=(template, path),
            )
            for spec, size, uuid, path in zip(
                op.disks, self._sizes(snapshot), facts.disk_uuids, facts.disk_ids, strict=True
            )
        )
        return instance.Instance(
            uuid=inputs.uuid(),
            name=op.instance_name,
            ctime=inputs.now,
            mtime=inputs.now,
            tags=op.tags,
            primary_node=facts.node.uuid,
            hypervisor=hypervisor,
            os=op.os_type or "",
            disk_template=template,
            admin_state=instance.AdminState.UP if op.start else instance.AdminState.DOWN,
            disks=disks,
            nics=self._nics(snapshot, snapshot.nodegroups[facts.node.group], allocate=allocate),
            hvparams=parameters.merge({}, parameters.hypervisor(hypervisor, op.hvparams)),
            beparams=parameters.merge({}, parameters.backend(op.beparams)),
            osparams=op.osparams,
        )

    def _nics(self, snapshot: states.Snapshot, group: cluster.NodeGroup, *, allocate: bool) -> tuple[instance.Nic, ...]:
        allocations = self.environment.ledger.allocations(snapshot) if allocate else None
        maker = nics.Maker(
            snapshot, group, self.environment.inputs, allocations=allocations, force=self.op.force,
            conflicts_check=self.op.conflicts_check,
        )  # fmt: skip
        return tuple(maker.make(index, spec) for index, spec in enumerate(self.op.nics))

    def _steps(self, whole: calls.Instance, target: targets.Target) -> list[base.Step]:
        nodes = self.environment.nodes

        def call(what: calls.Call[object]) -> base.Action:
            async def action() -> None:
                await nodes.call(target, what)

            return action

        steps = [
            base.Step(
                f"create disk {disk.index} of {disk.size} MiB on {target.name}",
                call(calls.BlockdevCreate(disk=disk, owner=whole.name)),
                call(calls.BlockdevRemove(disk=disk, owner=whole.name)),
            )
            for disk in whole.disks
        ]
        if self._installs():
            add = calls.OsAdd(instance=whole, debug=self.op.debug_level or 0)
            steps.append(base.Step(f"install {whole.os} on {whole.name}", call(add)))
        if self.op.start:
            stop = calls.InstanceShutdown(instance=whole, timeout=0)
            steps.append(
                base.Step(f"start {whole.name} on {target.name}", call(calls.InstanceStart(instance=whole)), call(stop))
            )
        return steps


def _describe(vm: instance.Instance, node: cluster.Node) -> list[str]:
    lines = [f"create instance {vm.name} on {node.name}, hypervisor {vm.hypervisor}"]
    lines += [f"create disk {index} of {disk.size} MiB ({disk.dev_type})" for index, disk in enumerate(vm.disks)]
    lines += [f"NIC {index}: {nic.mac}, addresses {', '.join(nic.ip) or 'none'}" for index, nic in enumerate(vm.nics)]
    if vm.os and vm.disks:
        lines.append(f"install {vm.os}")
    if vm.admin_state is instance.AdminState.UP:
        lines.append("start it")
    return lines

"""What all moves of an instance share: possible targets, checks of a target, steps, hooks.

Called by the units of ``failover``, ``migration``, ``move`` and ``node.evacuate``. A move locks its instance
exclusively, its nodes and target shared, so different instances move side by side. All moves keep an order, so that an
instance never runs twice: it stops, or is sent completely, at the source; the state records the target node; it
starts at the target. The watcher (``doors.watcher``) starts a stopped instance on the node in the state.
"""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from gantry import errors
from gantry.model import cluster, instance, lock, parameters, templates
from gantry.operations import base, fill, hook_environment, parameter_levels
from gantry.operations.disk_planning import volumes
from gantry.operations.placement import builtin_allocator, node_choice
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

ANYWHERE = ("diskless", *templates.SHARED)
"""Templates whose disks every node can use."""

LOCAL = ("file", "plain")
"""Templates whose disks exist on a single node."""


def locks(snapshot: states.Snapshot, vm: instance.Instance, *, target: str | None) -> lock.LockSet:
    """Lock the instance exclusively; its nodes and the target (a name) shared, or all nodes if it must be chosen."""
    names = [*vm.nodes, snapshot.node(target).uuid] if target else list(vm.nodes)
    if target is None and not vm.secondary_nodes:
        names = [lock.ALL_NAMES]
    return {
        (lock.Level.INSTANCE, vm.uuid): lock.Mode.EXCLUSIVE,
        **{(lock.Level.NODE, name): lock.Mode.SHARED for name in names},
    }


def check_in_use(vm: instance.Instance) -> None:
    """Refuse an instance that is marked offline."""
    if vm.admin_state is instance.AdminState.OFFLINE:
        raise errors.WrongStateError(f"instance {vm.name} is marked offline", hint="gnt-instance modify --online")


def check_mobile(snapshot: states.Snapshot, vm: instance.Instance) -> None:
    """Refuse an instance whose disks exist on its own node alone."""
    if vm.disk_template not in ANYWHERE and not vm.secondary_nodes:
        node = snapshot.nodes[vm.primary_node]
        hint = f"gnt-instance move copies them while the instance is stopped: gnt-instance move -n NODE {vm.name}"
        if node.offline:
            hint = (
                f"bring node {node.name} back (gnt-node modify --offline no {node.name}), or restore an export with "
                "gnt-backup import"
            )
        raise errors.WrongStateError(
            f"the disks of instance {vm.name} ({vm.disk_template}) exist on its node {node.name} alone", hint=hint
        )


def need(
    snapshot: states.Snapshot, vm: instance.Instance, *, runs: bool, disks: bool = False
) -> builtin_allocator.Need:
    """Return what an instance needs on the node that it moves to; with ``disks`` also free space for its disks."""
    backend = parameters.fill_backend(snapshot.the_cluster, vm)
    return builtin_allocator.Need(
        memory=int(backend["maxmem"]) if runs else 0,
        disk=sum(disk.size for disk in vm.disks) if disks else 0,
        networks={nic.network for nic in vm.nics if nic.network},
        vcpus=int(backend["vcpus"]),
        tags=vm.tags,
        ignored=(vm.uuid,),
    )


def check_target(
    snapshot: states.Snapshot, vm: instance.Instance, node: cluster.Node, *, ignore_policy: bool = False
) -> None:
    """Refuse a node that the configuration forbids for the instance; raises WrongStateError, InvalidError."""
    if node.uuid == vm.primary_node:
        raise errors.WrongStateError(f"node {node.name} is already the primary node of instance {vm.name}")
    if reason := builtin_allocator.static_unfit(snapshot, node, need(snapshot, vm, runs=True)):
        raise errors.WrongStateError(f"node {node.name} cannot take instance {vm.name}: {reason}")
    if vm.secondary_nodes:
        check_group(snapshot, vm, node)
    if not ignore_policy:
        check_policy(snapshot, vm, node)


def check_policy(snapshot: states.Snapshot, vm: instance.Instance, node: cluster.Node) -> None:
    """Refuse a node of another group whose instance policy forbids the instance; raises InvalidError."""
    group = snapshot.nodegroups[node.group]
    if group.uuid == snapshot.nodes[vm.primary_node].group:
        return
    if violations := parameter_levels.violations(snapshot, vm, group=group.uuid):
        raise errors.InvalidError(
            f"instance {vm.name} violates the instance policy of node group {group.name}: {'; '.join(violations)}",
            hint="gnt-group info shows the policy; --ignore-ipolicy ignores it",
        )


def check_group(snapshot: states.Snapshot, vm: instance.Instance, node: cluster.Node) -> None:
    """Refuse to have the copies of mirrored disks in two node groups."""
    if node.group != snapshot.nodes[vm.primary_node].group:
        raise errors.WrongStateError(
            f"node {node.name} is not in the node group of the other copy of the disks of instance {vm.name}",
            hint=f"gnt-instance change-group --to {snapshot.nodegroups[node.group].name} {vm.name}",
        )


def check_copy_target(
    snapshot: states.Snapshot, vm: instance.Instance, node: cluster.Node, requirements: builtin_allocator.Need
) -> None:
    """Refuse a node that the configuration forbids for a copy of the disks; raises WrongStateError."""
    if node.uuid in vm.nodes:
        raise errors.WrongStateError(f"node {node.name} already has the disks of instance {vm.name}")
    if reason := builtin_allocator.static_unfit(snapshot, node, requirements):
        raise errors.WrongStateError(f"node {node.name} cannot take the disks of instance {vm.name}: {reason}")


async def check_fits(
    environment: base.Environment,
    snapshot: states.Snapshot,
    vm: instance.Instance,
    *,
    node: cluster.Node,
    requirements: builtin_allocator.Need,
    units: tuple[calls.StorageUnit, ...] = (),
) -> None:
    """Check the target's free space, hypervisor and networks; raises NoRoomError or the node's error."""
    target = snapshot.target(node)
    status = await environment.nodes.call(target, calls.NodeInfo(storage=units))
    if problem := builtin_allocator.unfit(snapshot, node, status, requirements):
        raise errors.NoRoomError(f"node {node.name} cannot take instance {vm.name}: {problem}")
    whole = fill.fill(snapshot, vm)
    if vm.disk_template == "sharedfile":
        disk_states = await environment.nodes.call(target, calls.BlockdevStatus(disks=whole.disks))
        for disk in (disk for disk, state in zip(whole.disks, disk_states, strict=True) if state is None):
            raise errors.WrongStateError(
                f"node {node.name} does not reach disk {disk.index} of instance {vm.name}",
                hint=f"check that the shared folder is mounted there; the disk is {disk.logical_id[-1]}",
            )
    validate = calls.HypervisorValidate(hypervisor=whole.hypervisor, hvparams=whole.hvparams)
    await environment.nodes.call(target, validate)
    await environment.nodes.call(target, calls.NicValidate(nics=whole.nics))


def units(*vms: instance.Instance) -> tuple[calls.StorageUnit, ...]:
    """Return the storage units that the disks of instances are in, to ask nodes for their free space."""
    storage_units = []
    for disk in (disk for vm in vms for disk in vm.disks):
        groups = [part.logical_id[0] for part in disk.children or (disk,)]
        in_group = disk.dev_type in templates.IN_VOLUME_GROUPS
        storage_units += [calls.StorageUnit(kind=disk.dev_type, name=name if in_group else "") for name in groups]
    return tuple(dict.fromkeys(storage_units))


async def names(
    environment: base.Environment, snapshot: states.Snapshot, vm: instance.Instance, *, node: cluster.Node
) -> tuple[str, ...]:
    """Ask a node for the names that local disks of an instance would have there."""
    paths = calls.BlockdevPath(dev_type=vm.disk_template, instance=vm.name, uuids=tuple(disk.uuid for disk in vm.disks))
    return await environment.nodes.call(snapshot.target(node), paths)


def renamed(disks: Sequence[instance.Disk], names: Sequence[str]) -> tuple[instance.Disk, ...]:
    """Return disks with the names that they have on another node."""
    return tuple(
        structs.replace(disk, logical_id=(disk.logical_id[0], name)) for disk, name in zip(disks, names, strict=True)
    )


async def running(
    environment: base.Environment, snapshot: states.Snapshot, vm: instance.Instance, node: str
) -> calls.RunningInstance | None:
    """Ask a node (a UUID) whether it runs an instance; raises RemoteError."""
    target = snapshot.target(snapshot.nodes[node])
    return await environment.nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name))


def moved(vm: instance.Instance, now: float, *, primary: str, **fields: object) -> instance.Instance:
    """Return the instance on its new node, with further changed fields."""
    return base.changed(vm, now, primary_node=primary, **fields)


async def target(
    environment: base.Environment,
    snapshot: states.Snapshot,
    vm: instance.Instance,
    *,
    requirements: builtin_allocator.Need,
    named: str | None,
    iallocator: str | None,
) -> tuple[cluster.Node, Sequence[str]]:
    """Return the target of a move, and why: the requested node, the secondary node, or an allocator's choice."""
    node_choice.refuse_both(named, iallocator)
    if named:
        return snapshot.node(named), ()
    if vm.secondary_nodes:
        if iallocator:
            raise errors.InvalidError(
                f"instance {vm.name} goes to its secondary node, so an allocator cannot choose the target",
                hint="specify another node with -n",
            )
        return snapshot.nodes[vm.secondary_nodes[0]], ()
    choice = await node_choice.Allocation(environment, snapshot, named=iallocator).relocate(
        vm, requirements, leaves=vm.primary_node
    )
    return choice.nodes[0], choice.why


class Work:
    """The steps that stop an instance on its old node, and start it on its new node."""

    def __init__(
        self,
        environment: base.Environment,
        snapshot: states.Snapshot,
        old: instance.Instance,
        *,
        new: instance.Instance,
        timeout: float = 0.0,
    ) -> None:
        self._environment = environment
        self._source = snapshot.target(snapshot.nodes[old.primary_node])
        self._target = snapshot.target(snapshot.nodes[new.primary_node])
        self._leaving = fill.fill(snapshot, old)
        self._coming = fill.fill(snapshot, new)
        self._old_disks = volumes.Volumes(environment, snapshot, old, nodes=[old.primary_node])
        self._new_disks = volumes.Volumes(environment, snapshot, new, ignore_secondaries=True)
        self._timeout = timeout

    def leave(self, *, runs: bool, lenient: bool = False) -> list[base.Step]:
        """Return the steps that stop the instance and deactivate its disks; empty if its node is offline.

        Their undo activates the disks again and, if it ``runs``, starts the instance.
        """
        if self._source.offline:
            return []
        name, whole, node = self._leaving.name, self._leaving, self._source

        stop = calls.InstanceShutdown(instance=whole, timeout=self._timeout)
        steps = [
            base.call_step(f"stop {name} on {node.name}", node, stop, calls.InstanceStart(instance=whole)),
            *self._old_disks.deactivate(),
        ]
        steps = [step if runs else replace(step, undo=()) for step in steps]
        if not lenient:
            return steps
        warning = "ignored, as requested"
        return [replace(step, do=base.tolerant(step.do, errors.RemoteError, warning=warning)) for step in steps]

    def arrive(self) -> list[base.Step]:
        """Return the steps that activate the instance's disks and start it."""
        whole, node = self._coming, self._target
        start = calls.InstanceStart(instance=whole)
        return [*self._new_disks.activate(), base.call_step(f"start {whole.name} on {node.name}", node, start)]


def hooks(
    snapshot: states.Snapshot, vm: instance.Instance, *, new: instance.Instance, path: str, **more: str | bool | int
) -> base.Hooks:
    """Return the hooks around a move: before on the master and the target, after also on the source."""
    old_secondary, new_secondary = (
        " ".join(snapshot.nodes[uuid].name for uuid in side.secondary_nodes) for side in (vm, new)
    )
    own = hook_environment.of_instance(
        snapshot,
        vm,
        path=path,
        planned=None,
        OLD_PRIMARY=snapshot.nodes[vm.primary_node].name,
        NEW_PRIMARY=snapshot.nodes[new.primary_node].name,
        OLD_SECONDARY=old_secondary,
        NEW_SECONDARY=new_secondary,
        **more,
    )
    known = dict.fromkeys((snapshot.the_cluster.master_node, vm.primary_node, new.primary_node))
    online = [snapshot.target(snapshot.nodes[uuid]) for uuid in known if not snapshot.nodes[uuid].offline]
    leaving = {vm.primary_node} - {snapshot.the_cluster.master_node}
    return replace(
        own, nodes_pre=[target_node for target_node in online if target_node.uuid not in leaving], nodes_post=online
    )

"""What all moves of an instance share: where it may go, whether it fits there, what is told of it.

Called by the units of ``failover``, ``migration``, ``move`` and ``node.evacuate``. Locks are the instance, and its
nodes and the target shared, so that as many moves go on side by side as there are instances. That it runs in one place
only is kept by an order that every move follows: it is stopped, or has left, at the source; then the state says that
its node is the target; then it begins there. Whoever starts what is down (``doors.watcher``) does it where the state
says.
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
from gantry.state import snapshot as states

ANYWHERE = ("diskless", *templates.SHARED)
"""Templates whose disks every node reaches."""

LOCAL = ("file", "plain")
"""Templates whose disks only their own node has."""


def locks(snapshot: states.Snapshot, vm: instance.Instance, *, target: str | None) -> lock.LockSet:
    """Take the instance; share its nodes and the target (a name), or all nodes where a target is to be chosen."""
    names = [*vm.nodes, snapshot.node(target).uuid] if target else list(vm.nodes)
    if target is None and not vm.secondary_nodes:
        names = [lock.ALL_NAMES]
    return {
        (lock.Level.INSTANCE, vm.uuid): lock.Mode.EXCLUSIVE,
        **{(lock.Level.NODE, name): lock.Mode.SHARED for name in names},
    }


def check_in_use(vm: instance.Instance) -> None:
    """Refuse an instance that was put aside."""
    if vm.admin_state is instance.AdminState.OFFLINE:
        raise errors.WrongStateError(f"instance {vm.name} is marked offline", hint="gnt-instance modify --online")


def check_mobile(vm: instance.Instance) -> None:
    """Refuse an instance whose disks only its own node has."""
    if vm.disk_template not in ANYWHERE and not vm.secondary_nodes:
        raise errors.WrongStateError(
            f"the disks of instance {vm.name} ({vm.disk_template}) are on its node alone",
            hint=f"gnt-instance move copies them while it stands still: gnt-instance move -n NODE {vm.name}",
        )


def need(
    snapshot: states.Snapshot, vm: instance.Instance, *, runs: bool, disks: bool = False
) -> builtin_allocator.Need:
    """Return what an instance asks of the node that it moves to; with ``disks`` it needs room for them too."""
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
    """Refuse a node that the configuration keeps the instance off; raises WrongStateError, InvalidError."""
    if node.uuid == vm.primary_node:
        raise errors.WrongStateError(f"node {node.name} is the primary node of instance {vm.name} already")
    if why := builtin_allocator.static_unfit(snapshot, node, need(snapshot, vm, runs=True)):
        raise errors.WrongStateError(f"node {node.name} cannot take instance {vm.name}: {why}")
    if vm.secondary_nodes:
        check_group(snapshot, vm, node)
    if not ignore_policy and node.group != snapshot.nodes[vm.primary_node].group:
        group = snapshot.nodegroups[node.group]
        if broken := parameter_levels.violations(snapshot, vm, group=group.uuid):
            raise errors.InvalidError(
                f"instance {vm.name} does not fit the policy of node group {group.name}: {'; '.join(broken)}",
                hint="--ignore-ipolicy lets it be; gnt-group info shows the policy",
            )


def check_group(snapshot: states.Snapshot, vm: instance.Instance, node: cluster.Node) -> None:
    """Refuse to have the copies of mirrored disks in two node groups."""
    if node.group != snapshot.nodes[vm.primary_node].group:
        raise errors.WrongStateError(
            f"node {node.name} is in another node group than the other copy of the disks of instance {vm.name}",
            hint=f"gnt-instance change-group --to {snapshot.nodegroups[node.group].name} {vm.name}",
        )


def check_copy_target(
    snapshot: states.Snapshot, vm: instance.Instance, node: cluster.Node, wanted: builtin_allocator.Need
) -> None:
    """Refuse a node that cannot get another copy of the disks by what is known of it; raises WrongStateError."""
    if node.uuid in vm.nodes:
        raise errors.WrongStateError(f"node {node.name} keeps the disks of instance {vm.name} already")
    if why := builtin_allocator.static_unfit(snapshot, node, wanted):
        raise errors.WrongStateError(f"node {node.name} cannot take the disks of instance {vm.name}: {why}")


async def check_room(
    environment: base.Environment,
    snapshot: states.Snapshot,
    vm: instance.Instance,
    *,
    node: cluster.Node,
    wanted: builtin_allocator.Need,
    units: tuple[calls.StorageUnit, ...] = (),
) -> None:
    """Ask the target for room, and whether it can plug the instance in; raises NoRoomError or what the node says."""
    target = snapshot.target(node)
    status = await environment.nodes.call(target, calls.NodeInfo(storage=units))
    if why := builtin_allocator.unfit(snapshot, node, status, wanted):
        raise errors.NoRoomError(f"node {node.name} cannot take instance {vm.name}: {why}")
    whole = fill.fill(snapshot, vm)
    if vm.disk_template == "sharedfile":
        found = await environment.nodes.call(target, calls.BlockdevStatus(disks=whole.disks))
        for disk in (disk for disk, state in zip(whole.disks, found, strict=True) if state is None):
            raise errors.WrongStateError(
                f"node {node.name} does not reach disk {disk.index} of instance {vm.name}",
                hint=f"is the shared folder mounted there? The disk is {disk.logical_id[-1]}",
            )
    validate = calls.HypervisorValidate(hypervisor=whole.hypervisor, hvparams=whole.hvparams)
    await environment.nodes.call(target, validate)
    await environment.nodes.call(target, calls.NicValidate(nics=whole.nics))


def units(*vms: instance.Instance) -> tuple[calls.StorageUnit, ...]:
    """Return the places that the disks of instances are taken from, for a look at their room."""
    found = []
    for disk in (disk for vm in vms for disk in vm.disks):
        groups = [part.logical_id[0] for part in disk.children or (disk,)]
        kept = disk.dev_type in templates.IN_VOLUME_GROUPS
        found += [calls.StorageUnit(kind=disk.dev_type, name=name if kept else "") for name in groups]
    return tuple(dict.fromkeys(found))


async def names(
    environment: base.Environment, snapshot: states.Snapshot, vm: instance.Instance, *, node: cluster.Node
) -> tuple[str, ...]:
    """Ask a node what the disks of an instance that are its own alone are called there."""
    paths = calls.BlockdevPath(dev_type=vm.disk_template, instance=vm.name, uuids=tuple(disk.uuid for disk in vm.disks))
    return await environment.nodes.call(snapshot.target(node), paths)


def renamed(disks: Sequence[instance.Disk], names: Sequence[str]) -> tuple[instance.Disk, ...]:
    """Return disks as they are called on another node."""
    return tuple(
        structs.replace(disk, logical_id=(disk.logical_id[0], name)) for disk, name in zip(disks, names, strict=True)
    )


async def running(
    environment: base.Environment, snapshot: states.Snapshot, vm: instance.Instance, node: str
) -> calls.RunningInstance | None:
    """Ask a node (a UUID) what it has of an instance; raises RemoteError."""
    target = snapshot.target(snapshot.nodes[node])
    return await environment.nodes.call(target, calls.InstanceInfo(hypervisor=vm.hypervisor, name=vm.name))


def moved(vm: instance.Instance, now: float, *, primary: str, **fields: object) -> instance.Instance:
    """Return the instance on its new node, with what else changes of it."""
    return base.changed(vm, now, primary_node=primary, **fields)


async def target(
    environment: base.Environment,
    snapshot: states.Snapshot,
    vm: instance.Instance,
    *,
    wanted: builtin_allocator.Need,
    named: str | None,
    iallocator: str | None,
) -> tuple[cluster.Node, Sequence[str]]:
    """Return where an instance goes, and why: the node named, its secondary one, or what an allocator says."""
    node_choice.refuse_both(named, iallocator)
    if named:
        return snapshot.node(named), ()
    if vm.secondary_nodes:
        if iallocator:
            raise errors.InvalidError(
                f"instance {vm.name} goes to its secondary node, which no allocator has to choose",
                hint="-n names another one",
            )
        return snapshot.nodes[vm.secondary_nodes[0]], ()
    choice = await node_choice.Allocation(environment, snapshot, named=iallocator).relocate(
        vm, wanted, leaves=vm.primary_node
    )
    return choice.nodes[0], choice.why


class Work:
    """The steps that end an instance on the node it leaves, and begin it on the one that it comes to."""

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
        """Return the steps that stop it and give its disks up; where its node is offline, there are none.

        Their undo takes the disks into use again and starts it, if it ``runs``.
        """
        if self._source.offline:
            return []
        name, whole, where = self._leaving.name, self._leaving, self._source

        stop = calls.InstanceShutdown(instance=whole, timeout=self._timeout)
        steps = [
            base.call_step(f"stop {name} on {where.name}", where, stop, calls.InstanceStart(instance=whole)),
            *self._old_disks.deactivate(),
        ]
        steps = [step if runs else replace(step, undo=()) for step in steps]
        if not lenient:
            return steps
        warning = "ignored, as requested"
        return [replace(step, do=base.tolerant(step.do, errors.RemoteError, warning=warning)) for step in steps]

    def arrive(self) -> list[base.Step]:
        """Return the steps that take its disks into use and start it."""
        whole, where = self._coming, self._target
        start = calls.InstanceStart(instance=whole)
        return [*self._new_disks.activate(), base.call_step(f"start {whole.name} on {where.name}", where, start)]


def told(
    snapshot: states.Snapshot, vm: instance.Instance, *, new: instance.Instance, path: str, **more: str | bool | int
) -> base.Hooks:
    """Return the hooks around a move: the master and the target before, the source too afterwards."""
    old_secondary, new_secondary = (
        " ".join(snapshot.nodes[one].name for one in at.secondary_nodes) for at in (vm, new)
    )
    made = hook_environment.of_instance(
        snapshot,
        vm,
        path=path,
        wanted=None,
        OLD_PRIMARY=snapshot.nodes[vm.primary_node].name,
        NEW_PRIMARY=snapshot.nodes[new.primary_node].name,
        OLD_SECONDARY=old_secondary,
        NEW_SECONDARY=new_secondary,
        **more,
    )
    known = dict.fromkeys((snapshot.the_cluster.master_node, vm.primary_node, new.primary_node))
    online = [snapshot.target(snapshot.nodes[uuid]) for uuid in known if not snapshot.nodes[uuid].offline]
    leaving = {vm.primary_node} - {snapshot.the_cluster.master_node}
    return replace(made, nodes_pre=[one for one in online if one.uuid not in leaving], nodes_post=online)

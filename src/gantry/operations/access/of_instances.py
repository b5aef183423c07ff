"""The needs of opcodes about instances, and of those that move the instances of nodes and node groups.

An instance stays in its node group without a further right; another group needs one. A NIC needs the right to connect
to its network.
"""

import msgspec

from gantry.model import allowed, cluster, instance, opcodes
from gantry.operations.access import rights
from gantry.operations.access.rights import Finder, Needs, Right
from gantry.state.objects import snapshot as states

_DISK_FIELDS = frozenset({"size", "mode", "name", "spindles"})
_WIRED = ("mode", "link", "vlan", "bridge")
"""The fields of a NIC that attach it to something else than a network of the cluster."""


def _target(snapshot: states.Snapshot, vm: instance.Instance, name: str | None) -> Needs:
    """Yield the need of the node group that an instance moves to; an allocator may choose any."""
    own = snapshot.nodes[vm.primary_node].group
    if name or vm.secondary_nodes:
        yield from rights.of_nodes(snapshot, [name] if name else vm.secondary_nodes, own=own)
    else:
        yield from (rights.on_group(group) for uuid, group in sorted(snapshot.nodegroups.items()) if uuid != own)


def _instances_on(snapshot: states.Snapshot, node: cluster.Node) -> Needs:
    """Yield the needs of moving what is on a node: its instances, and those with a copy of their disks there."""
    yield rights.on_group(snapshot.nodegroups[node.group])
    uuids = {**dict(snapshot.on_node.get(node.uuid, {})), **dict(snapshot.copies_on.get(node.uuid, {}))}
    yield from (rights.on_instance(snapshot, snapshot.instances[uuid], Right.MANAGE) for uuid in sorted(uuids))


def about(right: Right, *plain: str, more: tuple[str, ...] = ()) -> Finder:
    """Return the finder for opcodes about one instance; a field of ``more`` needs ``manage``."""

    def find(snapshot: states.Snapshot, op: opcodes.Opcode) -> Needs:
        vm = snapshot.instance(str(getattr(op, op.DESCRIBES)))
        needed = Right.MANAGE if not {*more}.isdisjoint(rights.set_fields(op)) else right
        yield rights.on_instance(snapshot, vm, needed)
        yield from rights.beyond(op, op.DESCRIBES, *plain, *more)

    return find


def startup(snapshot: states.Snapshot, op: opcodes.InstanceStartup) -> Needs:
    """Yield the needs of a start; parameters of this start are a change of the instance."""
    yield from about(Right.OPERATE, "no_remember", "startup_paused", more=("force", "hvparams"))(snapshot, op)
    yield from rights.of_parameters(op.hvparams)


def create(snapshot: states.Snapshot, op: opcodes.InstanceCreate) -> Needs:
    """Yield the needs of a new instance: its node groups, networks and tags."""
    nodes, named = [op.pnode, op.snode], [op.group_name] if op.group_name else []
    yield from rights.of_groups(snapshot, named) if named or not op.pnode else ()
    yield from rights.of_nodes(snapshot, nodes)
    hypervisor = op.hypervisor or snapshot.the_cluster.enabled_hypervisors[0]
    if hypervisor in allowed.ROOT_HYPERVISORS:
        yield rights.administer(f"create an instance of the hypervisor {hypervisor}")
    yield from rights.beyond(
        op,
        *("instance_name", "disks", "nics", "disk_template", "os_type", "pnode", "snode", "group_name", "hypervisor"),
        *("hvparams", "beparams", "osparams", "osparams_private", "osparams_secret", "start", "wait_for_sync"),
        *("no_install", "tags"),
    )
    yield from rights.of_parameters(op.hvparams)
    yield from rights.of_tags(snapshot, op.tags)
    for disk in op.disks:
        yield from _disk(disk)
    for nic in op.nics:
        yield from _new_nic(snapshot, nic)


def _disk(disk: msgspec.Struct) -> Needs:
    for name in rights.set_fields(disk):
        if name not in _DISK_FIELDS:
            yield rights.administer(f"set {name} of a disk")


def _wired(nic: opcodes.NicSpec | opcodes.NicMod) -> Needs:
    """Yield the needs of the named network and port of a NIC, and of a link of its own."""
    for name in _WIRED:
        if getattr(nic, name) is not None:
            yield rights.administer(f"set {name} of a NIC")


def _joined(snapshot: states.Snapshot, nic: opcodes.NicSpec | opcodes.NicMod) -> Needs:
    if nic.port:
        port = snapshot.port(nic.port)
        yield rights.on_network(snapshot.networks[port.network], Right.CONFIGURE)
        yield from rights.of_project(snapshot, port.project)
    if nic.network and nic.network.lower() != "none":
        yield rights.on_network(snapshot.network(nic.network), Right.CONNECT)
    elif nic.network is not None or not nic.port:
        yield rights.administer("attach a NIC to no network")


def _new_nic(snapshot: states.Snapshot, nic: opcodes.NicSpec | opcodes.NicMod) -> Needs:
    yield from _wired(nic)
    yield from _joined(snapshot, nic)


def _changed_nic(snapshot: states.Snapshot, vm: instance.Instance, nic: opcodes.NicMod) -> Needs:
    """Yield the needs of a change of any NIC of an instance: an earlier change of the opcode may move its index."""
    if {*rights.set_fields(nic)} <= {"name"}:
        return
    yield from _wired(nic)
    for uuid in dict.fromkeys(each.network for each in vm.nics if each.network):
        yield rights.on_network(snapshot.networks[uuid], Right.CONNECT)
    if nic.network is not None or nic.port:
        yield from _joined(snapshot, nic)
    elif not all(each.network for each in vm.nics):
        yield rights.administer(f"change a NIC of instance {vm.name}, which has one without a network")


def set_instance(snapshot: states.Snapshot, op: opcodes.InstanceSetParams) -> Needs:
    """Yield the needs of a change of NICs, disks and parameters."""
    yield from about(
        Right.MANAGE,
        *("nics", "disks", "wait_for_sync", "hvparams", "beparams", "osparams", "osparams_private", "hotplug"),
        *("hotplug_if_possible", "runtime_mem", "offline"),
    )(snapshot, op)
    yield from rights.of_parameters(op.hvparams)
    vm = snapshot.instance(op.instance_name)
    for nic_change in op.nics:
        nic = nic_change.target if isinstance(nic_change.target, opcodes.NicMod) else nic_change.nic
        if nic_change.action == "add":
            yield from _new_nic(snapshot, nic)
        elif nic_change.action != "remove":
            yield from _changed_nic(snapshot, vm, nic)
    for disk_change in op.disks:
        if disk_change.action in ("attach", "detach"):
            yield rights.administer(f"{disk_change.action} a disk")
        yield from _disk(disk_change.target if isinstance(disk_change.target, opcodes.DiskMod) else disk_change.disk)


def failover(snapshot: states.Snapshot, op: opcodes.InstanceFailover) -> Needs:
    """Yield the needs of a failover."""
    plain = ("target_node", "shutdown_timeout", "cleanup", "keep", "wait_for_sync")
    yield from about(Right.MANAGE, *plain)(snapshot, op)
    yield from _target(snapshot, snapshot.instance(op.instance_name), op.target_node)


def migrate(snapshot: states.Snapshot, op: opcodes.InstanceMigrate) -> Needs:
    """Yield the needs of a migration."""
    plain = ("mode", "live", "target_node", "cleanup", "allow_failover", "allow_runtime_changes", "ignore_hvversions")
    yield from about(Right.MANAGE, *plain)(snapshot, op)
    yield from _target(snapshot, snapshot.instance(op.instance_name), op.target_node)


def move(snapshot: states.Snapshot, op: opcodes.InstanceMove) -> Needs:
    """Yield the needs of a move with a copy of the disks."""
    yield from about(Right.MANAGE, "target_node", "shutdown_timeout", "compress")(snapshot, op)
    yield from _target(snapshot, snapshot.instance(op.instance_name), op.target_node)


def change_group(snapshot: states.Snapshot, op: opcodes.InstanceChangeGroup) -> Needs:
    """Yield the needs of a move to another node group."""
    yield from about(Right.MANAGE, "target_groups", "early_release")(snapshot, op)
    yield from rights.of_groups(snapshot, op.target_groups)


def evacuate_node(snapshot: states.Snapshot, op: opcodes.NodeEvacuate) -> Needs:
    """Yield the needs of emptying a node: those of each instance on it."""
    node = snapshot.node(op.node_name)
    yield from _instances_on(snapshot, node)
    yield from rights.of_nodes(snapshot, [op.remote_node], own=node.group)
    yield from rights.beyond(op, "node_name", "mode", "remote_node", "early_release", "ignore_soft_errors")


def migrate_node(snapshot: states.Snapshot, op: opcodes.NodeMigrate) -> Needs:
    """Yield the needs of migrating all instances of a node."""
    node = snapshot.node(op.node_name)
    yield from _instances_on(snapshot, node)
    yield from rights.of_nodes(snapshot, [op.target_node], own=node.group)
    yield from rights.beyond(op, "node_name", "mode", "live", "target_node", "allow_runtime_changes")


def evacuate_group(snapshot: states.Snapshot, op: opcodes.GroupEvacuate) -> Needs:
    """Yield the needs of emptying a node group."""
    group = snapshot.group(op.group_name)
    for uuid in sorted(snapshot.nodes_in.get(group.uuid, {})):
        yield from _instances_on(snapshot, snapshot.nodes[uuid])
    yield from rights.of_groups(snapshot, op.target_groups)
    yield from rights.beyond(op, "group_name", "target_groups", "early_release", "sequential", "force_failover")


def verify_group(snapshot: states.Snapshot, op: opcodes.GroupVerifyDisks) -> Needs:
    """Yield the need of a check of the disks in a node group."""
    yield rights.on_group(snapshot.group(op.group_name))
    yield from rights.beyond(op, "group_name", "is_strict")


def recreate_disks(snapshot: states.Snapshot, op: opcodes.InstanceRecreateDisks) -> Needs:
    """Yield the needs of new disks in place of lost ones."""
    yield from about(Right.MANAGE, "disks", "nodes")(snapshot, op)
    vm = snapshot.instance(op.instance_name)
    yield from rights.of_nodes(snapshot, op.nodes, own=snapshot.nodes[vm.primary_node].group)
    for lost in op.disks:
        if isinstance(lost, opcodes.DiskRecreation):
            yield from _disk(lost.disk)


def replace_disks(snapshot: states.Snapshot, op: opcodes.InstanceReplaceDisks) -> Needs:
    """Yield the needs of another copy of mirrored disks."""
    yield from about(Right.MANAGE, "mode", "disks", "remote_node", "early_release")(snapshot, op)
    vm = snapshot.instance(op.instance_name)
    yield from rights.of_nodes(snapshot, [op.remote_node], own=snapshot.nodes[vm.primary_node].group)

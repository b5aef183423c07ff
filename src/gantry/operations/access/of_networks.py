"""The needs of opcodes about networks and ports, and about the tags of objects."""

from gantry.model import opcodes
from gantry.operations.access import rights
from gantry.operations.access.rights import Needs, Right
from gantry.state.objects import snapshot as states

_PORT_FIELDS = ("name", "mac", "fixed", "device_id", "device_owner", "admin_state_up", "description", "tags")
_SUBNET_POOL = ("subnetpool", "default_subnetpool", "prefixlen")


def tagging(snapshot: states.Snapshot, op: opcodes.TagsSet | opcodes.TagsDel) -> Needs:
    """Yield the needs of tags that an object gets or loses."""
    if op.kind == "instance":
        yield rights.on_instance(snapshot, snapshot.instance(op.name), Right.MANAGE)
    elif op.kind == "network":
        yield rights.on_network(snapshot.network(op.name), Right.CONFIGURE)
    else:
        yield rights.administer(f"change the tags of a {op.kind}")
    yield from rights.of_tags(snapshot, op.tags)
    yield from rights.beyond(op, "kind", "name", "tags")


def set_network(snapshot: states.Snapshot, op: opcodes.NetworkSetParams) -> Needs:
    """Yield the needs of a change of a network; its wire is that of the cluster."""
    net = snapshot.network(op.network_name)
    yield rights.on_network(net, Right.CONFIGURE)
    yield from rights.beyond(
        op,
        *("network_name", "subnets", "pools", "add_reserved_ips", "remove_reserved_ips", "gateway", "network6"),
        *("gateway6", "mac_prefix", "label", "description", "admin_state_up", "tags"),
        need=rights.wire,
    )
    if any(not {*_SUBNET_POOL}.isdisjoint(rights.set_fields(subnet)) for subnet in op.subnets):
        yield rights.wire("allocate a CIDR from a subnet pool")
    if op.tags is not None:
        yield from rights.of_tags(snapshot, sorted({*op.tags} ^ {*net.tags}))


def rename_network(snapshot: states.Snapshot, op: opcodes.NetworkRename) -> Needs:
    """Yield the need of a new name."""
    yield rights.on_network(snapshot.network(op.network_name), Right.CONFIGURE)
    yield from rights.beyond(op, "network_name", "new_name")


def remove_network(snapshot: states.Snapshot, op: opcodes.NetworkRemove) -> Needs:
    """Yield the needs of a removal."""
    yield rights.on_network(snapshot.network(op.network_name), Right.CONFIGURE)
    yield from rights.beyond(op, "network_name", need=rights.wire)


def add_ports(snapshot: states.Snapshot, op: opcodes.PortAdd) -> Needs:
    """Yield the needs of new ports, which allocate addresses."""
    for name in dict.fromkeys(port.network for port in op.ports):
        yield rights.on_network(snapshot.network(name), Right.CONFIGURE)
    yield from rights.beyond(op, "ports")


def of_port(snapshot: states.Snapshot, op: opcodes.PortSetParams | opcodes.PortRemove) -> Needs:
    """Yield the need of a change or removal of a port."""
    yield rights.on_network(snapshot.networks[snapshot.port(op.port).network], Right.CONFIGURE)
    yield from rights.beyond(op, "port", *_PORT_FIELDS)

"""Networks, subnets, ports and subnet pools as clients see them: names and plain values.

The queries take their getters from these tables, and the units that create such an object return its row, so that the
client need not query it. The cost of a column is at most proportional to the object's size.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import structs

from gantry.address import ranges
from gantry.model import instance, network
from gantry.operations.network import neutron_names, prefix_allocator
from gantry.state.objects import snapshot as states

T = TypeVar("T")
Column = Callable[[states.Snapshot, T], object]
Placed = tuple[network.Network, network.Subnet]
"""A subnet in its network."""

NIC_OWNER = "compute:gantry"
"""The ``device_owner`` of a NIC of an instance, which is shown as a port."""


def row(columns: Mapping[str, Column[T]], state: states.Snapshot, entity: T) -> dict[str, object]:
    """Return an object as a row."""
    return {name: column(state, entity) for name, column in columns.items()}


def with_subnets(state: states.Snapshot, net: network.Network) -> dict[str, object]:
    """Return a network as a row, with the rows of its subnets as ``subnet_rows``."""
    rows = [row(SUBNET, state, (net, subnet)) for subnet in net.subnets]
    return row(NETWORK, state, net) | {"subnet_rows": rows}


def fixed(net: network.Network, ips: tuple[str, ...]) -> list[dict[str, str]]:
    """Return addresses, each with the UUID of its subnet."""
    return [{"subnet": _subnet_of(net, ranges.canonical_address(ip)), "ip": ip} for ip in ips]


def _subnet_of(net: network.Network, address: ranges.Address) -> str:
    for subnet in net.subnets:
        cidr = ranges.known_cidr(subnet.cidr)
        if cidr.family is address.family and address.value in cidr.range:
            return subnet.uuid
    return ""


def as_port(vm: instance.Instance, nic: instance.Nic) -> network.Port:
    """Return a NIC of an instance in the form of a port: the one that it is made of, or a port of its own."""
    details = nic.port or instance.PortDetails(name=nic.name, serial_no=vm.serial_no, ctime=vm.ctime)
    return network.Port(
        uuid=nic.uuid,
        network=nic.network,
        mac=nic.mac,
        ip=nic.ip,
        device_id=vm.uuid,
        device_owner=NIC_OWNER,
        mtime=vm.mtime,
        **structs.asdict(details),
    )


def _pool(pool: network.Pool) -> dict[str, str]:
    family, run = ranges.known_range(pool.range)
    start, end = (ranges.format_address(family, number) for number in (run.first, run.last))
    return {"start": start, "end": end, "name": pool.name}


def _instance(state: states.Snapshot, port: network.Port) -> str | None:
    # The device id is not used: the creator of a port may write anything there.
    vm = state.instances.get(state.nics.get(port.uuid, ""))
    return vm.name if vm else None


PORT: dict[str, Column[network.Port]] = {
    "uuid": lambda _, port: port.uuid,
    "name": lambda _, port: port.name,
    "network": lambda state, port: state.networks[port.network].name,
    "network_uuid": lambda _, port: port.network,
    "mac": lambda _, port: port.mac,
    "ip": lambda _, port: list(port.ip),
    "fixed": lambda state, port: fixed(state.networks[port.network], port.ip),
    "device_id": lambda _, port: port.device_id,
    "device_owner": lambda _, port: port.device_owner,
    "project": lambda _, port: port.project,
    "admin_state_up": lambda _, port: port.admin_state_up,
    "description": lambda _, port: port.description,
    "instance": _instance,
    "tags": lambda _, port: list(port.tags),
    "ctime": lambda _, port: port.ctime,
    "mtime": lambda _, port: port.mtime,
    "serial_no": lambda _, port: port.serial_no,
}

SUBNET: dict[str, Column[Placed]] = {
    "uuid": lambda _, entry: entry[1].uuid,
    "name": lambda _, entry: entry[1].name,
    "label": lambda _, entry: neutron_names.display_name(entry[1]),
    "network": lambda _, entry: entry[0].name,
    "network_uuid": lambda _, entry: entry[0].uuid,
    "cidr": lambda _, entry: entry[1].cidr,
    "ip_version": lambda _, entry: int(ranges.known_cidr(entry[1].cidr).family),
    "gateway": lambda _, entry: entry[1].gateway,
    "dhcp": lambda _, entry: entry[1].dhcp,
    "pools": lambda _, entry: list(map(_pool, entry[1].pools)),
    "external": lambda _, entry: list(entry[1].external),
    "description": lambda _, entry: entry[1].description,
    "dns_nameservers": lambda _, entry: list(entry[1].dns_nameservers),
    "host_routes": lambda _, entry: [
        {"destination": route.destination, "nexthop": route.nexthop} for route in entry[1].host_routes
    ],
    "ipv6_address_mode": lambda _, entry: entry[1].ipv6_address_mode,
    "ipv6_ra_mode": lambda _, entry: entry[1].ipv6_ra_mode,
    "subnetpool": lambda _, entry: entry[1].subnetpool,
    "project": lambda _, entry: entry[0].project,
    "shared": lambda _, entry: entry[0].shared,
    "tags": lambda _, entry: list(entry[1].tags),
    "ctime": lambda _, entry: entry[1].ctime,
    "mtime": lambda _, entry: entry[1].mtime,
    "serial_no": lambda _, entry: entry[1].serial_no,
}

NETWORK: dict[str, Column[network.Network]] = {
    "uuid": lambda _, net: net.uuid,
    "name": lambda _, net: net.name,
    "network_type": lambda _, net: net.wire and net.wire.network_type,
    "physical_network": lambda _, net: (net.wire and net.wire.physical_network) or None,
    "segment": lambda _, net: net.segment and net.segment.segmentation_id,
    "project": lambda _, net: net.project,
    "shared": lambda _, net: net.shared,
    "label": lambda _, net: neutron_names.display_name(net),
    "description": lambda _, net: net.description,
    "admin_state_up": lambda _, net: net.admin_state_up,
    "mtu": lambda _, net: net.mtu,
    "subnet_list": lambda _, net: [subnet.uuid for subnet in net.subnets],
    "tags": lambda _, net: list(net.tags),
    "ctime": lambda _, net: net.ctime,
    "mtime": lambda _, net: net.mtime,
    "serial_no": lambda _, net: net.serial_no,
}

SUBNET_POOL: dict[str, Column[network.SubnetPool]] = {
    "uuid": lambda _, pool: pool.uuid,
    "name": lambda _, pool: pool.name,
    "prefixes": lambda _, pool: list(pool.prefixes),
    "default_prefixlen": lambda _, pool: pool.default_prefixlen,
    "min_prefixlen": lambda _, pool: pool.min_prefixlen,
    "max_prefixlen": lambda _, pool: pool.max_prefixlen,
    "ip_version": lambda _, pool: int(prefix_allocator.family(pool)),
    "shared": lambda _, pool: pool.shared,
    "project": lambda _, pool: pool.project,
    "is_default": lambda _, pool: pool.is_default,
    "default_quota": lambda _, pool: pool.default_quota,
    "description": lambda _, pool: pool.description,
    "tags": lambda _, pool: list(pool.tags),
    "ctime": lambda _, pool: pool.ctime,
    "mtime": lambda _, pool: pool.mtime,
    "serial_no": lambda _, pool: pool.serial_no,
}

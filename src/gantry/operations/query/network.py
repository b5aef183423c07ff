"""Getters of the network fields; the usage of pools comes from the address ledger.

The verification of the cluster also uses ``utilization``.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator

from gantry.address import ranges
from gantry.ipam import embedded
from gantry.model import instance, network
from gantry.operations import fill
from gantry.operations.network import views
from gantry.operations.query import cells, port


def _first(family: ranges.Family, net: network.Network) -> network.Subnet | None:
    return next((subnet for subnet in net.subnets if ranges.parse_cidr(subnet.cidr).family == family), None)


def _of_first(family: ranges.Family, attribute: str) -> cells.Getter[network.Network]:
    def get(_: cells.Context, net: network.Network) -> cells.Cell:
        subnet = _first(family, net)
        return cells.or_none(getattr(subnet, attribute)) if subnet else cells.Missing.UNAVAILABLE

    return get


RUNS_LIMIT = 256
"""The maximum number of runs of reserved addresses of a pool; its map, if it has one, is complete."""


def _pool(
    context: cells.Context, net: network.Network, subnet: network.Subnet, pool: network.Pool
) -> dict[str, object]:
    family, run = ranges.parse_range(pool.range)
    view = context.ledger.view(net, subnet, pool)
    runs = list(itertools.islice(_reserved_runs(context, net, subnet, run), RUNS_LIMIT + 1))
    return {
        "start": ranges.format_address(family, run.first),
        "end": ranges.format_address(family, run.last),
        "size": run.size,
        "name": pool.name,
        "free": view.free,
        "utilization": percent(run.size - view.free, run.size),
        "map": view.map if run.size <= embedded.MAP_LIMIT else None,
        "runs": [ranges.format_range(family, reserved_run) for reserved_run in runs[:RUNS_LIMIT]],
        "runs_complete": len(runs) <= RUNS_LIMIT,
    }


def _pool_usage(context: cells.Context, net: network.Network) -> list[dict[str, object]]:
    return [
        {
            "subnet": subnet.cidr,
            "name": pool.name,
            "range": pool.range,
            "size": ranges.parse_range(pool.range)[1].size,
            "free": context.ledger.view(net, subnet, pool).free,
        }
        for subnet, pool in _pools(net)
    ]


def _reserved_runs(
    context: cells.Context, net: network.Network, subnet: network.Subnet, run: ranges.Range
) -> Iterator[ranges.Range]:
    """Yield the runs that a pool's map marks ``X``, lazily: a large pool may have any number of them."""
    used = context.ledger.space(net.uuid, ranges.parse_cidr(subnet.cidr).family).used_runs(run)
    excluded = filter(None, map(run.intersection, embedded.excluded_ranges(subnet)))
    return ranges.joined((part.first, part.last) for part in heapq.merge(used, excluded))


def _subnets(context: cells.Context, net: network.Network) -> list[dict[str, object]]:
    return [
        {
            "uuid": subnet.uuid,
            "name": subnet.name,
            "cidr": subnet.cidr,
            "gateway": subnet.gateway,
            "dhcp": subnet.dhcp,
            "external": list(subnet.external),
            "pools": [_pool(context, net, subnet, pool) for pool in subnet.pools],
        }
        for subnet in net.subnets
    ]


def _free(context: cells.Context, net: network.Network) -> int:
    return sum(context.ledger.view(net, s, p).free for s in net.subnets for p in s.pools)


def _reserved(context: cells.Context, net: network.Network) -> int:
    sizes = sum(ranges.parse_range(pool.range)[1].size for subnet in net.subnets for pool in subnet.pools)
    return sizes - _free(context, net)


def percent(used: int, size: int) -> float:
    """Return a share in percent, rounded down to a tenth: 100 means that nothing is free."""
    return 1000 * used // size / 10


def utilization(ledger: embedded.Ledger, net: network.Network) -> float | None:
    """Return the percentage of a network's pools that is in use or reserved; None without a pool.

    IPv4 and IPv6 are counted separately, and the higher value is returned: a /64 would hide that a /24 is full.
    """
    shares = [_share(ledger, net, family) for family in ranges.Family]
    return max((share for share in shares if share is not None), default=None)


def _share(ledger: embedded.Ledger, net: network.Network, family: ranges.Family) -> float | None:
    size = free = 0
    for subnet, pool in _pools(net):
        of, run = ranges.parse_range(pool.range)
        if of is family:
            size += run.size
            free += ledger.view(net, subnet, pool).free
    return percent(size - free, size) if size else None


def _pools(net: network.Network) -> Iterable[tuple[network.Subnet, network.Pool]]:
    return ((subnet, pool) for subnet in net.subnets for pool in subnet.pools)


def _map(context: cells.Context, net: network.Network) -> cells.Cell:
    for subnet in net.subnets:
        for pool in subnet.pools:
            small = ranges.parse_range(pool.range)[1].size <= embedded.MAP_LIMIT
            return context.ledger.view(net, subnet, pool).map if small else cells.Missing.UNAVAILABLE
    return cells.Missing.UNAVAILABLE


def _groups(context: cells.Context, net: network.Network) -> list[list[str]]:
    return [
        [group.name, plug.mode, plug.link, fill.vlan_of(net, plug.vlan)]
        for group in sorted(context.state.nodegroups.values(), key=lambda group: group.name)
        for uuid, plug in group.networks.items()
        if uuid == net.uuid
    ]


def _instances(context: cells.Context, net: network.Network) -> list[str]:
    return sorted(context.state.instances[uuid].name for uuid in context.state.in_network.get(net.uuid) or ())


def _ports(context: cells.Context, net: network.Network) -> list[list[object]]:
    """Return the ports in a network by UUID, as ``[UUID, name, device owner, addresses]``."""
    ports = (context.state.ports[uuid] for uuid in sorted(context.state.ports_in.get(net.uuid) or ()))
    return [[port.uuid, port.name, port.device_owner, list(port.ip)] for port in ports]


def _addresses(context: cells.Context, net: network.Network) -> list[list[object]]:
    """Return the owners of addresses, sorted by address, as ``[address, instance, index of the NIC]``.

    A lingering address is no longer at a NIC, so its index is None.
    """
    rows = [
        (ranges.parse_address(owner.ip), vm.name, _number(vm, owner))
        for vm in (context.state.instances[uuid] for uuid in context.state.in_network.get(net.uuid) or ())
        for owner in vm.allocations()
        if owner.network == net.uuid
    ]
    return [[str(address), name, index] for address, name, index in sorted(rows, key=lambda row: row[0])]


def _used(context: cells.Context, net: network.Network) -> int:
    """Return the number of addresses that NICs, running guests and ports use, in pools or not."""
    state = context.state
    guests = (state.instances[uuid] for uuid in state.in_network.get(net.uuid) or ())
    of_guests = sum(use.network == net.uuid for vm in guests for use in vm.allocations())
    return of_guests + sum(len(state.ports[uuid].ip) for uuid in state.ports_in.get(net.uuid) or ())


def _quarantine(context: cells.Context, net: network.Network) -> list[list[object]]:
    """Return the addresses in quarantine, sorted, as ``[address, kind of the last owner, its name, end]``."""
    records = sorted(context.ledger.quarantined(net.uuid), key=lambda record: ranges.parse_address(record.ip))
    return [[record.ip, record.noun, record.name, record.until] for record in records]


def _number(vm: instance.Instance, owner: network.Allocation) -> int | None:
    return next((index for index, nic in enumerate(vm.nics) if nic.uuid == owner.nic and owner.ip in nic.ip), None)


def _external(_: cells.Context, net: network.Network) -> cells.Cell:
    return ", ".join(run for subnet in net.subnets for run in subnet.external) or cells.Missing.UNAVAILABLE


_PLAIN = (
    *("project", "shared", "label", "description", "admin_state_up", "mtu", "subnet_list"),
    *("network_type", "physical_network", "segment"),
)

V4, V6 = ranges.Family.IPV4, ranges.Family.IPV6

GETTERS: dict[str, cells.Getter[network.Network]] = {
    **port.of_columns({name: views.NETWORK[name] for name in _PLAIN}),
    "name": lambda _, net: net.name,
    "network": _of_first(V4, "cidr"),
    "gateway": _of_first(V4, "gateway"),
    "network6": _of_first(V6, "cidr"),
    "gateway6": _of_first(V6, "gateway"),
    "subnets": _subnets,
    "cidrs": lambda _, net: [subnet.cidr for subnet in net.subnets],
    "subnet_cnt": lambda _, net: len(net.subnets),
    "pools": lambda _, net: [pool.range for _, pool in _pools(net)],
    "pool_usage": _pool_usage,
    "used_count": _used,
    "quarantine": _quarantine,
    "quarantined_count": lambda context, net: len(context.ledger.quarantined(net.uuid)),
    "mac_prefix": lambda _, net: cells.or_none(net.mac_prefix),
    "free_count": _free,
    "reserved_count": _reserved,
    "utilization": lambda context, net: cells.or_none(utilization(context.ledger, net)),
    "map": _map,
    "group_list": _groups,
    "group_cnt": lambda context, net: len(_groups(context, net)),
    "inst_list": _instances,
    "address_list": _addresses,
    "port_list": _ports,
    "port_cnt": lambda context, net: len(context.state.ports_in.get(net.uuid) or ()),
    "inst_cnt": lambda context, net: len(context.state.in_network.get(net.uuid) or ()),
    "external_reservations": _external,
}

"""Getters of the network fields; what pools hold comes from the address ledger."""

from gantry.address import ranges
from gantry.ipam import embedded
from gantry.model import network
from gantry.operations.query import cells


def _first(family: ranges.Family, net: network.Network) -> network.Subnet | None:
    return next((subnet for subnet in net.subnets if ranges.parse_cidr(subnet.cidr).family == family), None)


def _of_first(family: ranges.Family, attribute: str) -> cells.Getter[network.Network]:
    def get(_: cells.Context, net: network.Network) -> cells.Cell:
        subnet = _first(family, net)
        return cells.or_none(getattr(subnet, attribute)) if subnet else cells.Missing.UNAVAILABLE

    return get


def _pool(
    context: cells.Context, net: network.Network, subnet: network.Subnet, pool: network.Pool
) -> dict[str, object]:
    _, run = ranges.parse_range(pool.range)
    view = context.ledger.view(net, subnet, pool)
    family = ranges.parse_cidr(subnet.cidr).family
    return {
        "start": ranges.format_address(family, run.first),
        "end": ranges.format_address(family, run.last),
        "name": pool.name,
        "free": view.free,
        "map": view.map if run.size <= embedded.MAP_LIMIT else None,
    }


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


def _map(context: cells.Context, net: network.Network) -> cells.Cell:
    for subnet in net.subnets:
        for pool in subnet.pools:
            small = ranges.parse_range(pool.range)[1].size <= embedded.MAP_LIMIT
            return context.ledger.view(net, subnet, pool).map if small else cells.Missing.UNAVAILABLE
    return cells.Missing.UNAVAILABLE


def _groups(context: cells.Context, net: network.Network) -> list[list[str]]:
    return [
        [group.name, plug.mode, plug.link, plug.vlan]
        for group in sorted(context.state.nodegroups.values(), key=lambda group: group.name)
        for uuid, plug in group.networks.items()
        if uuid == net.uuid
    ]


def _instances(context: cells.Context, net: network.Network) -> list[str]:
    return sorted(context.state.instances[uuid].name for uuid in context.state.in_network.get(net.uuid) or ())


def _external(_: cells.Context, net: network.Network) -> cells.Cell:
    return ", ".join(run for subnet in net.subnets for run in subnet.external) or cells.Missing.UNAVAILABLE


V4, V6 = ranges.Family.IPV4, ranges.Family.IPV6

GETTERS: dict[str, cells.Getter[network.Network]] = {
    "name": lambda _, net: net.name,
    "network": _of_first(V4, "cidr"),
    "gateway": _of_first(V4, "gateway"),
    "network6": _of_first(V6, "cidr"),
    "gateway6": _of_first(V6, "gateway"),
    "subnets": _subnets,
    "mac_prefix": lambda _, net: cells.or_none(net.mac_prefix),
    "free_count": _free,
    "reserved_count": _reserved,
    "map": _map,
    "group_list": _groups,
    "group_cnt": lambda context, net: len(_groups(context, net)),
    "inst_list": _instances,
    "inst_cnt": lambda context, net: len(context.state.in_network.get(net.uuid) or ()),
    "external_reservations": _external,
}

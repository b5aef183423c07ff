"""Builders of a small network, for the tests of its maps and exports."""

import ipaddress
from collections.abc import Sequence

from gantry.cli.output import network_view

Ip = ipaddress.ip_address


def pool(span: str, name: str = "", *, free: int = 0, utilization: float = 0.0, refused: str = "") -> network_view.Pool:
    return network_view.Pool(name, network_view.parse_range(span), free, utilization, refused)


def subnet(
    cidr: str,
    *pools: network_view.Pool,
    gateway: str = "",
    external: Sequence[str] = (),
    name: str = "",
    dhcp: bool = False,
) -> network_view.Subnet:
    gateway_address = Ip(gateway) if gateway else None
    external_ranges = tuple(map(network_view.parse_range, external))
    return network_view.Subnet(
        f"uuid-{cidr}", name, ipaddress.ip_network(cidr), gateway_address, dhcp, pools, external_ranges
    )


def nic(instance: str, *addresses: str, number: int = 0, mac: str = "aa:00:00:00:00:01") -> network_view.Nic:
    return network_view.Nic(instance, number, mac, tuple(map(Ip, addresses)))


def network(
    *subnets: network_view.Subnet, nics: Sequence[network_view.Nic] = (), ports: Sequence[network_view.Port] = ()
) -> network_view.Network:
    return network_view.Network("net1", subnets, tuple(nics), tuple(ports))

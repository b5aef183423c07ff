"""A network in small, for the tests of what is drawn and written of it."""

import ipaddress
from collections.abc import Sequence

from gantry.cli import ledger

Ip = ipaddress.ip_address


def pool(span: str, name: str = "", *, free: int = 0, utilization: float = 0.0, refused: str = "") -> ledger.Pool:
    return ledger.Pool(name, ledger.parse_range(span), free, utilization, refused)


def subnet(
    cidr: str,
    *pools: ledger.Pool,
    gateway: str = "",
    external: Sequence[str] = (),
    name: str = "",
    dhcp: bool = False,
) -> ledger.Subnet:
    where = Ip(gateway) if gateway else None
    held = tuple(map(ledger.parse_range, external))
    return ledger.Subnet(f"uuid-{cidr}", name, ipaddress.ip_network(cidr), where, dhcp, pools, held)


def nic(instance: str, *addresses: str, number: int = 0, mac: str = "aa:00:00:00:00:01") -> ledger.Nic:
    return ledger.Nic(instance, number, mac, tuple(map(Ip, addresses)))


def network(
    *subnets: ledger.Subnet, nics: Sequence[ledger.Nic] = (), ports: Sequence[ledger.Port] = ()
) -> ledger.Network:
    return ledger.Network("net1", subnets, tuple(nics), tuple(ports))

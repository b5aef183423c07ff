"""The configuration of a DHCP server for a network: files as text, for dnsmasq and for Kea.

``gnt-network dhcp`` calls ``dnsmasq`` and ``kea``; pure, and no service is touched. The subnets are those with ``dhcp``
set, at most one of each IP version (contracts/networks.md#subnets). Every address of a NIC there becomes
a reservation for its MAC address; nobody else is given one, so there is no range to lease from.

DHCPv4 gives a card one address: the first that it has in the subnet is offered, the others stand in a comment.
DHCPv6 gives all. It has no option for the gateway, which IPv6 routers announce by themselves.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gantry.cli.output import network_view

LEASE = 3600
"""Seconds for which a client may keep an address before it asks again."""

HEAD = "Made by gnt-network dhcp for network {}; it is written anew, changes here are lost."


class Client(NamedTuple):
    """A card in a subnet, with its addresses there."""

    nic: network_view.Nic
    addresses: tuple[network_view.Address, ...]


def subnets(network: network_view.Network) -> list[network_view.Subnet]:
    """Return the subnets with DHCP: none, one, or one of each IP version."""
    return [one for one in network.subnets if one.dhcp]


def clients(network: network_view.Network, subnet: network_view.Subnet) -> Iterator[Client]:
    """Yield the cards that have addresses in a subnet, in the order of their first one."""
    found = [
        Client(nic, tuple(one for one in nic.addresses if one.version == subnet.cidr.version and one in subnet.cidr))
        for nic in network.nics
    ]
    return iter(sorted((one for one in found if one.addresses), key=lambda one: int(one.addresses[0])))


def dnsmasq(network: network_view.Network, *, domain: str = "", interfaces: Sequence[str] = ()) -> str:
    """Return a file for the folder of dnsmasq's ``conf-dir``; options reach the clients of this network alone."""
    lines = [f"# {HEAD.format(network.name)}", *(f"interface={name}" for name in interfaces)]
    cards: dict[str, list[Client]] = {}
    for subnet in subnets(network):
        tag = re.sub(r"[^A-Za-z0-9]", "-", f"{network.name}-{subnet.cidr.version}")
        lines += ["", f"# subnet {subnet.label}"]
        lines += _dnsmasq_4(subnet, tag, domain) if subnet.cidr.version == 4 else _dnsmasq_6(subnet, tag, domain)
        for client in clients(network, subnet):
            cards.setdefault(client.nic.mac, []).append(client)
    hosts = [line for found in cards.values() for line in _dnsmasq_host(found)]
    return "\n".join([*lines, *(["", *hosts] if hosts else [])]) + "\n"


def _dnsmasq_4(subnet: network_view.Subnet, tag: str, domain: str) -> list[str]:
    # Without an address the option is not sent at all: dnsmasq would name itself as the router.
    router = f",{subnet.gateway}" if subnet.gateway else ""
    names = [f"dhcp-option=tag:{tag},option:domain-name,{domain}"] if domain else []
    where = f"{subnet.cidr.network_address},static,{subnet.cidr.netmask}"
    return [f"dhcp-range=set:{tag},{where},{LEASE}", f"dhcp-option=tag:{tag},option:router{router}", *names]


def _dnsmasq_6(subnet: network_view.Subnet, tag: str, domain: str) -> list[str]:
    names = [f"dhcp-option=tag:{tag},option6:domain-search,{domain}"] if domain else []
    where = f"{subnet.cidr.network_address},static,{subnet.cidr.prefixlen}"
    return [f"dhcp-range=set:{tag},{where},{LEASE}", *names]


def _dnsmasq_host(found: list[Client]) -> Iterator[str]:
    """Yield a card's line: one for both IP versions, because a second one of the card would hide the first."""
    nic = found[0].nic
    four = [str(one) for client in found for one in client.addresses if one.version == 4]
    six = [f"[{one}]" for client in found for one in client.addresses if one.version == 6]
    yield ",".join([f"dhcp-host={nic.mac}", *four[:1], *six, nic.instance])
    yield from (f"# {nic.mac} has {other} as well" for other in four[1:])


def kea(
    network: network_view.Network, subnet: network_view.Subnet, *, domain: str = "", interfaces: Sequence[str] = ()
) -> str:
    """Return the file of kea-dhcp4 or kea-dhcp6, as the subnet is; without interfaces it serves on all."""
    version = subnet.cidr.version
    body = {
        "interfaces-config": {"interfaces": [*interfaces] or ["*"]},
        "valid-lifetime": LEASE,
        "host-reservation-identifiers": ["hw-address"],
        f"subnet{version}": [
            {
                "id": 1,
                "subnet": str(subnet.cidr),
                "reservations-in-subnet": True,
                "option-data": _kea_options(subnet, domain),
                "reservations": [_kea_host(client) for client in clients(network, subnet)],
            }
        ],
    }
    return f"// {HEAD.format(network.name)}\n{json.dumps({f'Dhcp{version}': body}, indent=2)}\n"


def _kea_options(subnet: network_view.Subnet, domain: str) -> list[dict[str, str]]:
    if subnet.cidr.version == 6:
        return [{"name": "domain-search", "data": domain}] if domain else []
    options = [{"name": "routers", "data": str(subnet.gateway)}] if subnet.gateway else []
    return [*options, *([{"name": "domain-name", "data": domain}] if domain else [])]


def _kea_host(client: Client) -> dict[str, object]:
    found: dict[str, object] = {"hw-address": client.nic.mac, "hostname": client.nic.instance}
    first, *others = map(str, client.addresses)
    if client.addresses[0].version == 6:
        return {**found, "ip-addresses": [first, *others]}
    return {**found, "ip-address": first, **({"user-context": {"others": others}} if others else {})}

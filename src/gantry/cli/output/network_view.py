"""What the master says of a network's addresses, as the commands that draw, export and render them need it.

``gnt-network map``, ``export-reservations``, ``import-reservations`` and ``dhcp`` read a network here, by two queries:
the network with its subnets and ports, and the NICs that are plugged into it. Addresses are those of ``ipaddress``.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gantry.cli import client, errors

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Cidr = ipaddress.IPv4Network | ipaddress.IPv6Network


class Range(NamedTuple):
    """Addresses from the first to the last, both included, as numbers of one IP version."""

    version: int
    first: int
    last: int

    def __str__(self) -> str:
        first = str(address(self.version, self.first))
        return first if self.first == self.last else f"{first}-{address(self.version, self.last)}"

    @property
    def size(self) -> int:
        """Return how many addresses it has."""
        return self.last - self.first + 1

    def covers(self, other: "Range") -> bool:
        """Tell whether the other range lies inside."""
        return self.version == other.version and self.first <= other.first and other.last <= self.last


class Pool(NamedTuple):
    """A pool; ``free`` of its addresses can be handed out, ``map`` has a character for each or is empty."""

    name: str
    range: Range
    free: int
    utilization: float
    map: str


class Subnet(NamedTuple):
    """A subnet with its pools and external reservations."""

    uuid: str
    name: str
    cidr: Cidr
    gateway: Address | None
    dhcp: bool
    pools: tuple[Pool, ...]
    external: tuple[Range, ...]

    @property
    def range(self) -> Range:
        """Return all of its addresses."""
        return Range(self.cidr.version, int(self.cidr.network_address), int(self.cidr.broadcast_address))

    @property
    def label(self) -> str:
        """Return its CIDR, with the name where it has one."""
        return f"{self.cidr} ({self.name})" if self.name else str(self.cidr)


class Nic(NamedTuple):
    """A NIC on the network: its instance, its number there, its addresses."""

    instance: str
    number: int
    mac: str
    addresses: tuple[Address, ...]


class Port(NamedTuple):
    """A port on the network, by its name or else its UUID, and its addresses."""

    called: str
    addresses: tuple[Address, ...]


class Network(NamedTuple):
    """A network as it is now."""

    name: str
    subnets: tuple[Subnet, ...]
    nics: tuple[Nic, ...]
    ports: tuple[Port, ...] = ()

    def users(self) -> Iterator[tuple[Address, Nic]]:
        """Yield the addresses in use, each with the NIC that has it."""
        return ((one, nic) for nic in self.nics for one in nic.addresses)

    def used(self) -> Iterator[Address]:
        """Yield the addresses that NICs and ports have."""
        yield from (one for nic in self.nics for one in nic.addresses)
        yield from (one for port in self.ports for one in port.addresses)


def address(version: int, value: int) -> Address:
    """Return the address of a number."""
    return ipaddress.IPv4Address(value) if version == 4 else ipaddress.IPv6Address(value)


def parse_range(text: str) -> Range:
    """Read ``FIRST-LAST``, a CIDR or one address; ValueError says what is wrong."""
    if "%" in text:
        raise ValueError(f"{text!r} has a zone id")
    if "/" in text:
        cidr = ipaddress.ip_network(text.strip())
        return Range(cidr.version, int(cidr.network_address), int(cidr.broadcast_address))
    first, _, last = text.partition("-")
    begin = ipaddress.ip_address(first.strip())
    end = ipaddress.ip_address(last.strip()) if last else begin
    if begin.version != end.version:
        raise ValueError(f"{text!r} begins and ends in different IP versions")
    if int(begin) > int(end):
        raise ValueError(f"{text!r} is backwards")
    return Range(begin.version, int(begin), int(end))


def read(connection: client.Client, name: str) -> Network:
    """Return a network by its name; raises the master's error when there is none."""
    fields = ["name", "uuid", "subnets", "port_list"]
    (found,) = connection.records("network", fields, where=["=", "name", name])
    subnets = client.expect(found.get("subnets"), list)
    nics = _nics(connection, str(found.get("uuid")))
    ports = client.expect(found.get("port_list") or [], list)
    return Network(
        str(found.get("name")),
        tuple(_subnet(one) for one in subnets),
        tuple(nics),
        tuple(Port(str(name or uuid), tuple(map(ipaddress.ip_address, ips))) for uuid, name, _, ips in ports),
    )


def _subnet(found: Mapping[str, object]) -> Subnet:
    gateway = str(found.get("gateway") or "")
    return Subnet(
        uuid=str(found.get("uuid") or ""),
        name=str(found.get("name") or ""),
        cidr=ipaddress.ip_network(str(found.get("cidr"))),
        gateway=ipaddress.ip_address(gateway) if gateway else None,
        dhcp=bool(found.get("dhcp")),
        pools=tuple(_pool(one) for one in client.expect(found.get("pools"), list)),
        external=tuple(sorted(parse_range(text) for text in client.expect(found.get("external"), list))),
    )


def _pool(found: Mapping[str, object]) -> Pool:
    utilization = found.get("utilization")
    return Pool(
        name=str(found.get("name") or ""),
        range=parse_range(f"{found.get('start')}-{found.get('end')}"),
        free=client.expect(found.get("free"), int),
        utilization=float(utilization) if isinstance(utilization, int | float) else 0.0,
        map=str(found.get("map") or ""),
    )


def _nics(connection: client.Client, uuid: str) -> Iterator[Nic]:
    fields = ["name", "nic.networks", "nic.macs", "nic.ips"]
    for found in connection.records("instance", fields, where=["=[]", "nic.networks", uuid]):
        columns = [client.expect(found.get(field), list) for field in fields[1:]]
        for index, (network, mac, addresses) in enumerate(zip(*columns, strict=True)):
            if network == uuid:
                yield Nic(str(found["name"]), index, str(mac), tuple(map(ipaddress.ip_address, addresses)))


def chosen(network: Network, ident: str) -> Subnet:
    """Return a subnet by its CIDR, name or UUID; InvalidError that lists those there are."""
    found = [one for one in network.subnets if ident in (str(one.cidr), one.name, one.uuid)]
    if len(found) != 1:
        known = ", ".join(one.label for one in network.subnets) or "none"
        raise errors.InvalidError(f"network {network.name} has no subnet {ident}", hint=f"there are: {known}")
    return found[0]

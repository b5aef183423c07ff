"""A network with its subnets, ports and NICs, for the commands that draw, export, import and render its addresses.

``gnt-network map``, ``export-reservations``, ``import-reservations`` and ``dhcp`` call ``read``, which sends two
queries: one for the network with its subnets and ports, one for the NICs on it. Addresses have the types of
``ipaddress``.
"""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gantry.cli import client, errors

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Cidr = ipaddress.IPv4Network | ipaddress.IPv6Network


class Range(NamedTuple):
    """Addresses from ``first`` to ``last``, both included, as integers of one IP version."""

    version: int
    first: int
    last: int

    def __str__(self) -> str:
        first = str(address(self.version, self.first))
        return first if self.first == self.last else f"{first}-{address(self.version, self.last)}"

    @property
    def size(self) -> int:
        """Return the number of addresses."""
        return self.last - self.first + 1

    def covers(self, other: "Range") -> bool:
        """Return whether the other range is inside this range."""
        return self.version == other.version and self.first <= other.first and other.last <= self.last


class Pool(NamedTuple):
    """A pool; ``free`` addresses can be allocated, and ``map`` has a character for each address or is empty."""

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
        """Return all addresses of the subnet."""
        return Range(self.cidr.version, int(self.cidr.network_address), int(self.cidr.broadcast_address))

    @property
    def label(self) -> str:
        """Return the CIDR, with the name if there is one."""
        return f"{self.cidr} ({self.name})" if self.name else str(self.cidr)


class Nic(NamedTuple):
    """A NIC on the network: its instance, its number in the instance, its addresses."""

    instance: str
    number: int
    mac: str
    addresses: tuple[Address, ...]


class Port(NamedTuple):
    """A port on the network: its label, which is the name or else the UUID, and its addresses."""

    label: str
    addresses: tuple[Address, ...]


class Quarantine(NamedTuple):
    """An address in quarantine: its last owner as text, and the end in seconds since the epoch."""

    address: Address
    owner: str
    until: float


class Network(NamedTuple):
    """The current state of a network."""

    name: str
    subnets: tuple[Subnet, ...]
    nics: tuple[Nic, ...]
    ports: tuple[Port, ...] = ()
    quarantine: tuple[Quarantine, ...] = ()

    def users(self) -> Iterator[tuple[Address, Nic]]:
        """Yield the addresses of NICs, each with its NIC."""
        return ((address, nic) for nic in self.nics for address in nic.addresses)

    def used(self) -> Iterator[Address]:
        """Yield the addresses of NICs and ports."""
        yield from (address for nic in self.nics for address in nic.addresses)
        yield from (address for port in self.ports for address in port.addresses)


def address(version: int, value: int) -> Address:
    """Return the address with this integer value."""
    return ipaddress.IPv4Address(value) if version == 4 else ipaddress.IPv6Address(value)


def parse_range(text: str) -> Range:
    """Parse ``FIRST-LAST``, a CIDR or a single address; raises ValueError with the problem."""
    if "%" in text:
        raise ValueError(f"{text!r} has an IPv6 zone id, which is not allowed here")
    if "/" in text:
        cidr = ipaddress.ip_network(text.strip())
        return Range(cidr.version, int(cidr.network_address), int(cidr.broadcast_address))
    first, _, last = text.partition("-")
    begin = ipaddress.ip_address(first.strip())
    end = ipaddress.ip_address(last.strip()) if last else begin
    if begin.version != end.version:
        raise ValueError(f"{text!r} mixes IPv4 and IPv6")
    if int(begin) > int(end):
        raise ValueError(f"{text!r} ends before it begins")
    return Range(begin.version, int(begin), int(end))


def read(connection: client.Client, name: str) -> Network:
    """Return a network by its name; raises the master's error if it does not exist."""
    fields = ["name", "uuid", "subnets", "port_list", "quarantine"]
    (record,) = connection.records("network", fields, where=["=", "name", name])
    subnets = client.expect(record.get("subnets"), list)
    nics = _nics(connection, str(record.get("uuid")))
    ports = client.expect(record.get("port_list") or [], list)
    return Network(
        str(record.get("name")),
        tuple(map(_subnet, subnets)),
        tuple(nics),
        tuple(Port(str(name or uuid), tuple(map(ipaddress.ip_address, ips))) for uuid, name, _, ips in ports),
        tuple(map(_quarantine, client.expect(record.get("quarantine") or [], list))),
    )


def _quarantine(row: Sequence[object]) -> Quarantine:
    address, noun, name, until = row
    seconds = float(until) if isinstance(until, int | float) else 0.0
    return Quarantine(ipaddress.ip_address(str(address)), f"{noun} {name}", seconds)


def _subnet(record: Mapping[str, object]) -> Subnet:
    gateway = str(record.get("gateway") or "")
    return Subnet(
        uuid=str(record.get("uuid") or ""),
        name=str(record.get("name") or ""),
        cidr=ipaddress.ip_network(str(record.get("cidr"))),
        gateway=ipaddress.ip_address(gateway) if gateway else None,
        dhcp=bool(record.get("dhcp")),
        pools=tuple(map(_pool, client.expect(record.get("pools"), list))),
        external=tuple(sorted(parse_range(text) for text in client.expect(record.get("external"), list))),
    )


def _pool(record: Mapping[str, object]) -> Pool:
    utilization = record.get("utilization")
    return Pool(
        name=str(record.get("name") or ""),
        range=parse_range(f"{record.get('start')}-{record.get('end')}"),
        free=client.expect(record.get("free"), int),
        utilization=float(utilization) if isinstance(utilization, int | float) else 0.0,
        map=str(record.get("map") or ""),
    )


def _nics(connection: client.Client, uuid: str) -> Iterator[Nic]:
    fields = ["name", "nic.networks", "nic.macs", "nic.ips"]
    for record in connection.records("instance", fields, where=["=[]", "nic.networks", uuid]):
        columns = [client.expect(record.get(field), list) for field in fields[1:]]
        for index, (network, mac, addresses) in enumerate(zip(*columns, strict=True)):
            if network == uuid:
                yield Nic(str(record["name"]), index, str(mac), tuple(map(ipaddress.ip_address, addresses)))


def subnet_by_ident(network: Network, ident: str) -> Subnet:
    """Return a subnet by its CIDR, name or UUID; raises InvalidError with the network's subnets."""
    matching = [subnet for subnet in network.subnets if ident in (str(subnet.cidr), subnet.name, subnet.uuid)]
    if len(matching) != 1:
        known = ", ".join(subnet.label for subnet in network.subnets) or "none"
        raise errors.InvalidError(f"network {network.name} has no subnet {ident}", hint=f"its subnets: {known}")
    return matching[0]

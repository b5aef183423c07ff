"""Who has an address: by the address itself, a MAC address, a CIDR, or the name of an owner or network; pure.

``doors.luxi.addresses`` adds since when and by which job, and answers for the past. A row is one fact about an address
in one network, so an address that is both reserved externally and in use has two. Cost of an address: a look into an
index for each network; of a CIDR or a network, in proportion to its rows. Only the name of a port is looked for among
all ports, because such names are not unique.
"""

import heapq
import itertools
import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from gantry import errors
from gantry.address import pools, ranges
from gantry.ipam import embedded
from gantry.model import cluster, instance, network
from gantry.state.objects import kinds
from gantry.state.objects import snapshot as states

IN_USE, WAS_IN_USE, QUARANTINED = "in use", "was in use", "quarantined"
OF_JOB, ELSEWHERE = "held by a job", "in use elsewhere"
GATEWAY, EXTERNAL, END, NODE, FREE = "gateway", "external", "end of the subnet", "node", "free"
"""The states of an address; ``in use elsewhere`` is by another user of a shared database."""

_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
CLAIM, GUEST = "claim", "running guest"


class Row(msgspec.Struct, kw_only=True, frozen=True):
    """A fact about an address; empty texts and None where it has no such property.

    ``address`` is a range for external reservations of a CIDR, and empty for a NIC without an address. ``kind`` is what
    the owner is: instance, running guest (of an address that its NIC no longer has), port, claim, node or job. ``to``
    is the end of a quarantine, in seconds since the epoch.
    """

    address: str
    state: str
    network: str = ""
    network_uuid: str = ""
    subnet: str = ""
    pool: str = ""
    kind: str = ""
    owner: str = ""
    owner_uuid: str = ""
    nic: int | None = None
    mac: str = ""
    to: float | None = None


class Fact(msgspec.Struct, frozen=True):
    """A row with what makes it true: an object of the state and a test of it, or None if no object does."""

    row: Row
    value: kinds.Stored | None = None
    has: Callable[[kinds.Stored], bool] | None = None


class Subject(msgspec.Struct, frozen=True):
    """What a text means: an address or CIDR as a range, a MAC address, or neither: then it is a name."""

    text: str
    family: ranges.Family = ranges.Family.IPV4
    run: ranges.Range | None = None
    mac: str = ""

    @property
    def is_single(self) -> bool:
        """Return whether it is one address."""
        return self.run is not None and self.run.size == 1


def parse(text: str) -> Subject:
    """Return what a text means; InvalidError for one that is similar to an address but is not an address."""
    text = text.strip()
    if _MAC.fullmatch(text):
        return Subject(text=text, mac=text.lower())
    if "/" in text:
        cidr = ranges.parse_cidr(text)
        canonical = ranges.format_range(cidr.family, cidr.range) if cidr.range.size == 1 else str(cidr)
        return Subject(text=canonical, family=cidr.family, run=cidr.range)
    if ":" in text or re.fullmatch(r"[\d.]+", text):
        address = ranges.parse_address(text)
        return Subject(text=str(address), family=address.family, run=ranges.sized(address.value, 1))
    if not text:
        raise errors.InvalidError("an address, a MAC address, a CIDR or a name is missing")
    return Subject(text=text)


class Finder:
    """Finds the facts in a state; the ledger has what the state does not: quarantine, holds and foreign owners."""

    def __init__(self, state: states.Snapshot, ledger: embedded.Ledger) -> None:
        self._state = state
        self._ledger = ledger

    def find(self, subject: Subject) -> Iterator[Fact]:
        """Yield the facts about a subject, lazily; none if nothing is known."""
        if subject.mac:
            return self._of_mac(subject.mac)
        if subject.run is None:
            return self._of_name(subject.text)
        if subject.is_single:
            return self._of_address(ranges.Address(subject.family, subject.run.first))
        return itertools.chain(
            *(self._of_range(net, subject.family, subject.run) for net in self._networks()),
            self._without_network(subject.family, subject.run),
            self._nodes_in(subject.family, subject.run),
        )

    def _networks(self) -> list[network.Network]:
        return sorted(self._state.networks.values(), key=lambda net: net.name)

    def _of_address(self, address: ranges.Address) -> Iterator[Fact]:
        for net in self._networks():
            for subnet in net.subnets:
                if address in ranges.known_cidr(subnet.cidr):
                    yield from self._in_subnet(net, subnet, address)
        if owner := self._owner(("", str(address))):
            yield owner
        yield from self._nodes_in(address.family, ranges.sized(address.value, 1))

    def _in_subnet(self, net: network.Network, subnet: network.Subnet, address: ranges.Address) -> Iterator[Fact]:
        facts = [*self._use(net, address), *_reserved(net, subnet, address)]
        yield from facts or [Fact(_row(net, str(address), FREE))]

    def _use(self, net: network.Network, address: ranges.Address) -> Iterator[Fact]:
        key, ledger = (net.uuid, str(address)), self._ledger
        # The space first: it ends quarantines whose time is over.
        used = ledger.space(net.uuid, address.family).is_used(address.value)
        if owner := self._owner(key):
            yield owner
        elif job := ledger.held_numbers(net.uuid, address.family).get(address.value):
            yield Fact(msgspec.structs.replace(_row(net, key[1], OF_JOB), kind="job", owner=str(job)))
        elif used and (record := ledger.quarantine.record(*key)):
            yield Fact(
                msgspec.structs.replace(
                    _row(net, key[1], QUARANTINED),
                    kind=record.noun, owner=record.name, owner_uuid=record.instance, to=record.until,
                ),
                record,
                lambda value: value == record,
            )  # fmt: skip
        elif foreign := ledger.foreign.owner(key):
            yield Fact(msgspec.structs.replace(_row(net, key[1], ELSEWHERE), owner=foreign))
        elif used:
            # Its owner is not in this state, because the reader does not see it.
            yield Fact(_row(net, key[1], IN_USE))

    def _owner(self, key: tuple[str, str]) -> Fact | None:
        reference = self._state.addresses.get(key)
        if reference is None:
            return None
        if reference.port:
            return self._port(self._state.ports[reference.port], key[1])
        return self._instance(self._state.instances[reference.instance], reference.nic, key)

    def _port(self, port: network.Port, ip: str) -> Fact:
        row = _row(self._state.networks.get(port.network), ip, IN_USE)
        kind = CLAIM if port.device_owner.startswith(network.CLAIMS) else "port"
        row = msgspec.structs.replace(row, kind=kind, owner=port.name or port.uuid, owner_uuid=port.uuid, mac=port.mac)
        return Fact(row, port, _allocates(port.network, ip))

    def _instance(self, vm: instance.Instance, nic_uuid: str, key: tuple[str, str]) -> Fact:
        row = _row(self._state.networks.get(key[0]), key[1], IN_USE)
        index = next((i for i, nic in enumerate(vm.nics) if nic.uuid == nic_uuid and key[1] in nic.ip), None)
        row = msgspec.structs.replace(
            row, kind=GUEST if index is None else "instance", owner=vm.name, owner_uuid=vm.uuid,
            nic=index, mac=vm.nics[index].mac if index is not None else "",
        )  # fmt: skip
        return Fact(row, vm, _allocates(*key))

    def _of_mac(self, mac: str) -> Iterator[Fact]:
        owner = self._state.macs.get(mac, "")
        if port := self._state.ports.get(owner):
            yield from self._of_port(port)
        elif vm := self._state.instances.get(owner):
            yield from self._of_nics(vm, [nic for nic in vm.nics if nic.mac == mac])

    def _of_port(self, port: network.Port) -> Iterator[Fact]:
        for ip in port.ip or ("",):
            yield self._port(port, ip)

    def _of_nics(self, vm: instance.Instance, nics: Iterable[instance.Nic]) -> Iterator[Fact]:
        for nic in nics:
            for ip in nic.ip:
                yield self._instance(vm, nic.uuid, (nic.network, ip))
            if not nic.ip:
                row = _row(self._state.networks.get(nic.network), "", IN_USE)
                yield Fact(
                    msgspec.structs.replace(
                        row, kind="instance", owner=vm.name, owner_uuid=vm.uuid, nic=vm.nics.index(nic), mac=nic.mac
                    )
                )

    def _of_name(self, name: str) -> Iterator[Fact]:
        state, known = self._state, False
        if vm := state.instances.get(_uuid(state, "instances", name)):
            known = True
            yield from self._of_nics(vm, vm.nics)
            for lingering in vm.lingering:
                yield self._instance(vm, lingering.nic, (lingering.network, lingering.ip))
        if node := state.nodes.get(_uuid(state, "nodes", name)):
            known = True
            yield from _of_node(node)
        if net := state.networks.get(_uuid(state, "networks", name)):
            known = True
            for subnet in net.subnets:
                cidr = ranges.known_cidr(subnet.cidr)
                yield from self._of_range(net, cidr.family, cidr.range)
        if port := state.ports.get(name):
            yield from self._of_port(port)
        elif nic_owner := state.instances.get(state.nics.get(name, "")):
            yield from self._of_nics(nic_owner, [nic for nic in nic_owner.nics if nic.uuid == name])
        elif not known:
            for each in state.ports.values():
                if each.name == name:
                    yield from self._of_port(each)

    def _of_range(self, net: network.Network, family: ranges.Family, run: ranges.Range) -> Iterator[Fact]:
        for subnet in net.subnets:
            cidr = ranges.known_cidr(subnet.cidr)
            part = run.intersection(cidr.range) if cidr.family is family else None
            if part is None:
                continue
            parts = (self._used(net, family, part), _gateways(net, subnet, part), _externals(net, subnet, part))
            yield from (fact for _, fact in heapq.merge(*parts, key=lambda entry: entry[0]))

    def _used(self, net: network.Network, family: ranges.Family, run: ranges.Range) -> Iterator[tuple[int, Fact]]:
        for used in self._ledger.space(net.uuid, family).used_runs(run):
            for number in range(used.first, used.last + 1):
                for fact in self._use(net, ranges.Address(family, number)):
                    yield number, fact

    def _without_network(self, family: ranges.Family, run: ranges.Range) -> Iterator[Fact]:
        for vm in self._state.instances.values():
            for nic in vm.nics:
                for ip in () if nic.network else nic.ip:
                    address = ranges.canonical_address(ip)
                    if address.family is family and address.value in run:
                        yield self._instance(vm, nic.uuid, ("", ip))

    def _nodes_in(self, family: ranges.Family, run: ranges.Range) -> Iterator[Fact]:
        for node in sorted(self._state.nodes.values(), key=lambda node: node.name):
            for fact in _of_node(node):
                address = ranges.parse_address(fact.row.address)
                if address.family is family and address.value in run:
                    yield fact


def _uuid(state: states.Snapshot, collection: str, name: str) -> str:
    try:
        return state.resolve(collection, name)
    except errors.NotFoundError:
        return ""


def _of_node(node: cluster.Node) -> Iterator[Fact]:
    for ip in dict.fromkeys(filter(None, (node.primary_ip, node.secondary_ip))):
        yield Fact(
            Row(address=ip, state=NODE, kind="node", owner=node.name, owner_uuid=node.uuid), node, _is_of_node(ip)
        )


def _is_of_node(ip: str) -> Callable[[kinds.Stored], bool]:
    return lambda value: isinstance(value, cluster.Node) and ip in (value.primary_ip, value.secondary_ip)


def _allocates(network_uuid: str, ip: str) -> Callable[[kinds.Stored], bool]:
    return lambda value: (
        isinstance(value, instance.Instance | network.Port)
        and any((use.network, use.ip) == (network_uuid, ip) for use in value.allocations())
    )


def _row(net: network.Network | None, address: str, state: str) -> Row:
    """Return a row with the subnet and the pool of an address in a network."""
    if net is None:
        return Row(address=address, state=state)
    subnet = pool = ""
    if address:
        parsed = ranges.parse_range(address)
        for candidate in net.subnets:
            cidr = ranges.known_cidr(candidate.cidr)
            if cidr.family is parsed[0] and parsed[1].first in cidr.range:
                subnet = candidate.cidr
                pool = next((p.name or p.range for p in candidate.pools if _covers(p, parsed[1])), "")
    return Row(address=address, state=state, network=net.name, network_uuid=net.uuid, subnet=subnet, pool=pool)


def _covers(pool: network.Pool, run: ranges.Range) -> bool:
    return run.first in ranges.known_range(pool.range)[1] and run.last in ranges.known_range(pool.range)[1]


def _reserved(net: network.Network, subnet: network.Subnet, address: ranges.Address) -> Iterator[Fact]:
    """Yield what keeps pools of a subnet from allocating an address, besides its use."""
    gateway = ranges.parse_address(subnet.gateway) if subnet.gateway else None
    if address == gateway:
        yield _gateway(net, subnet)
    single = ranges.sized(address.value, 1)
    for _ in ranges.overlapping(subnet.external, single):
        yield _external(net, subnet, str(address), single)
    if any(address.value in run for run in pools.never_handed_out(ranges.known_cidr(subnet.cidr), gateway=None)):
        yield Fact(_row(net, str(address), END))


def _gateway(net: network.Network, subnet: network.Subnet) -> Fact:
    return Fact(
        _row(net, subnet.gateway, GATEWAY),
        net,
        lambda value: isinstance(value, network.Network) and any(s.gateway == subnet.gateway for s in value.subnets),
    )


def _external(net: network.Network, subnet: network.Subnet, text: str, run: ranges.Range) -> Fact:
    family = ranges.known_cidr(subnet.cidr).family

    def reserves(value: kinds.Stored) -> bool:
        return isinstance(value, network.Network) and any(
            run.first in known and run.last in known
            for each in value.subnets
            if ranges.known_cidr(each.cidr).family is family
            for known in ranges.overlapping(each.external, run)
        )

    return Fact(_row(net, text, EXTERNAL), net, reserves)


def _gateways(net: network.Network, subnet: network.Subnet, run: ranges.Range) -> Iterator[tuple[int, Fact]]:
    number = ranges.parse_address(subnet.gateway).value if subnet.gateway else None
    if number is not None and number in run:
        yield number, _gateway(net, subnet)


def _externals(net: network.Network, subnet: network.Subnet, run: ranges.Range) -> Iterator[tuple[int, Fact]]:
    """Yield the external reservations in a range, by their first numbers."""
    family = ranges.known_cidr(subnet.cidr).family
    overlaps = (known.intersection(run) for known in ranges.overlapping(subnet.external, run))
    for overlap in filter(None, overlaps):
        yield overlap.first, _external(net, subnet, ranges.format_range(family, overlap), overlap)


def reservations(net: network.Network, subject: Subject) -> Iterator[Row]:
    """Yield the gateways and external reservations of a network, of the past too, in the addresses of a subject."""
    for subnet in net.subnets:
        if subject.run is not None and ranges.known_cidr(subnet.cidr).family is subject.family:
            for _, fact in (*_gateways(net, subnet, subject.run), *_externals(net, subnet, subject.run)):
                yield fact.row


def matches(subject: Subject) -> Callable[[states.Owner, network.Allocation], bool]:
    """Return the test whether a subject is about an allocation of an owner, for a walk through the past.

    An owner that once had the requested name is followed under its later names.
    """
    if subject.mac:
        return lambda owner, use: _mac_of(owner, use) == subject.mac
    if subject.run is not None:
        run = subject.run
        if subject.is_single:
            return lambda _, use: use.ip == subject.text
        return lambda _, use: (
            (address := ranges.canonical_address(use.ip)).family is subject.family and address.value in run
        )
    named: set[str] = set()

    def is_named(owner: states.Owner, _: network.Allocation) -> bool:
        if subject.text in (owner.name, owner.uuid):
            named.add(owner.uuid)
        return owner.uuid in named

    return is_named


def needles(subject: Subject) -> tuple[bytes, ...]:
    """Return parts of JSON of which an owner of what ``matches`` accepts contains one; none if no part is known."""
    if subject.run is None or subject.is_single:
        return (msgspec.json.encode(subject.mac or subject.text),)
    beginning = ranges.common_text(ranges.parse_cidr(subject.text))
    # Without the quotation mark at its end: the addresses continue after their beginning.
    return (msgspec.json.encode(beginning)[:-1],) if beginning else ()


def _mac_of(owner: states.Owner, use: network.Allocation) -> str:
    if isinstance(owner, network.Port):
        return owner.mac
    return next((nic.mac for nic in owner.nics if nic.uuid == use.nic), "")

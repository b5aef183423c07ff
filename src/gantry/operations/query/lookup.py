"""Objects that a filter can match, found by an index: a query for one object does not walk a collection.

``engine`` asks here first, and walks a collection only if the filter names nothing that is indexed. The filter still
tests the objects found here, unless it only selects UUIDs. No index contains empty values.

Of conditions that must all be true, the one with the fewest objects decides, and costs as much for each of the others:
a port with an address in a network is found by the address, however many ports the network has.

A part of a port's address is looked for in the index of addresses: linear in their number, but without a look at the
ports, a tenth of the time.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gantry.model import instance, network, patterns
from gantry.operations.network import views
from gantry.operations.query import filters
from gantry.state.objects import kinds
from gantry.state.objects import snapshot as states

Find = Callable[[states.Snapshot, str], Iterable[object]]
"""Returns the objects with a value of a field."""


def every_port(state: states.Snapshot) -> list[network.Port]:
    """Return all ports by UUID, including the NICs of instances in a network."""
    nics = (views.as_port(vm, nic) for vm in state.instances.values() for nic in vm.nics if nic.network)
    return sorted([*state.ports.values(), *nics], key=lambda port: port.uuid)


def every_subnet(state: states.Snapshot) -> list[views.Placed]:
    """Return all subnets by UUID."""
    pairs = ((net, subnet) for net in state.networks.values() for subnet in net.subnets)
    return sorted(pairs, key=lambda entry: entry[1].uuid)


def _of_collection(kind: str) -> Find:
    return lambda state, uuid: filter(None, [state.collection(kind).get(uuid)])


def _rules_of(state: states.Snapshot, who: str) -> Iterator[object]:
    return (state.accessrules[uuid] for uuid in state.rules_of.get(who) or ())


def _tokens_of(state: states.Snapshot, user: str) -> Iterator[object]:
    return (state.apitokens[uuid] for uuid in state.tokens_of.get(user) or ())


def _nics(state: states.Snapshot, uuid: str) -> Iterator[network.Port]:
    vm = state.instances.get(uuid)
    return (views.as_port(vm, nic) for nic in vm.nics if nic.network) if vm else iter(())


def _port(state: states.Snapshot, uuid: str) -> Iterator[network.Port]:
    if uuid in state.ports:
        return iter([state.ports[uuid]])
    return (port for port in _nics(state, state.nics.get(uuid, "")) if port.uuid == uuid)


def _ports_in(state: states.Snapshot, uuid: str) -> Iterator[network.Port]:
    yield from (state.ports[port_uuid] for port_uuid in state.ports_in.get(uuid) or ())
    for vm in state.in_network.get(uuid) or ():
        yield from (port for port in _nics(state, vm) if port.network == uuid)


def _ports_of(state: states.Snapshot, device: str) -> Iterator[network.Port]:
    yield from (state.ports[port_uuid] for port_uuid in state.ports_of.get(device) or ())
    yield from _nics(state, device)


def _instances_in(state: states.Snapshot, uuid: str) -> Iterator[instance.Instance]:
    return (state.instances[vm] for vm in state.in_network.get(uuid) or ())


def _instance_with_mac(state: states.Snapshot, mac: str) -> Iterator[instance.Instance]:
    owner = state.instances.get(state.macs.get(filters.spelled(mac), ""))
    return iter([owner] if owner else [])


def _owners(state: states.Snapshot, text: str) -> Iterator[kinds.AddressOwner]:
    """Yield who has an address, in every network and in none. Cost: a look into an index for each network."""
    ip = filters.spelled(text)
    owners = (state.addresses.get((uuid, ip)) for uuid in ("", *state.networks))
    return (owner for owner in owners if owner is not None)


def _instances_at(state: states.Snapshot, ip: str) -> Iterator[instance.Instance]:
    return (state.instances[uuid] for uuid in sorted({owner.instance for owner in _owners(state, ip)} - {""}))


def _ports_at(state: states.Snapshot, ip: str) -> Iterator[network.Port]:
    for owner in _owners(state, ip):
        yield from _port(state, owner.port or owner.nic)


def _ports_matching(state: states.Snapshot, pattern: str) -> Iterator[network.Port]:
    """Yield the ports with an address that matches an expression. Cost: a test of each address."""
    matches = patterns.searcher(pattern)
    for (_, ip), owner in state.addresses.items():
        if matches(ip):
            yield from _port(state, owner.port or owner.nic)


def _ports_with_fixed(state: states.Snapshot, text: str) -> Iterator[network.Port]:
    """Yield the ports that may have a subnet, by its UUID, or an address."""
    return _ports_in(state, state.subnet_network[text]) if text in state.subnet_network else _ports_at(state, text)


def _port_with(state: states.Snapshot, mac: str) -> Iterator[network.Port]:
    mac = filters.spelled(mac)
    owner = state.macs.get(mac, "")
    if owner in state.ports:
        return iter([state.ports[owner]])
    return (port for port in _nics(state, owner) if port.mac == mac)


def _subnet(state: states.Snapshot, uuid: str) -> Iterator[views.Placed]:
    return (entry for entry in _subnets_in(state, state.subnet_network.get(uuid, "")) if entry[1].uuid == uuid)


def _subnets_in(state: states.Snapshot, uuid: str) -> Iterator[views.Placed]:
    net = state.networks.get(uuid)
    return ((net, subnet) for subnet in net.subnets) if net else iter(())


def _subnets_from(state: states.Snapshot, pool: str) -> Iterator[views.Placed]:
    for uuid in sorted(state.subnets_from.get(pool) or ()):
        yield from _subnet(state, uuid)


_INDEXES: Mapping[str, Mapping[str, Find]] = {
    "node": {"uuid": _of_collection("nodes")},
    "instance": {"uuid": _of_collection("instances")},
    "group": {"uuid": _of_collection("nodegroups")},
    "network": {"uuid": _of_collection("networks")},
    "segmentrange": {"uuid": _of_collection("segmentranges")},
    "subnetpool": {"uuid": _of_collection("subnetpools")},
    "access": {"uuid": _of_collection("accessrules"), "who": _rules_of},
    "token": {"uuid": _of_collection("apitokens"), "user": _tokens_of},
    "webhook": {"uuid": _of_collection("webhooks")},
    "port": {"uuid": _port, "network_uuid": _ports_in, "device_id": _ports_of, "mac": _port_with},
    "subnet": {"uuid": _subnet, "network_uuid": _subnets_in, "subnetpool": _subnets_from},
}

_CONTAINED: Mapping[str, Mapping[str, Find]] = {
    "instance": {"nic.ips": _instances_at, "nic.macs": _instance_with_mac, "nic.networks": _instances_in},
    "port": {"ip": _ports_at, "fixed": _ports_with_fixed},
}
"""Indexes for the values of lists."""

_MATCHED: Mapping[str, Mapping[str, Find]] = {"port": {"ip": _ports_matching}}
"""Searches of an index for the values of lists that match an expression; the objects are not touched."""


def by_uuid(state: states.Snapshot, what: str, uuids: Iterable[str | int]) -> list[object]:
    """Return the objects with these UUIDs, in order, each once; unknown UUIDs are ignored."""
    find = _INDEXES[what]["uuid"]
    return [entity for uuid in dict.fromkeys(map(str, uuids)) for entity in find(state, uuid)]


def has_uuids(what: str) -> bool:
    """Return whether objects of a resource are found by UUID."""
    return what in _INDEXES


def narrowed(state: states.Snapshot, what: str, raw: object) -> list[object] | None:
    """Return the only objects that can pass a filter, by UUID; None if no index applies."""
    candidates = _candidates(state, what, raw)
    if candidates is None:
        return None
    unique = {_uuid(entity): entity for entity in candidates}
    return [unique[uuid] for uuid in sorted(unique)]


def _candidates(state: states.Snapshot, what: str, raw: object) -> Iterator[object] | None:
    """Return an iterator over the objects that can pass a filter, some perhaps twice; None if no index applies."""
    known, contained, matched = _INDEXES.get(what, {}), _CONTAINED.get(what, {}), _MATCHED.get(what, {})
    match raw:
        case ["=" | "==", str(name), str(value)] if name in known and value:
            return iter(known[name](state, value))
        case ["=[]", str(name), str(value)] if name in contained and value:
            return iter(contained[name](state, value))
        case ["=~", str(name), str(value)] if name in matched:
            return iter(matched[name](state, value))
        case ["&", *parts]:
            iterators = [objects for part in parts if (objects := _candidates(state, what, part)) is not None]
            return iter(_shortest(iterators)) if iterators else None
        case ["|", *parts]:
            alternatives = [_candidates(state, what, part) for part in parts]
            if None not in alternatives:
                return itertools.chain.from_iterable(filter(None, alternatives))
    return None


def _shortest(iterators: Sequence[Iterator[object]]) -> list[object]:
    """Return the objects of the iterator that ends first, advancing all of them together."""
    if len(iterators) == 1:
        return list(iterators[0])
    passed: list[tuple[object, ...]] = []
    end = object()
    while True:
        row = tuple(next(iterator, end) for iterator in iterators)
        if end in row:
            position = row.index(end)
            return [earlier[position] for earlier in passed]
        passed.append(row)


def _uuid(entity: object) -> str:
    thing = entity[1] if isinstance(entity, tuple) else entity
    return str(getattr(thing, "uuid", ""))

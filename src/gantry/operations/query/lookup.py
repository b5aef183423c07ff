"""Which objects a filter can only be about, found by an index: a question for one object walks no collection.

``engine`` asks first here and walks a collection only where a filter names nothing that is indexed. What is found is
tested by the filter all the same, unless the filter is nothing but a choice of UUIDs. No index has what is empty.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from gantry.model import network
from gantry.operations.network import views
from gantry.state import snapshot as states

Find = Callable[[states.Snapshot, str], Iterable[object]]
"""Returns the objects of which a field has a value."""


def every_port(state: states.Snapshot) -> list[network.Port]:
    """Return all ports, the NICs of instances that are in a network among them, by UUID."""
    nics = (views.as_port(vm, nic) for vm in state.instances.values() for nic in vm.nics if nic.network)
    return sorted([*state.ports.values(), *nics], key=lambda port: port.uuid)


def every_subnet(state: states.Snapshot) -> list[views.Placed]:
    """Return all subnets by UUID."""
    return sorted(((net, one) for net in state.networks.values() for one in net.subnets), key=lambda one: one[1].uuid)


def _of_collection(kind: str) -> Find:
    return lambda state, uuid: filter(None, [state.collection(kind).get(uuid)])


def _nics(state: states.Snapshot, uuid: str) -> Iterator[network.Port]:
    vm = state.instances.get(uuid)
    return (views.as_port(vm, nic) for nic in vm.nics if nic.network) if vm else iter(())


def _port(state: states.Snapshot, uuid: str) -> Iterator[network.Port]:
    if uuid in state.ports:
        return iter([state.ports[uuid]])
    return (port for port in _nics(state, state.nics.get(uuid, "")) if port.uuid == uuid)


def _ports_in(state: states.Snapshot, uuid: str) -> Iterator[network.Port]:
    yield from (state.ports[one] for one in sorted(state.ports_in.get(uuid) or ()))
    for vm in state.in_network.get(uuid) or ():
        yield from (port for port in _nics(state, vm) if port.network == uuid)


def _ports_of(state: states.Snapshot, device: str) -> Iterator[network.Port]:
    yield from (state.ports[one] for one in sorted(state.ports_of.get(device) or ()))
    yield from _nics(state, device)


def _port_with(state: states.Snapshot, mac: str) -> Iterator[network.Port]:
    holder = state.macs.get(mac, "")
    if holder in state.ports:
        return iter([state.ports[holder]])
    return (port for port in _nics(state, holder) if port.mac == mac)


def _subnet(state: states.Snapshot, uuid: str) -> Iterator[views.Placed]:
    return (one for one in _subnets_in(state, state.subnet_network.get(uuid, "")) if one[1].uuid == uuid)


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
    "port": {"uuid": _port, "network_uuid": _ports_in, "device_id": _ports_of, "mac": _port_with},
    "subnet": {"uuid": _subnet, "network_uuid": _subnets_in, "subnetpool": _subnets_from},
}


def by_uuid(state: states.Snapshot, what: str, uuids: Iterable[str | int]) -> list[object]:
    """Return the objects that have these UUIDs, in order, each once; those that there are."""
    find = _INDEXES[what]["uuid"]
    return [one for uuid in dict.fromkeys(map(str, uuids)) for one in find(state, uuid)]


def has_uuids(what: str) -> bool:
    """Tell whether objects of a resource are found by UUID."""
    return what in _INDEXES


def narrowed(state: states.Snapshot, what: str, raw: object) -> list[object] | None:
    """Return the only objects that can pass a filter; None where no index knows."""
    known = _INDEXES.get(what, {})
    match raw:
        case ["=" | "==", str(name), str(value)] if name in known and value:
            return list(known[name](state, value))
        case ["&", *parts]:
            found = [some for part in parts if (some := narrowed(state, what, part)) is not None]
            return min(found, key=len, default=None)
        case ["|", *parts] if parts:
            several = [narrowed(state, what, part) for part in parts]
            if None not in several:
                return list({_key(one): one for some in several if some for one in some}.values())
    return None


def _key(one: object) -> object:
    thing = one[1] if isinstance(one, tuple) else one
    return getattr(thing, "uuid", thing)

"""A cluster's state and its changes as records of a shared database of addresses; pure. ``shared`` calls this module.

A subnet is in the database under its UUID, with its pools minus the external reservations. The owner of an allocation
is ``gantry/CLUSTER/UUID``, with the UUID of the instance or port. Its key is the address itself, so an allocation does
not change when an address moves from one NIC of an instance to another.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.address import ranges
from gantry.ipam import network_addresses
from gantry.ipam.sql import records, sharing
from gantry.model import network
from gantry.state.objects import snapshot as states

MAX_NAMED = 5
"""How many addresses an error message names."""

Known = network.Subnet | None


@dataclass(frozen=True)
class Additions:
    """What a plan adds to a database: subnets as they will be, and new allocations by network address."""

    subnets: Sequence[records.Subnet]
    addresses: dict[network_addresses.NetworkAddress, records.Allocation]

    def __bool__(self) -> bool:
        return bool(self.subnets or self.addresses)


def additions(before: states.Snapshot, changes: Sequence[states.Change], *, mark: str) -> Additions:
    """Return what changes, to be applied to ``before``, add to the database."""
    nets = {change.key: _network(change) for change in changes if change.kind == "networks"}
    _, owners_after = network_addresses.before_and_after(before, changes)
    allocations: dict[network_addresses.NetworkAddress, records.Allocation] = {}
    for key, owner in owners_after.items():
        network_uuid, ip = key
        subnet = (
            ""
            if key in before.addresses
            else subnet_of(nets.get(network_uuid) or before.networks.get(network_uuid), ip)
        )
        if subnet:
            allocations[key] = records.Allocation(subnet, ip, mark + owner.uuid, ip)
    subnets = [record_of(new) for _, new in _changed(before, changes) if new]
    return Additions(subnets, allocations)


def changed_subnets(before: states.Snapshot, changes: Iterable[states.Change]) -> Iterator[str]:
    """Yield the ids of the subnets that changes create, modify or remove."""
    return (subnet.uuid for pair in _changed(before, changes) for subnet in pair if subnet)


def _changed(before: states.Snapshot, changes: Iterable[states.Change]) -> Iterator[tuple[Known, Known]]:
    """Yield the subnets whose database record changes, before and after."""
    for change in changes:
        if change.kind != "networks":
            continue
        old = _subnets(before.networks.get(change.key))
        new = _subnets(_network(change))
        for uuid in {**old, **new}:
            old_subnet, new_subnet = old.get(uuid), new.get(uuid)
            if old_subnet is None or new_subnet is None or record_of(old_subnet) != record_of(new_subnet):
                yield old_subnet, new_subnet


def _network(change: states.Change) -> network.Network | None:
    value = change.value if isinstance(change, states.Put) else None
    return value if isinstance(value, network.Network) else None


def _subnets(net: network.Network | None) -> dict[str, network.Subnet]:
    return {subnet.uuid: subnet for subnet in net.subnets} if net else {}


def known(state: states.Snapshot, subnet: str) -> Known:
    """Return a subnet of the state by its UUID, None if the state does not have it."""
    network_uuid = state.subnet_network.get(subnet)
    return _subnets(state.networks[network_uuid])[subnet] if network_uuid else None


def record_of(subnet: network.Subnet) -> records.Subnet:
    """Return the database record of a subnet."""
    reserved = [ranges.parse_range(text)[1] for text in subnet.external]
    free: list[str] = []
    for pool in subnet.pools:
        family, run = ranges.known_range(pool.range)
        free += (ranges.format_range(family, part) for part in ranges.difference([run], reserved))
    return records.canonical_subnet(subnet.uuid, subnet.cidr, pools=free, gateway=subnet.gateway)


def subnet_of(net: network.Network | None, ip: str) -> str:
    """Return the id of the subnet that contains an address, empty if none does."""
    address = ranges.parse_address(ip)
    for subnet in net.subnets if net else ():
        cidr = ranges.known_cidr(subnet.cidr)
        if cidr.family is address.family and address.value in cidr.range:
            return subnet.uuid
    return ""


@dataclass(frozen=True)
class Content:
    """The expected content of a database, and the allocations of it that only running jobs hold."""

    expected: sharing.Expected
    held: dict[network_addresses.NetworkAddress, records.Allocation]


def content(
    snapshots: Iterable[states.Snapshot], held_addresses: Iterable[network_addresses.NetworkAddress], *, mark: str
) -> Content:
    """Return the allocations of all given states, and those that jobs hold. Cost: all addresses."""
    subnets: dict[str, records.Subnet] = {}
    owned: dict[network_addresses.NetworkAddress, records.Allocation] = {}
    nets: dict[str, network.Network] = {}
    for state in {id(snapshot): snapshot for snapshot in snapshots}.values():
        nets |= dict(state.networks.items())
        for key, owner in state.addresses.items():
            if subnet := subnet_of(state.networks.get(key[0]), key[1]):
                owned[key] = records.Allocation(subnet, key[1], mark + (owner.port or owner.instance), key[1])
    for net in nets.values():
        subnets |= {subnet.uuid: record_of(subnet) for subnet in net.subnets}
    held_by_jobs: dict[network_addresses.NetworkAddress, records.Allocation] = {}
    for key in held_addresses:
        if key not in owned and (subnet := subnet_of(nets.get(key[0]), key[1])):
            held_by_jobs[key] = records.Allocation(subnet, key[1], mark, key[1])
    allocations = {(each.subnet, _digits(each.address)): each for each in (*owned.values(), *held_by_jobs.values())}
    return Content(sharing.Expected(mark, subnets, allocations), held_by_jobs)


def _digits(text: str) -> str:
    return records.digits(ranges.parse_address(text))


def owner_text(owner: str) -> str:
    """Return the text for the owner of an address in messages."""
    match owner.split("/"):
        case ["gantry", cluster, uuid]:
            return f"{uuid or 'a job'} of cluster {cluster}"
    return owner or "an unknown owner"


def _names(allocations: Sequence[records.Allocation]) -> str:
    names = ", ".join(f"{each.address} to {owner_text(each.owner)}" for each in allocations[:MAX_NAMED])
    return names + (f" and {len(allocations) - MAX_NAMED} more" if len(allocations) > MAX_NAMED else "")


def check_conflicts(conflicts: Sequence[records.Allocation], where: str) -> None:
    """Refuse a database in which other owners have addresses of this cluster; WrongStateError names them."""
    if conflicts:
        raise errors.WrongStateError(
            f"addresses of this cluster are allocated to other owners in {where}: {_names(conflicts)}",
            hint="assign another address to one of the two owners, or use another database",
        )


def check_alone(allocations: Sequence[records.Allocation], where: str) -> None:
    """Refuse to leave a database in which other owners have addresses of the cluster's subnets; WrongStateError."""
    if allocations:
        raise errors.WrongStateError(
            f"addresses of this cluster's subnets are allocated to other owners in {where}: {_names(allocations)}",
            hint="without the database, the cluster would allocate these addresses again; release them first",
        )

"""What a cluster's state and its changes mean to a database of addresses; pure. ``shared`` asks.

A subnet is there under its UUID, with the pools that may hand out addresses without what is reserved externally. An
allocation's owner is ``gantry/CLUSTER/UUID``, of the instance or port, and its key is the address itself: what a NIC
hands to another one stays what it is.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.address import ranges
from gantry.ipam import places
from gantry.ipam.sql import records, sharing
from gantry.model import network
from gantry.state import snapshot as states

NAMED = 5
"""How many addresses a message names."""

Known = network.Subnet | None


@dataclass(frozen=True)
class Asked:
    """What a plan wants of a database: subnets as they will be, and what it newly takes, by place."""

    subnets: Sequence[records.Subnet]
    addresses: dict[places.Place, records.Allocation]

    def __bool__(self) -> bool:
        return bool(self.subnets or self.addresses)


def asked(before: states.Snapshot, changes: Sequence[states.Change], *, mark: str) -> Asked:
    """Return what changes want that are to be applied to ``before``."""
    nets = {change.key: _network(change) for change in changes if change.kind == "networks"}
    _, has = places.moved(before, changes)
    wanted: dict[places.Place, records.Allocation] = {}
    for place, holder in has.items():
        cable, ip = place
        subnet = "" if place in before.addresses else subnet_of(nets.get(cable) or before.networks.get(cable), ip)
        if subnet:
            wanted[place] = records.Allocation(subnet, ip, mark + holder.uuid, ip)
    subnets = [described(new) for _, new in _changed(before, changes) if new]
    return Asked(subnets, wanted)


def touched(before: states.Snapshot, changes: Iterable[states.Change]) -> Iterator[str]:
    """Yield the ids of subnets that changes make, describe anew or remove."""
    return (one.uuid for pair in _changed(before, changes) for one in pair if one)


def _changed(before: states.Snapshot, changes: Iterable[states.Change]) -> Iterator[tuple[Known, Known]]:
    """Yield subnets before and after changes that mean something to a database."""
    for change in changes:
        if change.kind != "networks":
            continue
        old = _subnets(before.networks.get(change.key))
        new = _subnets(_network(change))
        for uuid in {**old, **new}:
            was, will = old.get(uuid), new.get(uuid)
            if was is None or will is None or described(was) != described(will):
                yield was, will


def _network(change: states.Change) -> network.Network | None:
    value = change.value if isinstance(change, states.Put) else None
    return value if isinstance(value, network.Network) else None


def _subnets(net: network.Network | None) -> dict[str, network.Subnet]:
    return {subnet.uuid: subnet for subnet in net.subnets} if net else {}


def known(state: states.Snapshot, subnet: str) -> Known:
    """Return a subnet of the state by its UUID, None if there is none."""
    cable = state.subnet_network.get(subnet)
    return _subnets(state.networks[cable])[subnet] if cable else None


def described(subnet: network.Subnet) -> records.Subnet:
    """Return a subnet as a database knows it."""
    reserved = [ranges.parse_range(text)[1] for text in subnet.external]
    free: list[str] = []
    for pool in subnet.pools:
        family, run = ranges.known_range(pool.range)
        free += (ranges.format_range(family, part) for part in ranges.difference([run], reserved))
    return records.described(subnet.uuid, subnet.cidr, pools=free, gateway=subnet.gateway)


def subnet_of(net: network.Network | None, ip: str) -> str:
    """Return the id of the subnet that an address is in, empty if there is none."""
    address = ranges.parse_address(ip)
    for subnet in net.subnets if net else ():
        cidr = ranges.known_cidr(subnet.cidr)
        if cidr.family is address.family and address.value in cidr.range:
            return subnet.uuid
    return ""


@dataclass(frozen=True)
class Found:
    """The truth, and what of it is only held for running jobs."""

    truth: sharing.Truth
    held: dict[places.Place, records.Allocation]


def truth(snapshots: Iterable[states.Snapshot], held: Iterable[places.Place], *, mark: str) -> Found:
    """Return what any of the states says, and what is held. Cost: all addresses."""
    subnets: dict[str, records.Subnet] = {}
    have: dict[places.Place, records.Allocation] = {}
    nets: dict[str, network.Network] = {}
    for state in {id(one): one for one in snapshots}.values():
        nets |= dict(state.networks.items())
        for place, owner in state.addresses.items():
            if subnet := subnet_of(state.networks.get(place[0]), place[1]):
                have[place] = records.Allocation(subnet, place[1], mark + (owner.port or owner.instance), place[1])
    for net in nets.values():
        subnets |= {subnet.uuid: described(subnet) for subnet in net.subnets}
    waiting: dict[places.Place, records.Allocation] = {}
    for place in held:
        if place not in have and (subnet := subnet_of(nets.get(place[0]), place[1])):
            waiting[place] = records.Allocation(subnet, place[1], mark, place[1])
    every = {(one.subnet, _digits(one.address)): one for one in (*have.values(), *waiting.values())}
    return Found(sharing.Truth(mark, subnets, every), waiting)


def _digits(text: str) -> str:
    return records.digits(ranges.parse_address(text))


def called(owner: str) -> str:
    """Return how messages call who holds an address."""
    match owner.split("/"):
        case ["gantry", cluster, holder]:
            return f"{holder or 'a job'} of cluster {cluster}"
    return owner or "somebody"


def _names(allocations: Sequence[records.Allocation]) -> str:
    names = ", ".join(f"{one.address} by {called(one.owner)}" for one in allocations[:NAMED])
    return names + (f" and {len(allocations) - NAMED} more" if len(allocations) > NAMED else "")


def check_doubles(doubles: Sequence[records.Allocation], where: str) -> None:
    """Refuse a database in which others hold addresses of ours; WrongStateError names them."""
    if doubles:
        raise errors.WrongStateError(
            f"others hold addresses of this cluster in {where}: {_names(doubles)}",
            hint="give one of the two another address, or use another database",
        )


def check_alone(others: Sequence[records.Allocation], where: str) -> None:
    """Refuse to leave a database in which others hold addresses of our subnets; WrongStateError names them."""
    if others:
        raise errors.WrongStateError(
            f"others hold addresses of this cluster's subnets in {where}: {_names(others)}",
            hint="without the database they would be given out again; give them back first",
        )

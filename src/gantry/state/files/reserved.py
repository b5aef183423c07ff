"""The reservations of pools in ``config.data``: the only redundant data in that file.

NICs and ports are the allocations; the state holds no other record of them. For readers of the file each pool also has
its reservations, computed from those when the file is written (contracts/networks.md#configuration-objects)::

    {"range": "192.0.2.10-192.0.2.15", "name": "pool1", "reservations": ["192.0.2.10-192.0.2.12", "192.0.2.15"]}

They are runs, not a character per address, so those of an empty /64 are ``[]``. ``checkpoint`` writes them, and
compares them with NICs and ports when it reads the file, so an edit of only one of the two is reported.
"""

import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import structs

from gantry.address import ranges
from gantry.model import instance, network
from gantry.state.objects import snapshot

Used = Mapping[str, Sequence[ranges.Address]]
"""The addresses in use by the UUID of their network, sorted; of networks that have pools."""

_ADDRESS_OWNERS = (instance.Instance, network.Port)


class Pool(network.Pool, frozen=True):
    """A pool with its reservations; None where the file does not have them."""

    reservations: tuple[str, ...] | None = None


class Subnet(network.Subnet, frozen=True):
    """A subnet whose pools have their reservations."""

    pools: tuple[Pool, ...] = ()


class Network(network.Network, frozen=True):
    """A network whose pools have their reservations."""

    subnets: tuple[Subnet, ...] = ()


def used_in(state: snapshot.Snapshot) -> Used:
    """Return the addresses that NICs and ports of a state use."""
    return _used(state.networks.values(), state.addresses)


def _used(networks: Iterable[network.Network], owned_addresses: Iterable[tuple[str, str]]) -> Used:
    used: dict[str, list[ranges.Address]] = {
        net.uuid: [] for net in networks if any(subnet.pools for subnet in net.subnets)
    }
    for network_uuid, ip in owned_addresses:
        if network_uuid in used:
            used[network_uuid].append(ranges.parse_address(ip))
    for addresses in used.values():
        addresses.sort()
    return used


def with_reservations(net: network.Network, used: Used) -> Network:
    """Return a network in the form of the file."""
    addresses = used.get(net.uuid, ())
    subnets = tuple(
        Subnet(**structs.asdict(subnet) | {"pools": tuple(_pool(pool, addresses) for pool in subnet.pools)})
        for subnet in net.subnets
    )
    return Network(**structs.asdict(net) | {"subnets": subnets})


def without_reservations(net: Network) -> network.Network:
    """Return a network in the form of the state."""
    subnets = tuple(
        network.Subnet(**structs.asdict(subnet) | {"pools": tuple(map(_plain, subnet.pools))}) for subnet in net.subnets
    )
    return network.Network(**structs.asdict(net) | {"subnets": subnets})


def _plain(pool: Pool) -> network.Pool:
    return network.Pool(**{name: value for name, value in structs.asdict(pool).items() if name != "reservations"})


def fault(networks: Collection[Network], objects: Iterable[snapshot.Stored]) -> str:
    """Return which reservations in a file differ from the addresses that its NICs and ports use; empty for none.

    ``objects`` are those of all collections. Raises InvalidError for text that is not a range or an address.
    """
    owners = (value for value in objects if isinstance(value, _ADDRESS_OWNERS))
    used = _used(networks, ((use.network, use.ip) for owner in owners for use in owner.allocations()))
    for net in networks:
        for pool in (pool for subnet in net.subnets for pool in subnet.pools):
            expected = _pool(pool, used.get(net.uuid, ())).reservations
            if pool.reservations not in (None, expected):
                written, used_runs = (", ".join(runs or ()) or "none" for runs in (pool.reservations, expected))
                return (
                    f"pool {pool.range} of network {net.name} has the reservations {written}, but NICs and ports use "
                    f'{used_runs}; if it was edited on purpose, take the "reservations" of the pool out'
                )
    return ""


def _pool(pool: network.Pool, addresses: Sequence[ranges.Address]) -> Pool:
    family, run = ranges.parse_range(pool.range)
    low = bisect.bisect_left(addresses, ranges.Address(family, run.first))
    high = bisect.bisect_right(addresses, ranges.Address(family, run.last))
    runs = ranges.joined((address.value, address.value) for address in addresses[low:high])
    texts = tuple(ranges.format_range(family, part) for part in runs)
    return Pool(**structs.asdict(pool) | {"reservations": texts})

"""CIDRs of subnets, cut from subnet pools (contracts/neutron-api.md#subnet-pools).

Called by the units that make subnets, which hold the pool's lock until theirs are stored. Pure. What a pool has left is
its prefixes without the subnets that were cut from it; of the free blocks that are large enough the smallest is cut, so
that large ones last.
Cost: the subnets that the pool has given.
"""

from collections.abc import Iterator
from typing import TypeVar

from msgspec import structs

from gantry import errors
from gantry.address import ranges
from gantry.model import network, opcodes
from gantry.state import snapshot as states

Wanted = TypeVar("Wanted", opcodes.SubnetSpec, opcodes.SubnetMod)

_QUOTA_BITS = {ranges.Family.IPV4: 32, ranges.Family.IPV6: 64}
"""Which prefix counts as one in a quota."""


DEFAULT = "subnetpools/default"
"""The name of the lock under which a subnet pool becomes or stops being the default one of its IP version."""


def locked(snapshot: states.Snapshot, *specs: opcodes.SubnetSpec | opcodes.SubnetMod) -> list[str]:
    """Return the names of the locks under which subnets are cut from their pools; NotFoundError."""
    pools = [pool.uuid for spec in specs if (pool := _pool(snapshot, spec))]
    return [*pools, *([DEFAULT] if any(spec.default_subnetpool for spec in specs) else [])]


def _pool(snapshot: states.Snapshot, spec: opcodes.SubnetSpec | opcodes.SubnetMod) -> network.SubnetPool | None:
    """Return the pool that a subnet is cut from, None if its CIDR comes from none; NotFoundError."""
    if spec.subnetpool:
        return snapshot.subnet_pool(spec.subnetpool)
    if spec.default_subnetpool is None:
        return None
    for pool in snapshot.subnetpools.values():
        if pool.is_default and int(family(pool)) == spec.default_subnetpool:
            return pool
    raise errors.NotFoundError(
        f"no subnet pool is the default one of IPv{spec.default_subnetpool}", hint="name the subnet pool"
    )


def family(pool: network.SubnetPool) -> ranges.Family:
    """Return the IP version of a pool."""
    return ranges.parse_cidr(pool.prefixes[0]).family


def cut(snapshot: states.Snapshot, net: network.Network, spec: Wanted) -> Wanted:
    """Return what is asked for with a CIDR, if it is to come from a pool; ``net`` may have subnets to come.

    Raises InvalidError, NotUniqueError (that CIDR is taken), NoRoomError (nothing is left, or no quota).
    """
    pool = _pool(snapshot, spec)
    if pool is None:
        return spec
    given = list(_given(snapshot, net, pool))
    taken = [cidr.range for _, cidr in given]
    cidr = _named(pool, spec.cidr, taken) if spec.cidr else _free(pool, spec.prefixlen, taken)
    own = sum(_units(one) for project, one in given if project == net.project)
    if pool.default_quota and own + _units(cidr) > pool.default_quota:
        raise errors.NoRoomError(f"project {net.project} has used up its share of {_title(pool)}, {pool.default_quota}")
    return structs.replace(spec, cidr=str(cidr), subnetpool=pool.uuid)


def _title(pool: network.SubnetPool) -> str:
    return f"subnet pool {pool.name or pool.uuid}"


def _given(
    snapshot: states.Snapshot, net: network.Network, pool: network.SubnetPool
) -> Iterator[tuple[str, ranges.Cidr]]:
    """Yield the CIDRs that a pool has given, with the projects that have them."""
    homes = {snapshot.subnet_network[uuid] for uuid in snapshot.subnets_from.get(pool.uuid) or ()} - {net.uuid}
    for home in (net, *(snapshot.networks[uuid] for uuid in homes)):
        for subnet in home.subnets:
            if subnet.subnetpool == pool.uuid:
                yield home.project, ranges.parse_cidr(subnet.cidr)


def _units(cidr: ranges.Cidr) -> int:
    return 1 << max(_QUOTA_BITS[cidr.family] - cidr.prefix, 0)


def _check_length(pool: network.SubnetPool, length: int) -> None:
    if not pool.min_prefixlen <= length <= pool.max_prefixlen:
        raise errors.InvalidError(
            f"{_title(pool)} gives subnets from /{pool.min_prefixlen} to /{pool.max_prefixlen}, not a /{length}"
        )


def _named(pool: network.SubnetPool, text: str, taken: list[ranges.Range]) -> ranges.Cidr:
    cidr = ranges.parse_cidr(text)
    prefixes = map(ranges.parse_cidr, pool.prefixes)
    _check_length(pool, cidr.prefix)
    if not any(one.family is cidr.family and one.range.covers(cidr.range) for one in prefixes):
        raise errors.InvalidError(f"{cidr} is not of {_title(pool)}: {', '.join(pool.prefixes[:5])}")
    if any(run.overlaps(cidr.range) for run in taken):
        raise errors.NotUniqueError(f"{cidr} of {_title(pool)} is taken", hint="choose another, or name a length only")
    return cidr


def _free(pool: network.SubnetPool, prefixlen: int | None, taken: list[ranges.Range]) -> ranges.Cidr:
    length = pool.default_prefixlen if prefixlen is None else prefixlen
    _check_length(pool, length)
    whole = [ranges.parse_cidr(text).range for text in pool.prefixes]
    blocks = [block for run in ranges.difference(whole, taken) for block in ranges.cidrs(family(pool), run)]
    fitting = [block for block in blocks if block.prefix <= length]
    if not fitting:
        raise errors.NoRoomError(f"{_title(pool)} has no /{length} left", hint="ask for a smaller one")
    best = min(fitting, key=lambda block: (-block.prefix, block.first))
    return ranges.Cidr(best.family, best.first, length)

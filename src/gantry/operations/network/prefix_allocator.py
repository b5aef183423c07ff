"""CIDRs of subnets, cut from subnet pools (contracts/neutron-api.md#subnet-pools).

Called by the units that create subnets, which hold the pool's lock until the subnets are stored. Pure. The free part of
a subnet pool is its prefixes without the subnets cut from it; the smallest free block that is large enough is cut, so
that large blocks last. Cost: the subnets cut from the pool.
"""

from collections.abc import Iterator
from typing import TypeVar

from msgspec import structs

from gantry import errors
from gantry.address import ranges
from gantry.model import network, opcodes
from gantry.state.objects import snapshot as states

Spec = TypeVar("Spec", opcodes.SubnetSpec, opcodes.SubnetMod)

_QUOTA_BITS = {ranges.Family.IPV4: 32, ranges.Family.IPV6: 64}
"""The prefix length that counts as one unit of a quota."""


DEFAULT = "subnetpools/default"
"""The name of the lock under which a subnet pool becomes or stops being the default one of its IP version."""


def lock_names(snapshot: states.Snapshot, *specs: opcodes.SubnetSpec | opcodes.SubnetMod) -> list[str]:
    """Return the names of the locks under which subnets are cut from their pools; raises NotFoundError."""
    pools = [pool.uuid for spec in specs if (pool := _pool(snapshot, spec))]
    return [*pools, *([DEFAULT] if any(spec.default_subnetpool for spec in specs) else [])]


def _pool(snapshot: states.Snapshot, spec: opcodes.SubnetSpec | opcodes.SubnetMod) -> network.SubnetPool | None:
    """Return the pool that a subnet is cut from, None if its CIDR is not from a pool; raises NotFoundError."""
    if spec.subnetpool:
        return snapshot.subnet_pool(spec.subnetpool)
    if spec.default_subnetpool is None:
        return None
    for pool in snapshot.subnetpools.values():
        if pool.is_default and int(family(pool)) == spec.default_subnetpool:
            return pool
    raise errors.NotFoundError(
        f"IPv{spec.default_subnetpool} has no default subnet pool", hint="specify the subnet pool"
    )


def family(pool: network.SubnetPool) -> ranges.Family:
    """Return the IP version of a pool."""
    return ranges.parse_cidr(pool.prefixes[0]).family


def cut(snapshot: states.Snapshot, net: network.Network, spec: Spec) -> Spec:
    """Return the request with a CIDR from its subnet pool, if it names one; ``net`` may contain unstored subnets.

    Raises InvalidError, NotUniqueError (the CIDR is in use), NoRoomError (no free block, or the quota is used up).
    """
    pool = _pool(snapshot, spec)
    if pool is None:
        return spec
    version = spec.ip_version
    if version is not None and version != int(family(pool)):
        raise errors.InvalidError(
            f"{_title(pool)} has IPv{int(family(pool))} prefixes, so an IPv{version} subnet cannot be from it",
            hint="specify another subnet pool",
        )
    allocated = list(_allocated(snapshot, net, pool))
    used = [cidr.range for _, cidr in allocated]
    if spec.cidr:
        cidr = _requested(pool, spec.cidr, used)
    elif spec.gateway and spec.gateway != "none":
        cidr = _around(pool, spec.prefixlen, used, gateway=ranges.parse_address(spec.gateway))
    else:
        cidr = _free(pool, spec.prefixlen, used)
    own = sum(_units(subnet_cidr) for project, subnet_cidr in allocated if project == net.project)
    if pool.default_quota and own + _units(cidr) > pool.default_quota:
        raise errors.NoRoomError(f"project {net.project} has used up its quota of {_title(pool)}, {pool.default_quota}")
    return structs.replace(spec, cidr=str(cidr), subnetpool=pool.uuid)


def _title(pool: network.SubnetPool) -> str:
    return f"subnet pool {pool.name or pool.uuid}"


def _allocated(
    snapshot: states.Snapshot, net: network.Network, pool: network.SubnetPool
) -> Iterator[tuple[str, ranges.Cidr]]:
    """Yield the CIDRs that were cut from a pool, with the projects that have them."""
    uuids = {snapshot.subnet_network[uuid] for uuid in snapshot.subnets_from.get(pool.uuid) or ()} - {net.uuid}
    for owner in (net, *(snapshot.networks[uuid] for uuid in uuids)):
        for subnet in owner.subnets:
            if subnet.subnetpool == pool.uuid:
                yield owner.project, ranges.parse_cidr(subnet.cidr)


def _units(cidr: ranges.Cidr) -> int:
    return 1 << max(_QUOTA_BITS[cidr.family] - cidr.prefix, 0)


def _check_length(pool: network.SubnetPool, length: int) -> None:
    if not pool.min_prefixlen <= length <= pool.max_prefixlen:
        raise errors.InvalidError(
            f"{_title(pool)} allows subnets from /{pool.min_prefixlen} to /{pool.max_prefixlen}, not a /{length}"
        )


def _requested(pool: network.SubnetPool, text: str, used: list[ranges.Range]) -> ranges.Cidr:
    cidr = ranges.parse_cidr(text)
    prefixes = map(ranges.parse_cidr, pool.prefixes)
    _check_length(pool, cidr.prefix)
    if not any(prefix.family is cidr.family and prefix.range.covers(cidr.range) for prefix in prefixes):
        raise errors.InvalidError(f"{cidr} is not of {_title(pool)}: {', '.join(pool.prefixes[:5])}")
    if any(run.overlaps(cidr.range) for run in used):
        raise errors.NotUniqueError(
            f"{cidr} of {_title(pool)} is taken", hint="choose another CIDR, or specify only a prefix length"
        )
    return cidr


def _around(
    pool: network.SubnetPool, prefixlen: int | None, used: list[ranges.Range], *, gateway: ranges.Address
) -> ranges.Cidr:
    """Return the free CIDR of a pool that contains a gateway; raises InvalidError, NoRoomError."""
    length = pool.default_prefixlen if prefixlen is None else prefixlen
    _check_length(pool, length)
    if gateway.family is not family(pool):
        raise errors.InvalidError(f"gateway {gateway} has another IP version than {_title(pool)}")
    host_bits = gateway.family.bits - length
    cidr = ranges.Cidr(gateway.family, gateway.value >> host_bits << host_bits, length)
    free_blocks = ranges.difference([ranges.parse_cidr(text).range for text in pool.prefixes], used)
    if not any(block.covers(cidr.range) for block in free_blocks):
        raise errors.NoRoomError(
            f"{_title(pool)} has no /{length} left that contains the gateway {gateway}",
            hint="choose another gateway, or none",
        )
    return _requested(pool, str(cidr), used)


def _free(pool: network.SubnetPool, prefixlen: int | None, used: list[ranges.Range]) -> ranges.Cidr:
    length = pool.default_prefixlen if prefixlen is None else prefixlen
    _check_length(pool, length)
    whole = [ranges.parse_cidr(text).range for text in pool.prefixes]
    blocks = [block for run in ranges.difference(whole, used) for block in ranges.cidrs(family(pool), run)]
    fitting = [block for block in blocks if block.prefix <= length]
    if not fitting:
        raise errors.NoRoomError(f"{_title(pool)} has no /{length} left", hint="request a smaller subnet")
    best = min(fitting, key=lambda block: (-block.prefix, block.first))
    return ranges.Cidr(best.family, best.first, length)

"""Allocate: which address a claim gets, or why none.

``reconcile_claim`` calls it for a claim without an address object. It reads the cache and changes nothing.

Order of preference: the address that the pool pre-allocates to the claim's name; the one that the claim's annotation
requests; the one in its status, if free; the one assumed for it or reserved for it in a cluster; the first free address
or a random one, by the pool's allocation strategy or by the setting of the controllers (``Cache.random_order``).

See contracts/ippool-claims.md#allocation and contracts/ippool-claims.md#known-defects.
"""

from collections.abc import Callable

import msgspec

from gantry.address import ranges
from gantry.kubernetes.api import capi, ipam, meta
from gantry.kubernetes.claims import actions, cache, cluster_reservations
from gantry.kubernetes.claims import pool_space as rooms

FAILED = "AllocationFailed"
NOT_READY = "PoolNotReady"
EXHAUSTED = "PoolExhausted"

MAX_NAME_LENGTH = 253


class Problem(msgspec.Struct, frozen=True):
    """Why a claim has no address.

    If ``waits``, the claim waits for ``number``, None for any address; otherwise for a change of the claim, its pool or
    a Cluster.
    """

    reason: str
    message: str
    waits: bool = False
    number: ranges.Address | None = None


def pick(objects: cache.Cache, claim: actions.Claim, *, below: Callable[[int], int]) -> rooms.Allocation | Problem:
    """Return the address for a claim with its settings; ``below(n)`` returns a random number from 0 to n - 1."""
    pool, space = objects.pool(claim.pool), objects.space_of(claim.pool)
    if pool is None or space is None or claim.pool.namespace != claim.metadata.namespace:
        return _pool_missing(claim, objects.problem(claim.pool))
    if pool.is_deleting:
        return Problem(NOT_READY, f"IPPool {claim.pool.name} is being deleted")
    if obstacle := objects.networks.unusable_reason(claim.pool):
        return Problem(NOT_READY, f"IPPool {claim.pool.name} cannot be used: {obstacle}")
    absent = _missing_cluster(objects, claim, pool)
    if absent:
        return Problem(NOT_READY, f"Cluster {absent} does not exist yet")
    required = _required_address(claim, pool)
    if isinstance(required, Problem):
        return required
    allocation = _particular_address(space, claim, required) if required else _any_address(objects, claim, space, below)
    if isinstance(allocation, rooms.Allocation) and len(name_of(pool, allocation.address)) > MAX_NAME_LENGTH:
        return Problem(
            FAILED, f"the name of an IPAddress would be longer than {MAX_NAME_LENGTH}: shorten spec.namePrefix"
        )
    return allocation


def name_of(pool: ipam.IPPool, address: ranges.Address) -> str:
    """Return the object name for an address of a pool; two objects for the same address have the same name."""
    return f"{pool.spec.name_prefix}-{str(address).replace('.', '-').replace(':', '-')}".rstrip("-")


def _pool_missing(claim: actions.Claim, problem: str) -> Problem:
    pool = claim.pool
    if pool.namespace != claim.metadata.namespace:
        text = f"IPPool {pool.namespace}/{pool.name} is not in the namespace of the claim"
        return Problem(NOT_READY, f"{text}: a claim must use a pool of its own namespace")
    if problem:
        return Problem(NOT_READY, f"IPPool {pool.name} cannot be used: {problem}")
    return Problem(NOT_READY, f"IPPool {pool.name} does not exist in namespace {pool.namespace}")


def _missing_cluster(objects: cache.Cache, claim: actions.Claim, pool: ipam.IPPool) -> str:
    """Return the name of a required Cluster that does not exist: the pool's, or the one in a CAPI claim's spec."""
    names = [pool.spec.cluster_name, claim.spec.cluster_name if isinstance(claim, capi.IPAddressClaim) else ""]
    return next((name for name in names if name and not objects.clusters.get(claim.metadata.namespace, name)), "")


def _required_address(claim: actions.Claim, pool: ipam.IPPool) -> ranges.Address | Problem | None:
    """Return the only address that the claim can get, None if it can get any."""
    requested = rooms.parse(claim.requested)
    if claim.requested and requested is None:
        return Problem(FAILED, f'Invalid ipAddress annotation "{claim.requested:.64}": not a valid IP address')
    preallocated = pool.spec.pre_allocations.get(claim.metadata.name)
    reserved = rooms.parse(preallocated) if preallocated else None
    if requested and reserved and requested != reserved:
        text = f"PreAllocation and requested ip address are conflicting: {reserved} and {requested}"
        return Problem(FAILED, text)
    return reserved or requested


def _particular_address(
    space: rooms.PoolSpace, claim: actions.Claim, address: ranges.Address
) -> rooms.Allocation | Problem:
    """Return a particular address with its settings if the claim can have it."""
    preallocated_to = space.preallocated_to(address)
    reserved = preallocated_to == claim.metadata.name
    allocation = space.preallocation(address) if reserved else space.allocation(address)
    if allocation is None:
        text = "Pre-allocated IP out of bounds" if reserved else "Requested IP out of bounds"
        searched = "range or subnet" if reserved else "range"
        return Problem(FAILED, f"{text}: no {searched} of the pool contains {address}")
    if preallocated_to is not None and not reserved:
        return Problem(FAILED, f"Requested IP not available: {address} is pre-allocated to claim {preallocated_to}")
    if not reserved and space.is_excluded(address):
        text = f"{address} is a gateway, a DNS server, the first or last address of its subnet, or excluded"
        return Problem(FAILED, f"Requested IP not available: {text}")
    other_owner = _other_owner(space, claim, address)
    if other_owner:
        text = "Pre-allocated IP not available" if reserved else "Requested IP not available"
        return Problem(FAILED, f"{text}: {address} is in use by {other_owner}", waits=True, number=address)
    return allocation


def _other_owner(space: rooms.PoolSpace, claim: actions.Claim, address: ranges.Address) -> meta.Ref | None:
    return min(
        space.owners.get(address, set()) - {claim.ref, cluster_reservations.claim_owner(claim.ref)}, default=None
    )


def _any_address(
    objects: cache.Cache, claim: actions.Claim, space: rooms.PoolSpace, below: Callable[[int], int]
) -> rooms.Allocation | Problem:
    for candidate in (
        _previous_address(claim, space),
        objects.assumed_address(claim),
        *objects.networks.reserved_addresses(claim),
    ):
        allocation = _particular_address(space, claim, candidate) if candidate else None
        if isinstance(allocation, rooms.Allocation):
            return allocation
    free = space.find_free(below=below if _is_random(objects, space) else None)
    if free is None:
        text = f"Exhausted IP Pools: IPPool {claim.pool.name} has no free address; the claim waits for one"
        return Problem(EXHAUSTED, text, waits=True)
    return free


def _is_random(objects: cache.Cache, space: rooms.PoolSpace) -> bool:
    """Return whether claims get a random address: never of a range without an end, which would be any address."""
    return space.spec.allocation_strategy == ipam.RANDOM or (objects.random_order and space.is_bounded)


def _previous_address(claim: actions.Claim, space: rooms.PoolSpace) -> ranges.Address | None:
    """Return the address in the object name in the claim's status: a hint, in case the object was removed by force."""
    prefix, name = f"{space.spec.name_prefix}-", claim.address_name
    if not name.startswith(prefix):
        return None
    tail = name.removeprefix(prefix)
    return rooms.parse(tail.replace("-", ".")) or rooms.parse(tail.replace("-", ":"))

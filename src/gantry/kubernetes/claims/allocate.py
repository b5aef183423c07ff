"""Allocate: which address a claim gets, or why none (claims seed; contract: kubernetes 1.4, defects D1 to D18).

``reconcile_claim`` calls it for a claim without an address object. It reads the cache and changes nothing.

Order of preference: the address that the pool pre-allocates to the claim's name; the one that the claim's annotation
requests; the one in its status, if free; the one assumed for it or reserved for it in a cluster; the first free address
or a random one, by the pool's allocation strategy.
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


def pick(seen: cache.Cache, claim: actions.Claim, *, below: Callable[[int], int]) -> rooms.Allocation | Problem:
    """Return the address for a claim with its settings; ``below(n)`` returns a random number from 0 to n - 1."""
    pool, room = seen.pool(claim.pool), seen.space_of(claim.pool)
    if pool is None or room is None or claim.pool.namespace != claim.metadata.namespace:
        return _pool_missing(claim, seen.problem(claim.pool))
    if pool.is_deleting:
        return Problem(NOT_READY, f"IPPool {claim.pool.name} is being deleted")
    if obstacle := seen.networks.unusable_reason(claim.pool):
        return Problem(NOT_READY, f"IPPool {claim.pool.name} cannot be used: {obstacle}")
    absent = _missing_cluster(seen, claim, pool)
    if absent:
        return Problem(NOT_READY, f"Cluster {absent} does not exist yet")
    wanted = _required_address(claim, pool)
    if isinstance(wanted, Problem):
        return wanted
    found = _particular_address(room, claim, wanted) if wanted else _any_address(seen, claim, room, below)
    if isinstance(found, rooms.Allocation) and len(name_of(pool, found.address)) > MAX_NAME_LENGTH:
        return Problem(
            FAILED, f"the name of an IPAddress would be longer than {MAX_NAME_LENGTH}: shorten spec.namePrefix"
        )
    return found


def name_of(pool: ipam.IPPool, address: ranges.Address) -> str:
    """Return the object name for an address of a pool; two objects for the same address have the same name."""
    return f"{pool.spec.name_prefix}-{str(address).replace('.', '-').replace(':', '-')}".rstrip("-")


def _pool_missing(claim: actions.Claim, problem: str) -> Problem:
    where = claim.pool
    if where.namespace != claim.metadata.namespace:
        text = f"IPPool {where.namespace}/{where.name} is not in the namespace of the claim"
        return Problem(NOT_READY, f"{text}: a claim must use a pool of its own namespace")
    if problem:
        return Problem(NOT_READY, f"IPPool {where.name} cannot be used: {problem}")
    return Problem(NOT_READY, f"IPPool {where.name} does not exist in namespace {where.namespace}")


def _missing_cluster(seen: cache.Cache, claim: actions.Claim, pool: ipam.IPPool) -> str:
    """Return the name of a required Cluster that does not exist: the pool's, or the one in a CAPI claim's spec."""
    asked = [pool.spec.cluster_name, claim.spec.cluster_name if isinstance(claim, capi.IPAddressClaim) else ""]
    return next((name for name in asked if name and not seen.clusters.get(claim.metadata.namespace, name)), "")


def _required_address(claim: actions.Claim, pool: ipam.IPPool) -> ranges.Address | Problem | None:
    """Return the only address that the claim can get, None if it can get any."""
    requested = rooms.parse(claim.requested)
    if claim.requested and requested is None:
        return Problem(FAILED, f'Invalid ipAddress annotation "{claim.requested:.64}": not a valid IP address')
    given = pool.spec.pre_allocations.get(claim.metadata.name)
    reserved = rooms.parse(given) if given else None
    if requested and reserved and requested != reserved:
        text = f"PreAllocation and requested ip address are conflicting: {reserved} and {requested}"
        return Problem(FAILED, text)
    return reserved or requested


def _particular_address(
    room: rooms.PoolSpace, claim: actions.Claim, wanted: ranges.Address
) -> rooms.Allocation | Problem:
    """Return a particular address with its settings if the claim can have it."""
    lease, owner = room.allocation(wanted), room.preallocated_to(wanted)
    reserved = owner == claim.metadata.name
    if lease is None:
        text = "Pre-allocated IP out of bounds" if reserved else "Requested IP out of bounds"
        return Problem(FAILED, f"{text}: no range of the pool contains {wanted}")
    if owner is not None and not reserved:
        return Problem(FAILED, f"Requested IP not available: {wanted} is pre-allocated to claim {owner}")
    if not reserved and room.is_excluded(wanted):
        text = f"{wanted} is a gateway, a DNS server, the first or last address of its subnet, or excluded"
        return Problem(FAILED, f"Requested IP not available: {text}")
    holder = _other_owner(room, claim, wanted)
    if holder:
        text = "Pre-allocated IP not available" if reserved else "Requested IP not available"
        return Problem(FAILED, f"{text}: {wanted} is in use by {holder}", waits=True, number=wanted)
    return lease


def _other_owner(room: rooms.PoolSpace, claim: actions.Claim, address: ranges.Address) -> meta.Ref | None:
    return min(room.owners.get(address, set()) - {claim.ref, cluster_reservations.claim_owner(claim.ref)}, default=None)


def _any_address(
    seen: cache.Cache, claim: actions.Claim, room: rooms.PoolSpace, below: Callable[[int], int]
) -> rooms.Allocation | Problem:
    for known in (
        _previous_address(claim, room),
        seen.assumed_address(claim),
        *seen.networks.reserved_addresses(claim),
    ):
        found = _particular_address(room, claim, known) if known else None
        if isinstance(found, rooms.Allocation):
            return found
    is_random = room.spec.allocation_strategy == ipam.RANDOM
    free = room.find_free(below=below if is_random else None)
    if free is None:
        text = f"Exhausted IP Pools: IPPool {claim.pool.name} has no free address; the claim waits for one"
        return Problem(EXHAUSTED, text, waits=True)
    return free


def _previous_address(claim: actions.Claim, room: rooms.PoolSpace) -> ranges.Address | None:
    """Return the address in the object name in the claim's status: a hint, in case the object was removed by force."""
    prefix, name = f"{room.spec.name_prefix}-", claim.address_name
    if not name.startswith(prefix):
        return None
    tail = name.removeprefix(prefix)
    return rooms.parse(tail.replace("-", ".")) or rooms.parse(tail.replace("-", ":"))

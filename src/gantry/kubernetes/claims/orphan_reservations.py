"""Orphan reservations: reservations in a cluster without a claim or an address object.

The controllers look for them periodically. A crash or a finalizer removed by hand can leave one. It is released after
``reconcile_claim.GRACE``, because a restored backup may bring its objects late, and only while its pool exists and is
not paused: if the pool was moved to another API server, the reservation is in use there.
"""

import datetime

from gantry.kubernetes.claims import actions, cache, cluster_reservations, pool_space, reconcile_claim

OrphansSince = dict[cluster_reservations.Reservation, datetime.datetime]
"""Orphan reservations, and since when each has been observed as one."""


def find(seen: cache.Cache, known: OrphansSince, *, now: datetime.datetime) -> OrphansSince:
    """Return the current orphan reservations."""
    listed = (one for one in seen.networks.reservations if _is_orphan(seen, one))
    return {one: known.get(one, now) for one in listed}


def releases(seen: cache.Cache, known: OrphansSince, *, now: datetime.datetime) -> list[actions.Release]:
    """Return the releases of reservations past the grace period; each checks first that the claim is absent."""
    old = sorted(one for one, since in known.items() if (now - since).total_seconds() >= reconcile_claim.GRACE_SECONDS)
    return [
        actions.Release(one.claim, one, reconcile_claim.possible_objects(seen, one, None), absent=(one.claim,))
        for one in old
    ]


def _is_orphan(seen: cache.Cache, one: cluster_reservations.Reservation) -> bool:
    pool = seen.pool(one.pool)
    if pool is None or seen.is_pool_paused(pool) or seen.claim(one.claim):
        return False
    return not any(pool_space.parse(held.spec.address) == one.address for held in seen.addresses_of(one.claim))

"""Orphan reservations: reservations in a cluster without a claim or an address object.

The controllers look for them periodically. A crash or a finalizer removed by hand can leave one. It is released after
``reconcile_claim.GRACE``, because a restored backup may bring its objects late, and only while its pool exists and is
not paused: if the pool was moved to another API server, the reservation is in use there.
"""

import datetime

from gantry.kubernetes.claims import actions, cache, cluster_reservations, pool_space, reconcile_claim

Known = dict[cluster_reservations.Reservation, datetime.datetime]
"""Orphan reservations, and since when each has been observed as one."""


def find(seen: cache.Index, known: Known, *, now: datetime.datetime) -> Known:
    """Return the current orphan reservations."""
    listed = (one for one in seen.bonds.reservations if _is_left(seen, one))
    return {one: known.get(one, now) for one in listed}


def releases(seen: cache.Index, known: Known, *, now: datetime.datetime) -> list[actions.Release]:
    """Return the releases of reservations past the grace period; each checks first that the claim is absent."""
    old = sorted(one for one, since in known.items() if (now - since).total_seconds() >= reconcile_claim.GRACE)
    return [
        actions.Release(one.claim, one, reconcile_claim.unless(seen, one, None), absent=(one.claim,)) for one in old
    ]


def _is_left(seen: cache.Index, one: cluster_reservations.Reservation) -> bool:
    pool = seen.pool(one.pool)
    if pool is None or seen.is_resting(pool) or seen.claim(one.claim):
        return False
    return not any(pool_space.parse(held.spec.address) == one.address for held in seen.addresses_of(one.claim))

"""Leftovers: reservations in a cluster that no claim and no address object has any more.

Who calls it: the controllers, now and then. A crash may leave one behind, or somebody who takes finalizers off. One is
given up when that has been so for a while (``reconcile_claim.GRACE``: a restored backup brings objects late), and only
where its pool is and works: what was moved to another API server with its pool is in use there.
"""

import datetime

from gantry.kubernetes.claims import actions, cache, cluster_reservations, pool_space, reconcile_claim

Known = dict[cluster_reservations.Reservation, datetime.datetime]
"""Leftovers, and when each was found to be one."""


def find(seen: cache.Index, known: Known, *, now: datetime.datetime) -> Known:
    """Return the leftovers that there are now."""
    listed = (one for one in seen.bonds.reservations if _is_left(seen, one))
    return {one: known.get(one, now) for one in listed}


def releases(seen: cache.Index, known: Known, *, now: datetime.datetime) -> list[actions.Release]:
    """Return what gives up those that have been leftovers for long enough; the server is asked for the claim first."""
    old = sorted(one for one, since in known.items() if (now - since).total_seconds() >= reconcile_claim.GRACE)
    return [
        actions.Release(one.claim, one, reconcile_claim.unless(seen, one, None), absent=(one.claim,)) for one in old
    ]


def _is_left(seen: cache.Index, one: cluster_reservations.Reservation) -> bool:
    pool = seen.pool(one.pool)
    if pool is None or seen.is_resting(pool) or seen.claim(one.claim):
        return False
    return not any(pool_space.parse(held.spec.address) == one.address for held in seen.addresses_of(one.claim))

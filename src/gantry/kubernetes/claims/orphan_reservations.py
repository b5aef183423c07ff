"""Orphan reservations: reservations in a cluster without a claim or an address object.

The controllers look for them periodically. A crash or a finalizer removed by hand can leave one. It is released after
``reconcile_claim.GRACE_SECONDS``, because a restored backup may bring its objects late, and only while its pool exists
and is not paused: if the pool was moved to another API server, the reservation is in use there.
"""

import datetime

from gantry.kubernetes.claims import actions, cache, cluster_reservations, pool_space, reconcile_claim

OrphansSince = dict[cluster_reservations.Reservation, datetime.datetime]
"""Orphan reservations, and since when each has been observed as one."""


def find(objects: cache.Cache, since_before: OrphansSince, *, now: datetime.datetime) -> OrphansSince:
    """Return the current orphan reservations."""
    orphans = (reservation for reservation in objects.networks.reservations if _is_orphan(objects, reservation))
    return {reservation: since_before.get(reservation, now) for reservation in orphans}


def releases(objects: cache.Cache, orphans: OrphansSince, *, now: datetime.datetime) -> list[actions.Release]:
    """Return the releases of reservations past the grace period; each checks first that the claim is absent."""
    old = sorted(
        reservation
        for reservation, since in orphans.items()
        if (now - since).total_seconds() >= reconcile_claim.GRACE_SECONDS
    )
    return [
        actions.Release(
            reservation.claim,
            reservation,
            reconcile_claim.possible_objects(objects, reservation, None),
            absent=(reservation.claim,),
        )
        for reservation in old
    ]


def _is_orphan(objects: cache.Cache, reservation: cluster_reservations.Reservation) -> bool:
    pool = objects.pool(reservation.pool)
    if pool is None or objects.is_pool_paused(pool) or objects.claim(reservation.claim):
        return False
    return not any(
        pool_space.parse(address.spec.address) == reservation.address
        for address in objects.addresses_of(reservation.claim)
    )

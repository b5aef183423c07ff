"""Conflicts: addresses that a cluster refused to reserve although no owner of them was found.

``cluster_sync`` calls it. A running job may hold the address, a released one may be quarantined for an hour, and with a
shared IPAM database another cluster may own it. Such an address counts as used and is tried again with exponential
back-off. An address is dropped here once its owner is found or it is reserved.
"""

import math
from collections.abc import Callable, Iterable

import msgspec

from gantry.address import ranges
from gantry.kubernetes.api import meta
from gantry.kubernetes.claims import cluster_reservations

FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 1.0, 60.0
"""Back-off in seconds."""


class _Conflict(msgspec.Struct):
    owner: meta.Ref
    pause: float
    until: float


class ReservationConflicts:
    """The conflicts by network and address; ``now`` returns a monotonic time in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._conflicts: dict[tuple[str, ranges.Address], _Conflict] = {}

    def add(self, reservation: cluster_reservations.Reservation, owner: meta.Ref) -> None:
        """Record that an address was refused."""
        old = self._conflicts.get((reservation.network, reservation.address))
        pause = min(MAX_DELAY_SECONDS, 2 * old.pause) if old else FIRST_DELAY_SECONDS
        self._conflicts[reservation.network, reservation.address] = _Conflict(owner, pause, self._now() + pause)

    def drop(self, reservation: cluster_reservations.Reservation) -> None:
        """Drop an address that has been reserved."""
        self._conflicts.pop((reservation.network, reservation.address), None)

    @property
    def is_due(self) -> bool:
        """Whether the back-off of a conflict is over."""
        return any(conflict.until <= self._now() for conflict in self._conflicts.values())

    def with_conflicts(self, networks: Iterable[cluster_reservations.Network]) -> list[cluster_reservations.Network]:
        """Return the networks with refused addresses added as used; drop conflicts that are resolved."""
        by_uuid = {net.uuid: net for net in networks}
        refused: dict[str, dict[ranges.Address, meta.Ref]] = {uuid: {} for uuid in by_uuid}
        for key, conflict in list(self._conflicts.items()):
            network, address = key
            if network not in by_uuid or address in by_uuid[network].used:
                del self._conflicts[key]
            elif conflict.until <= self._now():
                conflict.until = math.inf
            elif conflict.until < math.inf:
                refused[network][address] = conflict.owner
        return [msgspec.structs.replace(net, used=net.used | refused[uuid]) for uuid, net in by_uuid.items()]

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
    who: meta.Ref
    pause: float
    until: float


class ReservationConflicts:
    """The conflicts by network and address; ``now`` returns a monotonic time in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._conflicts: dict[tuple[str, ranges.Address], _Conflict] = {}

    def add(self, one: cluster_reservations.Reservation, who: meta.Ref) -> None:
        """Record that an address was refused."""
        old = self._conflicts.get((one.network, one.address))
        pause = min(MAX_DELAY_SECONDS, 2 * old.pause) if old else FIRST_DELAY_SECONDS
        self._conflicts[one.network, one.address] = _Conflict(who, pause, self._now() + pause)

    def drop(self, one: cluster_reservations.Reservation) -> None:
        """Drop an address that has been reserved."""
        self._conflicts.pop((one.network, one.address), None)

    @property
    def is_due(self) -> bool:
        """Whether the back-off of a conflict is over."""
        return any(one.until <= self._now() for one in self._conflicts.values())

    def with_conflicts(self, networks: Iterable[cluster_reservations.Network]) -> list[cluster_reservations.Network]:
        """Return the networks with refused addresses added as used; drop conflicts that are resolved."""
        found = {net.uuid: net for net in networks}
        more: dict[str, dict[ranges.Address, meta.Ref]] = {uuid: {} for uuid in found}
        for place, one in list(self._conflicts.items()):
            network, address = place
            if network not in found or address in found[network].used:
                del self._conflicts[place]
            elif one.until <= self._now():
                one.until = math.inf
            elif one.until < math.inf:
                more[network][address] = one.who
        return [msgspec.structs.replace(net, used=net.used | more[uuid]) for uuid, net in found.items()]

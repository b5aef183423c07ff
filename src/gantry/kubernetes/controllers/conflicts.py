"""Refusals: addresses that a cluster did not reserve although nobody was seen to have them.

Who calls it: ``cluster_sync``. A job that ends may still hold one for a moment, one that was given back may rest for an
hour, and where a database has the last word others may have it. So it counts as taken, and is asked for again after a
pause that grows with each refusal. What somebody is seen to have, or we got, is forgotten here.
"""

import math
from collections.abc import Callable, Iterable

import msgspec

from gantry.address import ranges
from gantry.kubernetes.api import meta
from gantry.kubernetes.claims import cluster_reservations

SHORTEST, LONGEST = 1.0, 60.0
"""Seconds."""


class _Refusal(msgspec.Struct):
    who: meta.Ref
    pause: float
    until: float


class Refusals:
    """The refusals by network and address; ``now`` tells the time in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._known: dict[tuple[str, ranges.Address], _Refusal] = {}

    def add(self, one: cluster_reservations.Reservation, who: meta.Ref) -> None:
        """Note that an address was refused."""
        old = self._known.get((one.network, one.address))
        pause = min(LONGEST, 2 * old.pause) if old else SHORTEST
        self._known[one.network, one.address] = _Refusal(who, pause, self._now() + pause)

    def drop(self, one: cluster_reservations.Reservation) -> None:
        """Note that an address has been reserved."""
        self._known.pop((one.network, one.address), None)

    @property
    def is_due(self) -> bool:
        """Tell whether the pause of a refusal is over."""
        return any(one.until <= self._now() for one in self._known.values())

    def complete(self, networks: Iterable[cluster_reservations.Network]) -> list[cluster_reservations.Network]:
        """Return networks as they were read, in which what is refused still counts as taken; others are forgotten."""
        found = {net.uuid: net for net in networks}
        more: dict[str, dict[ranges.Address, meta.Ref]] = {uuid: {} for uuid in found}
        for place, one in list(self._known.items()):
            network, address = place
            if network not in found or address in found[network].taken:
                del self._known[place]
            elif one.until <= self._now():
                one.until = math.inf
            elif one.until < math.inf:
                more[network][address] = one.who
        return [msgspec.structs.replace(net, taken=net.taken | more[uuid]) for uuid, net in found.items()]

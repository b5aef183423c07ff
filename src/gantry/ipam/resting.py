"""Addresses that rest after their release: nobody gets one until the cluster's hold time is over.

``embedded.Ledger`` owns it and marks in its spaces what this says. The record of each is a part of the state
(``model.network.Rest``), written by the transaction that frees the address, so a new master knows it too. What has
rested long enough is free at once; its record goes with a later transaction (``changes``).

Life of a record: ``lay`` when it comes into the state, ``due`` when its time is over, ``drop`` when it leaves it.
Invariant: an address that an instance or a port has does not rest.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator

from gantry.ipam import places
from gantry.model import network
from gantry.state import snapshot as states

SWEPT = 64
"""How many records that are over a transaction takes along: more than one transaction adds, as a rule."""


class Resting:
    """The records of one state; ``now`` tells the time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._live: dict[str, network.Rest] = {}
        self._over: dict[str, None] = {}
        self._alarms: list[tuple[float, str]] = []

    def lay(self, rest: network.Rest) -> None:
        """Begin a rest."""
        self._live[rest.uuid] = rest
        heapq.heappush(self._alarms, (rest.until, rest.uuid))

    def drop(self, key: str) -> network.Rest | None:
        """Forget a record; return it if its address rested until now."""
        self._over.pop(key, None)
        return self._live.pop(key, None)

    def due(self) -> Iterator[network.Rest]:
        """Yield the rests whose time has come. Cost: each of them once, a logarithm."""
        while self._alarms and self._alarms[0][0] <= self.now():
            until, key = heapq.heappop(self._alarms)
            rest = self._live.get(key)
            # One that was laid down anew has another alarm.
            if rest is not None and rest.until == until:
                self._over[key] = None
                yield self._live.pop(key)

    def of(self, network_uuid: str, ip: str) -> network.Rest | None:
        """Return the rest of an address, None if it has none."""
        return self._live.get(f"{network_uuid}/{ip}")

    def changes(
        self, state: states.Snapshot, changes: Iterable[states.Change], *, undo: bool = False
    ) -> list[states.Change]:
        """Return what a transaction has to say of rest besides ``changes``, which are to be applied to ``state``.

        What they give back rests for the hold time, unless they ``undo`` others; what they take rests no more.
        """
        freed, taken = places.moved(state, changes)
        hold = state.cluster.ipam_hold_time if state.cluster and not undo else 0
        laid = [
            _rest(cable, ip, until=self.now() + hold, holder=holder)
            for (cable, ip), holder in freed.items()
            if hold and (cable, ip) not in taken
        ]
        gone = dict.fromkeys(key for cable, ip in taken if (key := f"{cable}/{ip}") in state.resting)
        if laid or gone:
            gone |= dict.fromkeys(itertools.islice(self._over, SWEPT))
        kept = {rest.uuid for rest in laid}
        return [*(states.Delete("resting", key) for key in gone if key not in kept), *map(states.Put, laid)]


def _rest(cable: str, ip: str, *, until: float, holder: states.Holder) -> network.Rest:
    noun = "port" if isinstance(holder, network.Port) else "instance"
    name = holder.name or holder.uuid
    return network.Rest(network=cable, ip=ip, until=until, instance=holder.uuid, name=name, noun=noun)

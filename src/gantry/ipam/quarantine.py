"""Addresses in quarantine: after its release, an address is not allocatable until the cluster's hold time is over.

``embedded.Ledger`` owns the ``Quarantine`` and marks its addresses as used. The record of each is a part of the state
(``model.network.Quarantine``), written by the transaction that releases the address, so a new master knows it too. When
the quarantine time is over, the address is free at once; a later transaction deletes its record (``changes``).

Life of a record: ``add`` when the state gets it, ``expire`` when its time is over, ``remove`` when the state deletes
it. Invariant: an address of an instance or port is not in quarantine.
"""

import heapq
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator

from gantry.ipam import network_addresses
from gantry.model import network
from gantry.state.objects import snapshot as states

MAX_EXPIRED = 64
"""How many expired records a transaction deletes besides: usually more than it adds."""


class Quarantine:
    """The records of a state; ``now`` returns the time in seconds since the epoch."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._live: dict[str, network.Quarantine] = {}
        self._of_network: dict[str, dict[str, network.Quarantine]] = {}
        self._expired: dict[str, None] = {}
        self._expiries: list[tuple[float, str]] = []

    def add(self, record: network.Quarantine) -> None:
        """Put the address of a record into quarantine."""
        self._live[record.uuid] = record
        self._of_network.setdefault(record.network, {})[record.uuid] = record
        heapq.heappush(self._expiries, (record.until, record.uuid))

    def remove(self, key: str) -> network.Quarantine | None:
        """Forget a record; return it if its address was in quarantine until now."""
        self._expired.pop(key, None)
        return self._release(key) if key in self._live else None

    def expire(self) -> Iterator[network.Quarantine]:
        """Yield the records whose time is over. Cost: logarithmic, once for each record."""
        while self._expiries and self._expiries[0][0] <= self.now():
            until, key = heapq.heappop(self._expiries)
            record = self._live.get(key)
            # A record that was added again has another expiry.
            if record is not None and record.until == until:
                self._expired[key] = None
                yield self._release(key)

    def _release(self, key: str) -> network.Quarantine:
        record = self._live.pop(key)
        records = self._of_network[record.network]
        del records[key]
        if not records:
            del self._of_network[record.network]
        return record

    def records(self, network_uuid: str) -> Collection[network.Quarantine]:
        """Return the records of a network's addresses in quarantine, in no order."""
        return self._of_network.get(network_uuid, {}).values()

    def record(self, network_uuid: str, ip: str) -> network.Quarantine | None:
        """Return the quarantine record of an address, None if it is not in quarantine."""
        return self._live.get(f"{network_uuid}/{ip}")

    def changes(
        self, state: states.Snapshot, changes: Iterable[states.Change], *, undo: bool = False
    ) -> list[states.Change]:
        """Return the changes of quarantine records that ``changes``, to be applied to ``state``, require.

        A released address goes into quarantine for the hold time, unless the changes ``undo`` others; an allocated
        address leaves it.
        """
        hold = state.cluster.ipam_hold_time if state.cluster and not undo else 0
        if not hold and not state.resting:
            return []
        released, allocated = network_addresses.before_and_after(state, changes)
        added = [
            _record(network_uuid, ip, until=self.now() + hold, owner=owner)
            for (network_uuid, ip), owner in released.items()
            if hold and (network_uuid, ip) not in allocated
        ]
        deleted = dict.fromkeys(
            key for network_uuid, ip in allocated if (key := f"{network_uuid}/{ip}") in state.resting
        )
        if added or deleted:
            deleted |= dict.fromkeys(itertools.islice(self._expired, MAX_EXPIRED))
        return [*(states.Delete("resting", key) for key in deleted), *map(states.Put, added)]


def _record(network_uuid: str, ip: str, *, until: float, owner: states.Owner) -> network.Quarantine:
    noun = "port" if isinstance(owner, network.Port) else "instance"
    name = owner.name or owner.uuid
    return network.Quarantine(network=network_uuid, ip=ip, until=until, instance=owner.uuid, name=name, noun=noun)

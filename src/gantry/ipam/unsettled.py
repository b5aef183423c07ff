"""What a database may have that the state has not: addresses and subnets that a look has to be taken at. Pure.

An address comes here when a plan secures it, and when a change of the state gives it up; it leaves when the state has
it for good (newest and durable), or when it is ``due``: neither state has it, and no running job holds it. A subnet
comes with each change of it, and leaves when the two states say the same of it and no running job changes it.
``shared`` owns it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from gantry.address import ranges
from gantry.ipam import embedded, places, subscription
from gantry.ipam.sql import records
from gantry.state import snapshot as states

Due = tuple[dict[places.Place, str], dict[str, subscription.Known]]
"""Addresses to give back, with the ids of their subnets; and subnets, with what the state says of each."""


class States(Protocol):
    """The newest state, and the newest that is safe."""

    @property
    def snapshot(self) -> states.Snapshot:
        """Return the newest state."""
        ...

    @property
    def durable(self) -> states.Snapshot:
        """Return the newest state that is safe."""
        ...


class Unsettled:
    """What is to be looked at; true if there is any."""

    def __init__(self, ledger: embedded.Ledger, store: States) -> None:
        self._ledger = ledger
        self._store = store
        self.leaving: dict[places.Place, str] = {}
        self._addresses: dict[places.Place, str] = {}
        self._subnets: dict[str, None] = {}
        self._changing: dict[int, list[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._addresses or self._subnets)

    def note(self, before: states.Snapshot, changes: Sequence[states.Change]) -> None:
        """Look at what a change of the state gives up, and at the subnets that it changes."""
        had, has = places.moved(before, changes)
        for place in had:
            if place not in has and (subnet := subscription.subnet_of(before.networks.get(place[0]), place[1])):
                self._addresses[place] = subnet
        self._subnets |= dict.fromkeys(subscription.touched(before, changes))

    def begin(self, job: int, asked: subscription.Asked) -> None:
        """Look at what a job secures, from its end on; addresses are held for it until then."""
        self._changing[job] = [one.id for one in asked.subnets]
        self.look_at(asked.addresses)

    def look_at(self, found: Mapping[places.Place, records.Allocation]) -> None:
        """Look at addresses."""
        self._addresses |= {place: one.subnet for place, one in found.items()}

    def end(self, job: int) -> None:
        """Note that a job changes no subnet any more."""
        self._subnets |= dict.fromkeys(self._changing.pop(job, ()))

    def clear(self) -> None:
        """Forget all."""
        self._addresses, self._subnets = {}, {}

    @contextmanager
    def due(self) -> Iterator[Due]:
        """Give what is to be done now; it is ``leaving`` while the context is open, and comes back if that fails."""
        addresses, subnets = self._due_addresses(), self._due_subnets()
        self.leaving = addresses
        try:
            yield addresses, subnets
        except BaseException:  # a daemon that stops has not given it back either
            self._addresses = addresses | self._addresses
            self._subnets |= dict.fromkeys(subnets)
            raise
        finally:
            self.leaving = {}

    def _due_addresses(self) -> dict[places.Place, str]:
        newest, durable, due = self._store.snapshot.addresses, self._store.durable.addresses, {}
        for place in [*self._addresses]:
            address = ranges.parse_address(place[1])
            if place in newest and place in durable:
                del self._addresses[place]
            elif place in newest or place in durable:
                continue
            elif address.value not in self._ledger.held(place[0], address.family):
                due[place] = self._addresses.pop(place)
        return due

    def _due_subnets(self) -> dict[str, subscription.Known]:
        newest, durable = self._store.snapshot, self._store.durable
        busy = {subnet for found in self._changing.values() for subnet in found}
        due = {}
        for subnet in [*self._subnets]:
            known = subscription.known(newest, subnet)
            if subnet not in busy and known == subscription.known(durable, subnet):
                del self._subnets[subnet]
                due[subnet] = known
        return due

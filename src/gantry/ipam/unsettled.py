"""The addresses and subnets for which the database may differ from the state; pure.

An address is added when a plan secures it, and when a change of the state releases it. It is removed when both the
current and the durable state have it, or when its release is ``due``: neither state has it, and no running job holds
it. A subnet is added with each change of it, and removed when both states agree on it and no running job changes it.
``shared.Shared`` owns the ``Unsettled``.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from gantry.address import ranges
from gantry.ipam import embedded, network_addresses, subscription
from gantry.ipam.sql import records
from gantry.state.objects import snapshot as states

Due = tuple[dict[network_addresses.NetworkAddress, str], dict[str, subscription.Known]]
"""Addresses to release, with the ids of their subnets; and subnets by id, as the state has them."""


class States(Protocol):
    """The current state, and the durable state."""

    @property
    def snapshot(self) -> states.Snapshot:
        """Return the current state."""
        ...

    @property
    def durable(self) -> states.Snapshot:
        """Return the newest durable state."""
        ...


class Unsettled:
    """The addresses and subnets to compare with the state; false if there are none."""

    def __init__(self, ledger: embedded.Ledger, store: States) -> None:
        self._ledger = ledger
        self._store = store
        self.leaving: dict[network_addresses.NetworkAddress, str] = {}
        self._addresses: dict[network_addresses.NetworkAddress, str] = {}
        self._subnets: dict[str, None] = {}
        self._changing: dict[int, list[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._addresses or self._subnets)

    def note(self, before: states.Snapshot, changes: Sequence[states.Change]) -> None:
        """Add the addresses that changes of the state release, and the subnets that they change."""
        owners_before, owners_after = network_addresses.before_and_after(before, changes)
        for key in owners_before:
            if key not in owners_after and (subnet := subscription.subnet_of(before.networks.get(key[0]), key[1])):
                self._addresses[key] = subnet
        self._subnets |= dict.fromkeys(subscription.changed_subnets(before, changes))

    def begin(self, job: int, additions: subscription.Additions) -> None:
        """Add what a job secures: its subnets from its end on, its addresses at once, as it holds them until then."""
        self._changing[job] = [subnet.id for subnet in additions.subnets]
        self.add(additions.addresses)

    def add(self, allocations: Mapping[network_addresses.NetworkAddress, records.Allocation]) -> None:
        """Add addresses."""
        self._addresses |= {key: allocation.subnet for key, allocation in allocations.items()}

    def end(self, job: int) -> None:
        """Add the subnets of a job that has ended."""
        self._subnets |= dict.fromkeys(self._changing.pop(job, ()))

    def clear(self) -> None:
        """Remove all addresses and subnets."""
        self._addresses, self._subnets = {}, {}

    @contextmanager
    def due(self) -> Iterator[Due]:
        """Remove and return what is due; a context that fails adds all of it again.

        ``leaving`` has the addresses while the context is open.
        """
        addresses, subnets = self._due_addresses(), self._due_subnets()
        self.leaving = addresses
        try:
            yield addresses, subnets
        except BaseException:  # a daemon that stops has not released the addresses either
            self._addresses = addresses | self._addresses
            self._subnets |= dict.fromkeys(subnets)
            raise
        finally:
            self.leaving = {}

    def _due_addresses(self) -> dict[network_addresses.NetworkAddress, str]:
        current, durable, due = self._store.snapshot.addresses, self._store.durable.addresses, {}
        for key in [*self._addresses]:
            address = ranges.parse_address(key[1])
            if key in current and key in durable:
                del self._addresses[key]
            elif key in current or key in durable:
                continue
            elif address.value not in self._ledger.held_numbers(key[0], address.family):
                due[key] = self._addresses.pop(key)
        return due

    def _due_subnets(self) -> dict[str, subscription.Known]:
        current, durable = self._store.snapshot, self._store.durable
        busy = {subnet for subnets in self._changing.values() for subnet in subnets}
        due = {}
        for subnet in [*self._subnets]:
            known = subscription.known(current, subnet)
            if subnet not in busy and known == subscription.known(durable, subnet):
                del self._subnets[subnet]
                due[subnet] = known
        return due

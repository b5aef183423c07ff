"""Conflicts: what the ledger learns when other owners of a shared database have the addresses of a plan.

``shared`` calls ``add`` for each plan that the database refused; the unit then makes a new plan, which skips these
addresses and a few after them. ``free_skipped`` ends the skipping for a job, ``free_all_skipped`` that of all jobs.
"""

from collections.abc import Collection, Sequence

from gantry import errors
from gantry.address import ranges
from gantry.ipam import embedded, network_addresses, subscription
from gantry.ipam.sql import records
from gantry.runtime import interface
from gantry.state.objects import snapshot as states

SKIP_RANGE = 4096
"""How many numbers after a conflicting address a plan searches for another address, before it searches all."""


class Conflicts:
    """The conflicts of running jobs, in the ledger."""

    def __init__(self, runtime: interface.Runtime, ledger: embedded.Ledger) -> None:
        self._runtime = runtime
        self._ledger = ledger
        self._skipped: dict[int, list[network_addresses.NetworkAddress]] = {}

    def add(
        self,
        job: int,
        near: Sequence[records.Allocation],
        additions: subscription.Additions,
        before: states.Snapshot,
        *,
        requested: Collection[network_addresses.NetworkAddress],
        where: str,
        attempt: int,
    ) -> None:
        """Record the owners ``near`` the addresses of a plan, and skip addresses after the conflicting ones.

        NotUniqueError, which names the database ``where``, if one of them has an address that the plan's request named.
        """
        networks = {each.subnet: network_uuid for (network_uuid, _), each in additions.addresses.items()}
        for allocation in near:
            key = networks[allocation.subnet], allocation.address
            if key in requested:
                raise errors.NotUniqueError(
                    f"address {allocation.address} of network {before.networks[key[0]].name} is allocated to "
                    f"{subscription.owner_text(allocation.owner)} in {where}",
                    hint="choose another address",
                )
            if key not in before.addresses:
                self._ledger.learn(key, allocation.owner)
        self._skip(job, near, additions, attempt=attempt)

    def _skip(
        self, job: int, near: Sequence[records.Allocation], additions: subscription.Additions, *, attempt: int
    ) -> None:
        """Mark a few addresses after the conflicting ones as used, until the job ends or no other address is free.

        Two masters that always allocate the first free address would compete for every address, and one would lose
        each time.
        """
        near_addresses = {(each.subnet, each.address) for each in near}
        keys = [key for key, each in additions.addresses.items() if (each.subnet, each.address) in near_addresses]
        network_uuid, address = max(
            ((network_uuid, ranges.parse_address(ip)) for network_uuid, ip in keys), key=lambda pair: pair[1].value
        )
        numbers, number = self._ledger.space(network_uuid, address.family), address.value
        end = min(number + SKIP_RANGE, (1 << address.family.bits) - 1)
        for _ in range(self._runtime.random.below(1 << attempt)):
            free_number = numbers.next_free(number + 1, end) if number < end else None
            if free_number is None:
                break
            number, key = free_number, (network_uuid, str(ranges.Address(address.family, free_number)))
            self._ledger.learn(key, "")
            self._skipped.setdefault(job, []).append(key)

    def is_skipped(self, key: network_addresses.NetworkAddress) -> bool:
        """Return whether an address is only skipped for a job: no other owner is known to have it."""
        return key in self._ledger.foreign and not self._ledger.foreign.owner(key)

    def free_skipped(self, job: int) -> bool:
        """Free the addresses that are skipped for a job; return whether there were any."""
        keys = [key for key in self._skipped.pop(job, ()) if self.is_skipped(key)]
        for key in keys:
            self._ledger.forget(key)
        return bool(keys)

    def free_all_skipped(self) -> bool:
        """Free the addresses that are skipped for all jobs; return whether there were any."""
        outcomes = [self.free_skipped(job) for job in [*self._skipped]]
        return any(outcomes)

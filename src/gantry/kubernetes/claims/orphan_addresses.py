"""Orphan addresses: address objects whose claim was observed and then removed. ``cache`` calls it.

They need no grace period, unlike addresses restored from a backup before their claims. They arise if a claim is deleted
at the moment it gets its finalizer: a real API server compares no version there and removes the claim at once, so its
address is created for a claim that no longer exists.
"""

from collections.abc import Iterable

from gantry.kubernetes.api import meta


class OrphanAddresses:
    """Orphan addresses, and claims that were removed while busy.

    The caller checks whether a claim of the same name exists again.
    """

    __slots__ = ("_addresses", "_departed")

    def __init__(self) -> None:
        self._addresses: set[meta.Ref] = set()
        self._departed: set[meta.Ref] = set()

    def __contains__(self, address: meta.Ref) -> bool:
        return address in self._addresses

    def claim_removed(self, claim: meta.Ref, addresses: Iterable[meta.Ref], *, is_busy: bool) -> None:
        """Record a removed claim; ``addresses`` are its addresses, and if it was busy more may appear."""
        self._addresses.update(addresses)
        if is_busy:
            self._departed.add(claim)

    def address_added(self, address: meta.Ref, claim: meta.Ref) -> None:
        """Record an address that refers to a claim."""
        if claim in self._departed:
            self._addresses.add(address)

    def claim_finished(self, claim: meta.Ref) -> None:
        """Record that a claim is no longer busy."""
        self._departed.discard(claim)

    def remove(self, address: meta.Ref) -> None:
        """Drop a removed address."""
        self._addresses.discard(address)

"""Survivors: address objects whose claim has been seen to go. Nobody is to come for them, unlike those of a backup.

Who calls it: ``index``. A server may let a claim go at once although it has just got a finalizer: one that is deleted
in that moment (a real API server compares no version there). Its address is then made for a claim that is no more.
"""

from collections.abc import Iterable

from gantry.kubernetes.api import meta


class Survivors:
    """The addresses, and the claims that went while something was done for them.

    Whether a claim of that name is there again is for who asks to know.
    """

    __slots__ = ("_addresses", "_departed")

    def __init__(self) -> None:
        self._addresses: set[meta.Ref] = set()
        self._departed: set[meta.Ref] = set()

    def __contains__(self, address: meta.Ref) -> bool:
        return address in self._addresses

    def depart(self, claim: meta.Ref, left: Iterable[meta.Ref], *, is_busy: bool) -> None:
        """Note that a claim has gone; ``left`` are its addresses, and while it is busy more may come."""
        self._addresses.update(left)
        if is_busy:
            self._departed.add(claim)

    def come(self, address: meta.Ref, claim: meta.Ref) -> None:
        """Note an address that names a claim."""
        if claim in self._departed:
            self._addresses.add(address)

    def finish(self, claim: meta.Ref) -> None:
        """Note that nothing is done for a claim any more."""
        self._departed.discard(claim)

    def remove(self, address: meta.Ref) -> None:
        """Note that an address has gone."""
        self._addresses.discard(address)

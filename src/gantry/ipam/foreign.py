"""Addresses that somebody outside of the cluster holds, as far as they were met in a database that others use too.

``embedded.Ledger`` owns it and marks in its spaces what this says, so that no pool hands them out; whether one is free
again is asked for when it is named, or when nothing else is left (``shared``).
"""

from collections.abc import Iterator

from gantry.address import ranges
from gantry.ipam.places import Place


class Foreign:
    """Who holds which address, by its place."""

    def __init__(self) -> None:
        self._known: dict[Place, str] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def __contains__(self, place: Place) -> bool:
        return place in self._known

    def learn(self, place: Place, holder: str) -> None:
        """Note who holds an address."""
        self._known[place] = holder

    def forget(self, place: Place) -> bool:
        """Forget an address; False if it was not known."""
        return self._known.pop(place, None) is not None

    def numbers(self) -> Iterator[tuple[str, ranges.Address]]:
        """Yield the network and the number of each."""
        return ((cable, ranges.parse_address(ip)) for cable, ip in self._known)

    def places(self) -> list[Place]:
        """Return them all."""
        return [*self._known]

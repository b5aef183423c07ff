"""Addresses with an owner outside of the cluster, as far as a shared database has reported them.

``embedded.Ledger`` owns the ``Foreign`` and marks its addresses as used, so that no pool allocates them. ``shared``
asks the database whether such an address is free again when a request names it, or when no other address is free.
"""

from collections.abc import Iterator

from gantry.address import ranges
from gantry.ipam.network_addresses import NetworkAddress


class Foreign:
    """The owner of each foreign address."""

    def __init__(self) -> None:
        self._known: dict[NetworkAddress, str] = {}

    def __contains__(self, address: NetworkAddress) -> bool:
        return address in self._known

    def owner(self, address: NetworkAddress) -> str:
        """Return the owner of an address; empty if it is not known."""
        return self._known.get(address, "")

    def learn(self, address: NetworkAddress, owner: str) -> None:
        """Record the owner of an address."""
        self._known[address] = owner

    def forget(self, address: NetworkAddress) -> bool:
        """Forget an address; return False if it was not known."""
        return self._known.pop(address, None) is not None

    def numbers(self) -> Iterator[tuple[str, ranges.Address]]:
        """Yield the network's UUID and the address for each foreign address."""
        return ((network_uuid, ranges.parse_address(ip)) for network_uuid, ip in self._known)

    def addresses(self) -> list[NetworkAddress]:
        """Return all foreign addresses."""
        return [*self._known]

"""Writes subnets and allocations, in Neutron's transaction or in a separate database.

``NeutronLedger`` works in Neutron's own database and transaction, and needs no undo. ``SeparateLedger`` has tables in a
separate database: an allocation is visible to all at once, and a release happens after Neutron has committed
(``following``). Until then the same transaction may allocate the address again, as in Neutron's own tables.
"""

from collections.abc import Iterable
from typing import Protocol

from oslo_utils import uuidutils

from gantry import errors
from gantry.address import ranges
from gantry.ipam.neutron import following
from gantry.ipam.sql import checks, driver, records, requests


class Ledger(Protocol):
    """Subnets and their allocations, as a transaction of Neutron sees them."""

    def subnet(self, subnet: str) -> records.Subnet:
        """Return a subnet; NotFoundError."""
        ...

    def add(self, subnet: str, *, cidr: str, pools: Iterable[str]) -> None:
        """Add a subnet."""
        ...

    def update(self, subnet: str, *, cidr: str, pools: Iterable[str]) -> None:
        """Change pools and CIDR."""
        ...

    def remove(self, subnet: str) -> None:
        """Remove a subnet of which no port has an address, and its remaining allocations.

        When Neutron deletes a subnet, it does not release addresses that ports have configured automatically.
        """
        ...

    def allocate(self, subnet: str, request: requests.Request, *, owner: str) -> str:
        """Allocate an address for the owner and return it."""
        ...

    def allocate_many(self, subnet: str, count: int) -> list[str]:
        """Allocate and return ``count`` addresses, or raise an error and allocate none."""
        ...

    def deallocate(self, subnet: str, address: str) -> None:
        """Release an address, if it is allocated."""
        ...


class NeutronLedger:
    """The ledger in Neutron's database."""

    def __init__(self, tables: driver.Driver) -> None:
        self._tables = tables
        self.subnet = tables.subnet

    def add(self, subnet: str, *, cidr: str, pools: Iterable[str]) -> None:
        """Add a subnet."""
        self._tables.add_subnet(subnet, cidr=cidr, pools=pools)

    def update(self, subnet: str, *, cidr: str, pools: Iterable[str]) -> None:
        """Change pools and CIDR."""
        self._tables.update_subnet(subnet, cidr=cidr, pools=pools)

    def remove(self, subnet: str) -> None:
        """Remove a subnet and its remaining allocations."""
        _remove(self._tables, subnet)

    def allocate(self, subnet: str, request: requests.Request, *, owner: str) -> str:
        """Allocate an address for the owner and return it."""
        return self._tables.allocate(subnet, request, owner=owner, key=_key())

    def allocate_many(self, subnet: str, count: int) -> list[str]:
        """Allocate and return ``count`` addresses, or raise an error and allocate none."""
        return self._tables.allocate_many(subnet, count)

    def deallocate(self, subnet: str, address: str) -> None:
        """Release an address, if it is allocated."""
        self._tables.deallocate(subnet, address)


class SeparateLedger:
    """The ledger in a separate database, synchronized with a session of Neutron."""

    def __init__(self, tables: driver.Driver, follower: following.Follower) -> None:
        self._tables = tables
        self._follower = follower
        self.subnet = tables.subnet

    def add(self, subnet: str, *, cidr: str, pools: Iterable[str]) -> None:
        """Add a subnet; undone if the transaction fails."""
        self._tables.add_subnet(subnet, cidr=cidr, pools=pools)
        self._follower.add(
            following.Change(f"add subnet {subnet}", undo=lambda: self._tables.remove_subnet(subnet)),
        )

    def update(self, subnet: str, *, cidr: str, pools: Iterable[str]) -> None:
        """Change pools and CIDR; undone if the transaction fails."""
        before = self._tables.subnet(subnet)
        if self._tables.update_subnet(subnet, cidr=cidr, pools=pools) != before:
            self._follower.add(
                following.Change(
                    f"update subnet {subnet}",
                    undo=lambda: self._tables.update_subnet(subnet, cidr=before.cidr, pools=before.pools),
                )
            )

    def remove(self, subnet: str) -> None:
        """Remove a subnet and its remaining allocations after the commit."""
        self._tables.subnet(subnet)
        self._follower.add(
            following.Change(f"remove subnet {subnet}", finish=lambda: _remove(self._tables, subnet)),
        )

    def allocate(self, subnet: str, request: requests.Request, *, owner: str) -> str:
        """Allocate an address for the owner and return it; undone if the transaction fails."""
        if isinstance(request, requests.SpecificAddress) and self._follower.cancel_release(subnet, request.address):
            return request.address
        try:
            address = self._tables.allocate(subnet, request, owner=owner, key=_key())
        except errors.NoRoomError:
            return self._reallocate(subnet)
        self._follow(subnet, address, owner=owner)
        return address

    def allocate_many(self, subnet: str, count: int) -> list[str]:
        """Allocate and return ``count`` addresses, or fail and allocate none; undone if the transaction fails."""
        addresses = self._tables.allocate_many(subnet, count)
        for address in addresses:
            self._follow(subnet, address, owner="")
        return addresses

    def deallocate(self, subnet: str, address: str) -> None:
        """Release an address after the commit, unless it has another owner by then."""
        allocation = self._tables.allocation(subnet, address)
        if allocation and address not in self._follower.released_addresses(subnet):
            self._follower.add(
                following.Release(
                    f"release {address} of subnet {subnet}",
                    finish=lambda: self._tables.deallocate(subnet, address, owner=allocation.owner),
                    subnet=subnet,
                    address=address,
                )
            )

    def _follow(self, subnet: str, address: str, *, owner: str) -> None:
        self._follower.add(
            following.Change(
                f"allocate {address} of subnet {subnet}",
                undo=lambda: self._tables.deallocate(subnet, address, owner=owner),
            )
        )

    def _reallocate(self, subnet: str) -> str:
        """Allocate again an address of the full pools that this session has released; NoRoomError."""
        pools = [ranges.parse_range(pool)[1] for pool in self._tables.subnet(subnet).pools]
        for address in self._follower.released_addresses(subnet):
            number = ranges.parse_address(address).value
            if any(number in pool for pool in pools) and self._follower.cancel_release(subnet, address):
                return address
        raise errors.NoRoomError(f"subnet {subnet} has no free address")


def _remove(tables: driver.Driver, subnet: str) -> None:
    allocations = tables.allocations(subnet)
    if allocations:
        tables.repair(checks.Difference(surplus=tuple(allocations)))
    tables.remove_subnet(subnet)


def _key() -> str:
    """Return a new unique key, as a port may have several addresses of a subnet."""
    return str(uuidutils.generate_uuid())

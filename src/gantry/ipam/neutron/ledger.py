"""Who writes allocations down, beside Neutron's transaction or within it.

``Within`` works in Neutron's own database: its transaction is ours, and nothing is left to do. ``Beside`` has tables of
its own: what it takes is taken for all at once, what it gives back it gives back when Neutron has committed
(``following``), and until then the same transaction may have it again, as it might in Neutron's own tables.
"""

from collections.abc import Iterable
from typing import Protocol

from oslo_utils import uuidutils

from gantry import errors
from gantry.address import ranges
from gantry.ipam.neutron import following
from gantry.ipam.sql import checks, driver, records, requests


class Ledger(Protocol):
    """Subnets and their allocations, as one transaction of Neutron's sees them."""

    def subnet(self, subnet: str) -> records.Subnet:
        """Return what is known of a subnet; NotFoundError."""
        ...

    def add(self, subnet: str, *, cidr: str, pools: Iterable[str]) -> None:
        """Take a subnet in."""
        ...

    def update(self, subnet: str, *, cidr: str, pools: Iterable[str]) -> None:
        """Change pools and CIDR."""
        ...

    def remove(self, subnet: str) -> None:
        """Forget a subnet that no port has an address of, with what is allocated in it all the same.

        Neutron does not give the addresses back that ports have given themselves in a subnet that goes.
        """
        ...

    def allocate(self, subnet: str, request: requests.Request, *, owner: str) -> str:
        """Return the address that now belongs to the owner."""
        ...

    def allocate_many(self, subnet: str, count: int) -> list[str]:
        """Return so many addresses, or raise and take none."""
        ...

    def deallocate(self, subnet: str, address: str) -> None:
        """Give an address back; one that is free already stays free."""
        ...


class Within:
    """The ledger in Neutron's database."""

    def __init__(self, tables: driver.Driver) -> None:
        self._tables = tables
        self.subnet = tables.subnet

    def add(self, subnet: str, *, cidr: str, pools: Iterable[str]) -> None:
        """Take a subnet in."""
        self._tables.add_subnet(subnet, cidr=cidr, pools=pools)

    def update(self, subnet: str, *, cidr: str, pools: Iterable[str]) -> None:
        """Change pools and CIDR."""
        self._tables.update_subnet(subnet, cidr=cidr, pools=pools)

    def remove(self, subnet: str) -> None:
        """Forget a subnet and what is left in it."""
        _remove(self._tables, subnet)

    def allocate(self, subnet: str, request: requests.Request, *, owner: str) -> str:
        """Return the address that now belongs to the owner."""
        return self._tables.allocate(subnet, request, owner=owner, key=_key())

    def allocate_many(self, subnet: str, count: int) -> list[str]:
        """Return so many addresses, or raise and take none."""
        return self._tables.allocate_many(subnet, count)

    def deallocate(self, subnet: str, address: str) -> None:
        """Give an address back; one that is free already stays free."""
        self._tables.deallocate(subnet, address)


class Beside:
    """The ledger in tables of its own, in step with the session of a transaction of Neutron's."""

    def __init__(self, tables: driver.Driver, follower: following.Following) -> None:
        self._tables = tables
        self._follower = follower
        self.subnet = tables.subnet

    def add(self, subnet: str, *, cidr: str, pools: Iterable[str]) -> None:
        """Take a subnet in; it goes again if the transaction fails."""
        self._tables.add_subnet(subnet, cidr=cidr, pools=pools)
        self._follower.add(
            following.Deed(f"add subnet {subnet}", undo=lambda: self._tables.remove_subnet(subnet)),
        )

    def update(self, subnet: str, *, cidr: str, pools: Iterable[str]) -> None:
        """Change pools and CIDR; they change back if the transaction fails."""
        before = self._tables.subnet(subnet)
        if self._tables.update_subnet(subnet, cidr=cidr, pools=pools) != before:
            self._follower.add(
                following.Deed(
                    f"update subnet {subnet}",
                    undo=lambda: self._tables.update_subnet(subnet, cidr=before.cidr, pools=before.pools),
                )
            )

    def remove(self, subnet: str) -> None:
        """Forget a subnet and what is left in it after the commit."""
        self._tables.subnet(subnet)
        self._follower.add(
            following.Deed(f"remove subnet {subnet}", finish=lambda: _remove(self._tables, subnet)),
        )

    def allocate(self, subnet: str, request: requests.Request, *, owner: str) -> str:
        """Return the address that now belongs to the owner; it is free again if the transaction fails."""
        if isinstance(request, requests.SpecificAddress) and self._follower.take_again(subnet, request.address):
            return request.address
        try:
            address = self._tables.allocate(subnet, request, owner=owner, key=_key())
        except errors.NoRoomError:
            return self._freed_one(subnet)
        self._follow(subnet, address, owner=owner)
        return address

    def allocate_many(self, subnet: str, count: int) -> list[str]:
        """Return so many addresses, or raise and take none; they are free again if the transaction fails."""
        addresses = self._tables.allocate_many(subnet, count)
        for address in addresses:
            self._follow(subnet, address, owner="")
        return addresses

    def deallocate(self, subnet: str, address: str) -> None:
        """Give an address back after the commit, unless somebody else has got it by then."""
        held = self._tables.allocation(subnet, address)
        if held and address not in self._follower.frees(subnet):
            self._follower.add(
                following.Free(
                    f"free {address} of subnet {subnet}",
                    finish=lambda: self._tables.deallocate(subnet, address, owner=held.owner),
                    subnet=subnet,
                    address=address,
                )
            )

    def _follow(self, subnet: str, address: str, *, owner: str) -> None:
        self._follower.add(
            following.Deed(
                f"allocate {address} of subnet {subnet}",
                undo=lambda: self._tables.deallocate(subnet, address, owner=owner),
            )
        )

    def _freed_one(self, subnet: str) -> str:
        """Return an address of the full pools that this very session has freed; NoRoomError."""
        pools = [ranges.parse_range(pool)[1] for pool in self._tables.subnet(subnet).pools]
        for address in self._follower.frees(subnet):
            number = ranges.parse_address(address).value
            if any(number in pool for pool in pools) and self._follower.take_again(subnet, address):
                return address
        raise errors.NoRoomError(f"no address of subnet {subnet} is free")


def _remove(tables: driver.Driver, subnet: str) -> None:
    left = tables.allocations(subnet)
    if left:
        tables.repair(checks.Difference(surplus=tuple(left)))
    tables.remove_subnet(subnet)


def _key() -> str:
    """Return a key that no allocation has: a port may have several addresses of a subnet."""
    return str(uuidutils.generate_uuid())

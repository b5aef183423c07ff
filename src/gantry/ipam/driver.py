"""The IPAM driver interface: the requests of the layers above to the driver that keeps the allocations.

A request is for any address of a network's pools, for any address of one pool, or for a specific address. The
management layer calls the driver, never the other way round (contracts/neutron-ipam-driver.md#layers).

See contracts/neutron-ipam-driver.md#driver-interface.
"""

from dataclasses import dataclass
from typing import Protocol

from gantry.address import ranges
from gantry.model import network


@dataclass(frozen=True)
class AnyAddress:
    """The first free address of the first pool that has a free address (contracts/networks.md#finding-an-address).

    With a ``family``, only the pools of that family are searched.
    """

    family: ranges.Family | None = None


@dataclass(frozen=True)
class PoolAddress:
    """The first free address of the pool with this name."""

    pool: str


@dataclass(frozen=True)
class SubnetAddress:
    """The first free address of the pools of a subnet, which the UUID identifies."""

    subnet: str


@dataclass(frozen=True)
class SpecificAddress:
    """This address. An externally reserved address requires ``force`` (contracts/networks.md#terms).

    The gateway address of a subnet requires ``gateway``, which only a router sets.
    """

    address: ranges.Address
    force: bool = False
    gateway: bool = False


Request = AnyAddress | PoolAddress | SubnetAddress | SpecificAddress

KEYWORDS = {
    "pool": AnyAddress(),
    "pool4": AnyAddress(ranges.Family.IPV4),
    "pool6": AnyAddress(ranges.Family.IPV6),
}
"""Values of a NIC's ``ip`` that mean any pool; no pool may have such a name."""


@dataclass(frozen=True)
class PoolView:
    """The use of a pool: the number of free addresses, and its map if the pool is small enough to display."""

    free: int
    map: str


class Allocations(Protocol):
    """The allocations of one plan; an address that the plan allocates is in use for its later requests."""

    def allocate(self, net: network.Network, request: Request) -> str:
        """Return the canonical text of an unused address.

        Raises NoRoomError (a pool is full), NotUniqueError (in use; names the owner), InvalidError (outside every
        subnet), NotFoundError (no such pool), WrongStateError (reserved externally).
        """
        ...

    def release(self, net: network.Network, ip: str) -> None:
        """Release an address of a NIC, so that this plan can assign that address to another NIC by name.

        Pools allocate the address again only after the plan's transaction is applied.
        """
        ...


def parse(text: str, *, force: bool) -> Request:
    """Return the request that a NIC's ``ip`` value stands for: a keyword, an address, or the name of a pool."""
    if text in KEYWORDS:
        return KEYWORDS[text]
    if text and can_name_pool(text):
        return PoolAddress(text)
    return SpecificAddress(ranges.parse_address(text), force)


def can_name_pool(text: str) -> bool:
    """Return whether a text can be the name of a pool: it is neither "none" nor similar to an address."""
    return text != "none" and ":" not in text and not text.replace(".", "").isdecimal()

"""The IPAM driver interface: what the layers above may ask of who keeps the allocations.

A request says which address is wanted: any of a network's pools, any of one pool, or a specific one. The management
layer calls the driver, never the other way round (contracts/neutron-ipam-driver.md#layers).

See contracts/neutron-ipam-driver.md#driver-interface.
"""

from dataclasses import dataclass
from typing import Protocol

from gantry.address import ranges
from gantry.model import network


@dataclass(frozen=True)
class AnyAddress:
    """The first free address of the first pool that has one (contracts/networks.md#finding-an-address).

    With a ``family`` only the pools of that family count.
    """

    family: ranges.Family | None = None


@dataclass(frozen=True)
class PoolAddress:
    """The first free address of the pool with this name."""

    pool: str


@dataclass(frozen=True)
class SubnetAddress:
    """The first free address of the pools of one subnet, by its UUID."""

    subnet: str


@dataclass(frozen=True)
class SpecificAddress:
    """This address; one that is reserved externally only with ``force`` (contracts/networks.md#terms).

    The gateway of a subnet is only for a router: with ``gateway``.
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
    """What a pool holds: how many addresses are free, and its map where it is small enough to show."""

    free: int
    map: str


class Allocations(Protocol):
    """One coherent set of picks: what is allocated in it is taken for the picks that follow."""

    def allocate(self, net: network.Network, request: Request) -> str:
        """Return the canonical text of an address nobody has.

        Raises NoRoomError (a pool is full), NotUniqueError (in use, by whom), InvalidError (outside every subnet),
        NotFoundError (no such pool), WrongStateError (reserved externally).
        """
        ...

    def release(self, net: network.Network, ip: str) -> None:
        """Let the plan give an address, that it takes from its NIC, to another one that names it.

        Pools hand it out again only when the plan's transaction is applied.
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
    """Tell whether a text can be the name of a pool: it does not read as an address, nor as none."""
    return text != "none" and ":" not in text and not text.replace(".", "").isdecimal()

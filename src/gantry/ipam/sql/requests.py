"""What a subnet is asked for (contracts/neutron-ipam-driver.md#requests).

``ipam.driver`` says what a network of the cluster is asked for, these what one subnet is; the texts are those of
``model.network``.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class AnyAddress:
    """Any free address of the pools; workers begin at places of their own."""


@dataclass(frozen=True)
class NextAddress:
    """The lowest free address of the pools."""


@dataclass(frozen=True)
class SpecificAddress:
    """This address of the subnet's CIDR; with ``pools_only`` only if a pool has it."""

    address: str
    pools_only: bool = False


@dataclass(frozen=True)
class AutomaticAddress:
    """The address that a host with this MAC gives itself (``address.automatic``)."""

    mac: str


Request = AnyAddress | NextAddress | SpecificAddress | AutomaticAddress

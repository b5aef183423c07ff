"""Requests for an address of a subnet (contracts/neutron-ipam-driver.md#requests).

``ipam.driver`` has the requests for an address of a cluster's network. The texts are those of ``model.network``.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class AnyAddress:
    """Any free address of the pools; each worker begins at another position."""


@dataclass(frozen=True)
class NextAddress:
    """The lowest free address of the pools."""


@dataclass(frozen=True)
class SpecificAddress:
    """This address of the subnet's CIDR; with ``pools_only``, only if a pool contains it."""

    address: str
    pools_only: bool = False


@dataclass(frozen=True)
class AutomaticAddress:
    """The address that a host with this MAC address assigns to itself (``address.automatic``)."""

    mac: str


Request = AnyAddress | NextAddress | SpecificAddress | AutomaticAddress

"""Reservations of addresses in the Gantry network that a pool is bound to.

``bound_networks`` caches them, ``actions`` refer to them, and ``cluster_ports`` reads and writes them in the cluster.
The annotation ``ipam.NETWORK_ANNOTATION`` binds a pool to a network. An address of such a pool has two records: the
IPAddress object, and a reservation in the network from which instances get their addresses too, so that no address has
two owners.
"""

import msgspec

from gantry.address import ranges
from gantry.kubernetes.api import meta

GROUP = "gantry"
"""API group of the ``Ref`` of an owner that is not a Kubernetes object."""


class Reservation(msgspec.Struct, frozen=True, order=True):
    """An address of a network (its UUID), reserved for a claim on a pool."""

    network: str
    address: ranges.Address
    claim: meta.Ref
    pool: meta.Ref

    @property
    def owner(self) -> meta.Ref:
        """The owner of the address: the claim, in the group of the cluster."""
        return claim_owner(self.claim)


class Network(msgspec.Struct, frozen=True):
    """A network as read from its cluster; claims get no ``excluded`` ranges, ``used`` has addresses of other owners."""

    uuid: str
    name: str
    subnets: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    used: dict[ranges.Address, meta.Ref] = {}


def claim_owner(claim: meta.Ref) -> meta.Ref:
    """Return a claim as owner of a reservation; it prints like the claim."""
    return msgspec.structs.replace(claim, group=f"{GROUP}:{claim.group}")


def foreign_owner(kind: str, name: str) -> meta.Ref:
    """Return an owner that is not one of our claims: an instance, a port, or the network itself."""
    return meta.Ref(GROUP, kind, "", name)

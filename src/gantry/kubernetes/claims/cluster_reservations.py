"""Ledger: what is said between the claims and the ledger of a cluster in whose network a pool's addresses are.

Who uses it: ``bound_networks`` keeps it, ``actions`` carry it, and the controllers read and write it with the cluster.
A pool is bound to a network by its annotation (``ipam.NETWORK``). A number of it then has two records: the IPAddress
object, and a reservation in the ledger that instances get their addresses from too, so that nobody has what another
has.
"""

import msgspec

from gantry.address import ranges
from gantry.kubernetes.api import meta

GROUP = "gantry"
"""The group of those who hold a number in a ledger: ``Ref``s to no object of Kubernetes."""


class Reservation(msgspec.Struct, frozen=True, order=True):
    """An address of a network, by its UUID, that is kept for a claim on a pool."""

    network: str
    address: ranges.Address
    claim: meta.Ref
    pool: meta.Ref

    @property
    def holder(self) -> meta.Ref:
        """Who holds the number by it: the claim, as the ledger knows it."""
        return holder(self.claim)


class Network(msgspec.Struct, frozen=True):
    """A network as its cluster has it; ``closed`` are ranges that nobody gets, ``taken`` what others than we have."""

    uuid: str
    name: str
    subnets: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    taken: dict[ranges.Address, meta.Ref] = {}


def holder(claim: meta.Ref) -> meta.Ref:
    """Return who a claim is in the ledger; it reads as the claim does."""
    return msgspec.structs.replace(claim, group=f"{GROUP}:{claim.group}")


def other(kind: str, name: str) -> meta.Ref:
    """Return who holds a number in the ledger that is no claim of ours: an instance, a port, or the network itself."""
    return meta.Ref(GROUP, kind, "", name)

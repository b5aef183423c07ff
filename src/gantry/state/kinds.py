"""What the state holds: the kinds of objects, by the collections they are in, and the changes a transaction is made of.

``snapshot`` names all of it again, and is what other rooms import; apart from it for ``draft``, which makes snapshots.
"""

from dataclasses import dataclass
from typing import NamedTuple

from gantry.model import cluster as clusters
from gantry.model import instance, job, network

Keeper = instance.Instance | instance.DetachedDisk
"""Who has minors and ports."""

Holder = instance.Instance | network.Port
"""Who has addresses and MAC addresses."""

Layer = network.Network | network.Rest | network.SegmentRange | network.Port | network.SubnetPool

Stored = clusters.Cluster | clusters.NodeGroup | clusters.Node | Layer | Keeper | job.Job

KINDS: dict[str, type[Stored]] = {
    "cluster": clusters.Cluster,
    "nodegroups": clusters.NodeGroup,
    "nodes": clusters.Node,
    "networks": network.Network,
    "resting": network.Rest,
    "segmentranges": network.SegmentRange,
    "ports": network.Port,
    "subnetpools": network.SubnetPool,
    "instances": instance.Instance,
    "disks": instance.DetachedDisk,
    "jobs": job.Job,
}
"""The collections of the configuration (contracts/configuration.md#configdata) and the queue."""

KIND_OF: dict[type, str] = {cls: kind for kind, cls in KINDS.items()}

NOUNS = {
    "nodegroups": "node group",
    "nodes": "node",
    "networks": "network",
    "segmentranges": "segment range",
    "ports": "port",
    "subnetpools": "subnet pool",
    "instances": "instance",
}
"""What the objects of a collection are called in messages."""

LIST_COMMANDS = {
    "nodegroups": "gnt-group list",
    "nodes": "gnt-node list",
    "networks": "gnt-network list",
    "segmentranges": "gantry segment range list",
    "instances": "gnt-instance list",
}
"""What shows the objects of a collection."""

UNNAMED = frozenset({"segmentranges", "ports", "subnetpools"})
"""The collections whose objects may have one name, or none: they are in no index of names."""


@dataclass(frozen=True, slots=True)
class Put:
    """Store an object, new or in place of the one with its key."""

    value: Stored

    @property
    def kind(self) -> str:
        """Return the collection of the object."""
        return KIND_OF[type(self.value)]

    @property
    def key(self) -> str:
        """Return the object's key in its collection: UUID, or a job's number."""
        return str(self.value.id) if isinstance(self.value, job.Job) else self.value.uuid


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the object with a key from a collection."""

    kind: str
    key: str


Change = Put | Delete


class AddressOwner(NamedTuple):
    """Who uses an address, by UUIDs: an instance with one of its NICs, or a port; what it is not is empty."""

    instance: str = ""
    nic: str = ""
    port: str = ""

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

Layer = network.Network | network.Quarantine | network.SegmentRange | network.Port | network.SubnetPool

Stored = clusters.Cluster | clusters.NodeGroup | clusters.Node | Layer | Keeper | job.Job


@dataclass(frozen=True, slots=True)
class Kind:
    """The descriptor of a kind of stored object.

    ``collection`` is the name of the map in ``Content``, in the journal and in ``config.data``; ``type`` is the struct.
    ``noun`` names such an object in messages, ``list_command`` lists all of them, ``event`` is the kind in events; each
    may be empty. The index of names has the objects with ``unique_names``. ``in_checkpoint`` means that ``config.data``
    has the collection as a map by UUID.
    """

    collection: str
    type: type[Stored]
    noun: str = ""
    list_command: str = ""
    event: str = ""
    unique_names: bool = False
    in_checkpoint: bool = True


KINDS = {
    kind.collection: kind
    for kind in (
        Kind("cluster", clusters.Cluster, event="cluster", in_checkpoint=False),
        Kind("nodegroups", clusters.NodeGroup, "node group", "gnt-group list", "group", unique_names=True),
        Kind("nodes", clusters.Node, "node", "gnt-node list", "node", unique_names=True),
        Kind("networks", network.Network, "network", "gnt-network list", "network", unique_names=True),
        Kind("instances", instance.Instance, "instance", "gnt-instance list", "instance", unique_names=True),
        Kind("disks", instance.DetachedDisk),
        Kind("resting", network.Quarantine),
        Kind("segmentranges", network.SegmentRange, "segment range", "gantry segment range list", "segmentrange"),
        Kind("ports", network.Port, "port", event="port"),
        Kind("subnetpools", network.SubnetPool, "subnet pool", event="subnetpool"),
        Kind("jobs", job.Job, event="job", in_checkpoint=False),
    )
}
"""Every kind of stored object by its collection, in the order of ``config.data``.

See contracts/configuration.md#objects.
"""

KIND_OF: dict[type, str] = {kind.type: kind.collection for kind in KINDS.values()}


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

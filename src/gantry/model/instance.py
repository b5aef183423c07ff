"""Instance, disk and NIC.

See contracts/cluster-design.md#object-parameters and contracts/networks.md#several-addresses-of-a-nic.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from gantry.model import base, network

PORTS = ""
"""The space of the ports of mirrored disks, which are the cluster's; a minor is in the space of its node."""


class AdminState(StrEnum):
    """What the administrator wants of an instance."""

    UP = "up"
    DOWN = "down"
    OFFLINE = "offline"


class Mirror(base.Part, frozen=True):
    """What two nodes need to keep one disk: the minor on each (by UUID), the port they talk on, their secret."""

    minors: dict[str, int]
    port: int
    secret: str


class Disk(base.Part, frozen=True):
    """A disk: size in MiB, mode ``rw`` or ``ro``; ``logical_id`` names it for its driver, for a file the path.

    A mirrored disk has no such name, but a ``mirror``, and ``children``, the same on both nodes: data and metadata.
    """

    uuid: str
    dev_type: str
    size: int
    name: str = ""
    mode: str = "rw"
    logical_id: tuple[str, ...] = ()
    params: base.Parameters = {}
    children: tuple["Disk", ...] = ()
    mirror: Mirror | None = None


class DetachedDisk(base.Part, frozen=True):
    """A disk that no instance has; it waits on its nodes, the UUIDs in ``nodes``, with all that is on it.

    ``instance`` is the name of the one that had it last, the first node that one's primary. Minors and port stay its.
    """

    disk: Disk
    nodes: tuple[str, ...]
    instance: str

    @property
    def uuid(self) -> str:
        """Return its key in the collection: the UUID of the disk."""
        return self.disk.uuid

    @property
    def name(self) -> str:
        """Return what it is called; two can have one name, and most have none."""
        return self.disk.name

    def numbers(self) -> "Iterator[Number]":
        """Yield the minors and the port that nobody else may have."""
        return numbers_of((self.disk,))


class Nic(base.Part, frozen=True):
    """A network card: any number of addresses, all from subnets of ``network`` (a UUID, empty for none)."""

    uuid: str
    mac: str
    name: str = ""
    ip: tuple[str, ...] = ()
    network: str = ""
    nicparams: base.Parameters = {}


class Lingering(base.Part, frozen=True):
    """An address that a NIC no longer has while the guest, which was not told, goes on with it; UUIDs of both ends."""

    network: str
    ip: str
    nic: str


class Number(NamedTuple):
    """A number that only one disk may have: a node's UUID with a minor, or ``PORTS`` with a port."""

    space: str
    number: int


class Instance(base.Entity, frozen=True):
    """A virtual machine; ``primary_node`` is the UUID of the node that runs it.

    ``lingering`` are addresses that its guest uses until it has stopped, so nobody else gets them before that.
    The parameter dictionaries hold only what was set for this instance; ``model.parameters`` fills the rest.
    """

    primary_node: str
    hypervisor: str
    os: str = ""
    disk_template: str = "file"
    admin_state: AdminState = AdminState.DOWN
    disks: tuple[Disk, ...] = ()
    nics: tuple[Nic, ...] = ()
    hvparams: base.Parameters = {}
    beparams: base.Parameters = {}
    osparams: base.Parameters = {}
    osparams_private: base.Parameters = {}
    network_port: int = 0
    lingering: tuple[Lingering, ...] = ()

    def places(self) -> Iterator[network.Place]:
        """Yield every address that nobody else may have: those of the NICs, and those that linger."""
        for nic in self.nics:
            for ip in nic.ip:
                yield network.Place(nic.network, ip, nic.uuid)
        for one in self.lingering:
            yield network.Place(one.network, one.ip, one.nic)

    @property
    def secondary_nodes(self) -> tuple[str, ...]:
        """Return the UUIDs of the nodes that keep its disks too, beside the primary one."""
        kept = (node for disk in self.disks if disk.mirror for node in disk.mirror.minors)
        return tuple(dict.fromkeys(node for node in kept if node != self.primary_node))

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the UUIDs of all its nodes, the primary one first."""
        return (self.primary_node, *self.secondary_nodes)

    def numbers(self) -> Iterator[Number]:
        """Yield the minors and ports that nobody else may have."""
        return numbers_of(self.disks)


def numbers_of(disks: Iterable[Disk]) -> Iterator[Number]:
    """Yield the minors and ports of disks."""
    for disk in disks:
        if disk.mirror:
            yield Number(PORTS, disk.mirror.port)
            yield from (Number(node, minor) for node, minor in disk.mirror.minors.items())

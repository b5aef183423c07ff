"""Instance, disk and NIC.

See contracts/cluster-design.md#object-parameters and contracts/networks.md#several-addresses-of-a-nic.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from gantry.model import base, network

PORTS = ""
"""The space of the ports of mirrored disks, one for the cluster; each node has a space of minors."""


class AdminState(StrEnum):
    """The state that the administrator requested for an instance."""

    UP = "up"
    DOWN = "down"
    OFFLINE = "offline"


class Mirror(base.Part, frozen=True):
    """The mirroring of a disk between two nodes: the minor on each node (by UUID), the port, the shared secret."""

    minors: dict[str, int]
    port: int
    secret: str


class Disk(base.Part, frozen=True):
    """A disk: size in MiB, mode ``rw`` or ``ro``; ``logical_id`` identifies it to its driver, as a path for a file.

    A mirrored disk has no ``logical_id`` but a ``mirror``, and ``children`` for data and metadata, the same on both
    nodes.
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
    """A disk without an instance, which keeps its data on its ``nodes`` (UUIDs).

    ``instance`` is the name of its last instance; the first node was that instance's primary node. The disk keeps its
    minors and port.
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
        """Return the name of the disk, which need not be unique and is usually empty."""
        return self.disk.name

    def numbers(self) -> "Iterator[Number]":
        """Yield the minors and the port that no other disk may have."""
        return numbers_of((self.disk,))


class PortDetails(base.Part, frozen=True):
    """What a NIC keeps of the port that it is made of, beside network, MAC address and addresses, which are its own."""

    name: str = ""
    project: str = ""
    admin_state_up: bool = True
    description: str = ""
    tags: tuple[str, ...] = ()
    serial_no: int = 1
    ctime: float = 0.0


class Nic(base.Part, frozen=True):
    """A NIC with any number of addresses, all from subnets of ``network`` (a UUID, empty for none).

    A NIC that is made of a port has its UUID, and ``port`` keeps what returns to it when the NIC is removed.
    """

    uuid: str
    mac: str
    name: str = ""
    ip: tuple[str, ...] = ()
    network: str = ""
    nicparams: base.Parameters = {}
    port: PortDetails | None = None


class Lingering(base.Part, frozen=True):
    """An address that a NIC no longer has but that the running guest still uses; network and NIC are UUIDs."""

    network: str
    ip: str
    nic: str


class Number(NamedTuple):
    """A number that only one disk may have: a minor in the space of a node's UUID, or a port in ``PORTS``."""

    space: str
    number: int


class Instance(base.Entity, frozen=True):
    """A virtual machine; ``primary_node`` is the UUID of the node that runs it.

    ``lingering`` are addresses that the running guest still uses; they are not released before the guest stops.
    The parameter dictionaries have only the values that are set for this instance; ``model.parameters`` fills the
    defaults.
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

    def allocations(self) -> Iterator[network.Allocation]:
        """Yield the addresses that no other owner may have: those of the NICs, and the lingering ones."""
        for nic in self.nics:
            for ip in nic.ip:
                yield network.Allocation(nic.network, ip, nic.uuid)
        for address in self.lingering:
            yield network.Allocation(address.network, address.ip, address.nic)

    @property
    def secondary_nodes(self) -> tuple[str, ...]:
        """Return the UUIDs of the nodes other than the primary node that have copies of its disks."""
        nodes = (node for disk in self.disks if disk.mirror for node in disk.mirror.minors)
        return tuple(dict.fromkeys(node for node in nodes if node != self.primary_node))

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the UUIDs of all its nodes, the primary node first."""
        return (self.primary_node, *self.secondary_nodes)

    @property
    def project(self) -> str:
        """Return the project of the ports that its NICs are made of, empty without such a port; all are of one."""
        return next((nic.port.project for nic in self.nics if nic.port), "")

    def numbers(self) -> Iterator[Number]:
        """Yield the minors and ports that no other disk may have."""
        return numbers_of(self.disks)


def numbers_of(disks: Iterable[Disk]) -> Iterator[Number]:
    """Yield the minors and ports of disks."""
    for disk in disks:
        if disk.mirror:
            yield Number(PORTS, disk.mirror.port)
            yield from (Number(node, minor) for node, minor in disk.mirror.minors.items())

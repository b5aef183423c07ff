"""Instance, disk and NIC (seed "Object parameters"; networks seed "Multiple IPs per NIC")."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from gantry.model import base


class AdminState(StrEnum):
    """What the administrator wants of an instance."""

    UP = "up"
    DOWN = "down"
    OFFLINE = "offline"


class Disk(base.Part, frozen=True):
    """A disk: size in MiB, mode ``rw`` or ``ro``; ``logical_id`` names it for its driver, for a file the path."""

    uuid: str
    dev_type: str
    size: int
    name: str = ""
    mode: str = "rw"
    logical_id: tuple[str, ...] = ()
    params: base.Parameters = {}


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


class Place(NamedTuple):
    """Where an address is in use: UUID of the network (empty for none), canonical text, UUID of the NIC."""

    network: str
    ip: str
    nic: str


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
    network_port: int = 0
    lingering: tuple[Lingering, ...] = ()

    def places(self) -> Iterator[Place]:
        """Yield every address that nobody else may have: those of the NICs, and those that linger."""
        for nic in self.nics:
            for ip in nic.ip:
                yield Place(nic.network, ip, nic.uuid)
        for one in self.lingering:
            yield Place(one.network, one.ip, one.nic)

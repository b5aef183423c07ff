"""The configuration as Ganeti 2.0 to 3.1 wrote it, as far as it is converted.

Only the other modules of this folder use it. Releases differ (contracts/configuration.md#objects): nodes
and instances are listed by name or by UUID and refer to each other by either, disks are inside their instance or a
collection of their own, slots of later releases are absent in earlier ones, and any slot may be null. So all but
a few fields are optional, and fields that are not listed here are ignored.
"""

import msgspec

Parameters = dict[str, object]
"""Unchecked parameters of the old configuration."""


class Entity(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that most objects have."""

    uuid: str | None = None
    name: str | None = None
    serial_no: int | None = None
    ctime: float | None = None
    mtime: float | None = None
    tags: tuple[str, ...] | None = None


class Cluster(Entity, frozen=True, kw_only=True):
    """The cluster; 2.0 has ``default_bridge`` where later ones have NIC parameters."""

    cluster_name: str
    master_node: str
    mac_prefix: str | None = None
    master_netdev: str | None = None
    default_bridge: str | None = None
    enabled_hypervisors: tuple[str, ...] | None = None
    enabled_disk_templates: tuple[str, ...] | None = None
    candidate_pool_size: int | None = None
    hvparams: dict[str, Parameters] | None = None
    beparams: dict[str, Parameters] | None = None
    nicparams: dict[str, Parameters] | None = None
    osparams: dict[str, Parameters] | None = None
    osparams_private_cluster: dict[str, Parameters] | None = None
    ndparams: Parameters | None = None
    diskparams: dict[str, Parameters] | None = None
    os_hvp: dict[str, dict[str, Parameters]] | None = None
    hidden_os: tuple[str, ...] | None = None
    blacklisted_os: tuple[str, ...] | None = None
    ipolicy: Parameters | None = None
    file_storage_dir: str | None = None
    volume_group_name: str | None = None


class Connection(msgspec.Struct, frozen=True):
    """How a network is connected to a node group."""

    mode: str
    link: str
    vlan: str | None = None


class NodeGroup(Entity, frozen=True, kw_only=True):
    """A node group; ``networks`` is keyed by the network's UUID or name."""

    alloc_policy: str | None = None
    networks: dict[str, Connection] | None = None
    ndparams: Parameters | None = None
    diskparams: dict[str, Parameters] | None = None
    ipolicy: Parameters | None = None


class Node(Entity, frozen=True, kw_only=True):
    """A node; before node groups existed, without ``group``."""

    primary_ip: str
    secondary_ip: str | None = None
    group: str | None = None
    master_candidate: bool | None = None
    offline: bool | None = None
    drained: bool | None = None
    master_capable: bool | None = None
    vm_capable: bool | None = None
    ndparams: Parameters | None = None


class Network(Entity, frozen=True, kw_only=True):
    """A network with at most one subnet of each family; the bit strings have a character per IPv4 address."""

    network: str | None = None
    gateway: str | None = None
    network6: str | None = None
    gateway6: str | None = None
    mac_prefix: str | None = None
    reservations: str | None = None
    ext_reservations: str | None = None


class Nic(msgspec.Struct, frozen=True, kw_only=True):
    """A NIC with one address; 2.0 has ``bridge`` where later ones have NIC parameters."""

    mac: str
    uuid: str | None = None
    name: str | None = None
    ip: str | None = None
    network: str | None = None
    nicparams: Parameters | None = None
    bridge: str | None = None


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """A disk; before 2.10 a volume was ``lvm`` and a mirrored disk ``drbd8``.

    ``logical_id`` is driver and path of a file; group and name of a volume; two nodes, port, their minors and secret of
    a mirrored disk, whose volumes are its ``children``, for data and metadata.
    """

    dev_type: str
    size: int
    uuid: str | None = None
    name: str | None = None
    mode: str | None = None
    logical_id: tuple[object, ...] | None = None
    children: "tuple[Disk, ...] | None" = None


class Instance(Entity, frozen=True, kw_only=True):
    """An instance; disks are UUIDs of the collection, or the disks themselves."""

    primary_node: str
    hypervisor: str | None = None
    os: str | None = None
    disk_template: str | None = None
    admin_state: str | None = None
    admin_up: bool | None = None
    status: bool | str | None = None
    forthcoming: bool | None = None
    disks: tuple[str | Disk, ...] | None = None
    nics: tuple[Nic, ...] | None = None
    hvparams: Parameters | None = None
    beparams: Parameters | None = None
    osparams: Parameters | None = None
    osparams_private: Parameters | None = None
    network_port: int | None = None


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    version: int
    cluster: Cluster
    nodes: dict[str, Node]
    serial_no: int = 1
    instances: dict[str, Instance] | None = None
    nodegroups: dict[str, NodeGroup] | None = None
    networks: dict[str, Network] | None = None
    disks: dict[str, Disk] | None = None

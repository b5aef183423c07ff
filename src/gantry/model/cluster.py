"""Cluster, node group and node, with the roles a node can have.

See contracts/cluster-design.md#object-parameters and contracts/cluster-design.md#node-flags.
"""

from enum import StrEnum

from gantry.model import base

Specs = dict[str, int]
"""Sizes by what ``model.policy`` knows; MiB where they are of memory or disks."""


class Bounds(base.Part, frozen=True):
    """One range of sizes; what is not named is not bounded."""

    min: Specs = {}
    max: Specs = {}


class Policy(base.Part, frozen=True, rename="kebab"):
    """How large an instance may be, as one level sets it: it has to fit one of ``minmax``.

    What is empty or 0 is not set. ``std`` is the standard instance, the cluster's alone.
    """

    minmax: tuple[Bounds, ...] = ()
    std: Specs = {}
    disk_templates: tuple[str, ...] = ()
    vcpu_ratio: float = 0.0
    spindle_ratio: float = 0.0


NO_POLICY = Policy()
"""What is written as nothing: the policy of a level that sets none."""


class Cluster(base.Entity, frozen=True):
    """The cluster itself; ``master_node`` is the UUID of the node that holds the master role.

    ``candidate_pool_size`` is how many master candidates the cluster tries to keep. Parameter dictionaries hold only
    what differs from the built-in defaults of ``model.parameters``; ``os_hvp`` is by operating system and hypervisor.
    ``hidden_os`` are operating systems, or variants, that lists leave out, ``blacklisted_os`` those that are not
    installed either.
    ``network_thresholds`` are the percentages of a network's pools in use from which verify warns and complains.
    ``ipam_hold_time`` is for how many seconds an address that an instance gave back rests before another one gets it.
    The first of ``enabled_hypervisors`` and of ``enabled_disk_templates`` is the default; ``default_disk_size`` is in
    MiB, 0 where there is none.
    ``vg_name`` is the volume group of disks for which none is named; with ``prealloc_wipe_disks`` new disks are
    overwritten with zeros.
    ``default_iallocator`` is the program that places instances where none is named, with its options; empty for the
    built-in allocator.
    With ``segment_ranges`` the ranges that clients make apply besides those of the configuration file; with
    ``segment_fallback`` a project that has used up its own takes from the shared ones. ``tenant_network_types`` and
    ``physical_networks`` are what that file says: the network types of shared ranges in the order in which they are
    tried, all of them if empty, and the physical networks that it names.
    ``ipam_driver`` keeps the allocations of addresses, in ``ipam_database`` (a URL) if it is not the state.
    ``watcher_pause`` is until when the watcher rests. While ``queue_drained`` no new jobs are taken.
    """

    master_node: str
    mac_prefix: str = "aa:00:00"
    master_netdev: str = ""
    enabled_hypervisors: tuple[str, ...] = ("kvm",)
    enabled_disk_templates: tuple[str, ...] = ("file", "diskless")
    candidate_pool_size: int = 10
    hvparams: dict[str, base.Parameters] = {}
    beparams: dict[str, base.Parameters] = {}
    nicparams: dict[str, base.Parameters] = {}
    ndparams: base.Parameters = {}
    diskparams: dict[str, base.Parameters] = {}
    osparams: dict[str, base.Parameters] = {}
    osparams_private_cluster: dict[str, base.Parameters] = {}
    os_hvp: dict[str, dict[str, base.Parameters]] = {}
    hidden_os: tuple[str, ...] = ()
    blacklisted_os: tuple[str, ...] = ()
    ipolicy: Policy = NO_POLICY
    max_running_jobs: int = 1000
    default_disk_size: int = 0
    vg_name: str = "xenvg"
    prealloc_wipe_disks: bool = False
    default_iallocator: str = ""
    default_iallocator_params: base.Parameters = {}
    ipam_hold_time: int = 0
    network_thresholds: tuple[int, int] = (80, 95)
    segment_ranges: bool = False
    segment_fallback: bool = False
    tenant_network_types: tuple[str, ...] = ()
    physical_networks: tuple[str, ...] = ()
    ipam_driver: str = "embedded"
    ipam_database: str = ""
    watcher_pause: float | None = None
    queue_drained: bool = False


class Connection(base.Part, frozen=True):
    """How a network is plugged in at a node group: the L2 half of a network (contracts/networks.md#terms)."""

    mode: str
    link: str
    vlan: str = ""


class AllocPolicy(StrEnum):
    """Whether instances that name no node may come to a group; ``last_resort`` is when no other group has room."""

    PREFERRED = "preferred"
    LAST_RESORT = "last_resort"
    UNALLOCABLE = "unallocable"


class NodeGroup(base.Entity, frozen=True):
    """Nodes with one layer 2: ``networks`` maps the UUID of a connected network to its connection.

    Parameters and policy hold only what differs from the cluster's.
    """

    alloc_policy: AllocPolicy = AllocPolicy.PREFERRED
    networks: dict[str, Connection] = {}
    ndparams: base.Parameters = {}
    diskparams: dict[str, base.Parameters] = {}
    ipolicy: Policy = NO_POLICY


class Role(StrEnum):
    """The single status of a node that its flags add up to (contracts/cluster-design.md#node-flags)."""

    MASTER = "M"
    CANDIDATE = "C"
    REGULAR = "R"
    DRAINED = "D"
    OFFLINE = "O"


class Node(base.Entity, frozen=True):
    """A machine of the cluster; ``group`` is the UUID of its node group.

    ``accelerator`` is what the node's probe found a guest really runs with ("kvm" or "tcg"), empty before the first
    probe, and ``accelerator_reason`` says why. A ``joining`` one may not have its certificate yet: it has no vote.
    """

    primary_ip: str
    secondary_ip: str = ""
    port: int = 1811
    group: str = ""
    master_candidate: bool = False
    offline: bool = False
    drained: bool = False
    master_capable: bool = True
    vm_capable: bool = True
    joining: bool = False
    ndparams: base.Parameters = {}
    accelerator: str = ""
    accelerator_reason: str = ""

    def role(self, cluster: Cluster) -> Role:
        """Return the node's status; the master's own flags are never set."""
        if cluster.master_node == self.uuid:
            return Role.MASTER
        if self.offline:
            return Role.OFFLINE
        if self.drained:
            return Role.DRAINED
        return Role.CANDIDATE if self.master_candidate else Role.REGULAR

"""Cluster, node group and node, with the roles of nodes.

See contracts/cluster-design.md#object-parameters and contracts/cluster-design.md#node-flags.
"""

from enum import StrEnum

from gantry.model import base
from gantry.model.cluster_settings import Replication, Settings

Specs = dict[str, int]
"""Limits by the names of ``model.policy.SPECS``; memory and disk sizes are in MiB."""


class Bounds(base.Part, frozen=True):
    """A range of sizes; names without a limit are not bounded."""

    min: Specs = {}
    max: Specs = {}


class Policy(base.Part, frozen=True, rename="kebab"):
    """The instance policy that one level sets; an instance must fit one range of ``minmax``.

    Empty values and 0 mean not set. ``std`` is the standard instance, set for the cluster only.
    """

    minmax: tuple[Bounds, ...] = ()
    std: Specs = {}
    disk_templates: tuple[str, ...] = ()
    vcpu_ratio: float = 0.0
    spindle_ratio: float = 0.0


NO_POLICY = Policy()
"""The policy of a level that sets none; it is not serialized."""


MANY_CANDIDATES = 3
"""The number of chosen master candidates, the master included, from which on ``majority`` is the default."""


class Revoked(base.Part, frozen=True):
    """A certificate that the cluster issued and that no longer counts: its serial number in hex, and its end."""

    serial: str
    end: float


class Closed(StrEnum):
    """Why an invitation does not admit a machine any more, apart from its end."""

    USED = "used"
    REVOKED = "revoked"


class Invitation(base.Part, frozen=True):
    """The permission for a machine to join as ``node``, until ``end``, with the options of OP_NODE_ADD.

    The machine shows a secret, of which the cluster keeps the hash (``security.invitation``). With an empty
    ``primary_ip``, the node gets the address from which the machine calls. ``closed`` is a word of ``Closed``; a used
    invitation has the address of the node that it admitted in ``address``. Closed ones are kept for their answers.
    With ``readd`` it is for the machine of a node that has lost its files.
    """

    node: str
    secret_hash: str
    end: float
    primary_ip: str = ""
    port: int = 1811
    group: str = ""
    master_capable: bool = True
    vm_capable: bool = True
    ndparams: base.Parameters = {}
    closed: str = ""
    address: str = ""
    readd: bool = False


class SegmentSource(StrEnum):
    """Where the default segment ranges are from: the file of the master, or a command, which wins over the file."""

    FILE = "file"
    COMMAND = "command"


class Cluster(base.Entity, frozen=True):
    """The cluster itself; ``master_node`` is the UUID of the master.

    ``candidate_pool_size`` is the target number of master candidates. Parameter dictionaries have only the values that
    differ from the built-in defaults of ``model.parameters``; ``os_hvp`` is by operating system and hypervisor.
    ``hidden_os`` are operating systems or variants that lists omit; ``blacklisted_os`` cannot be installed either.
    ``network_thresholds`` are the percentages of a network's pools in use at which verify warns and fails.
    ``ipam_hold_time`` is the quarantine time of released addresses, in seconds.
    The first of ``enabled_hypervisors`` and of ``enabled_disk_templates`` is the default; ``default_disk_size`` is in
    MiB, 0 for no default.
    ``vg_name`` is the volume group of disks that name none; with ``prealloc_wipe_disks``, new disks are overwritten
    with zeros.
    ``default_iallocator`` is the default program that chooses nodes for instances, with its options; empty for the
    built-in allocator.
    With ``segment_ranges``, the ranges of clients apply beside those of the configuration file; without
    ``segment_fallback``, a project whose own ranges are exhausted gets no ids of the shared ranges.
    ``tenant_network_types`` and ``physical_networks`` are from that file or from a command, as ``segment_source`` says
    (``SegmentSource``, or empty if neither): the network types of shared ranges in the order of preference, all types
    if empty, and the physical networks. ``bridge_mappings`` has the link of each physical network, ``tunnel_link`` that
    of VXLAN networks: networks of the Neutron API are connected by it when they are created.
    ``ipam_driver`` stores the allocations of addresses, in ``ipam_database`` (a URL) or in the state.
    ``replication`` is a policy of ``Replication``; if it is empty, the number of chosen master candidates decides.
    ``revoked`` are the certificates of removed nodes, and those that were replaced, until they end.
    ``invitations`` are those of machines that may join, at most one that is open for each name.
    ``journal_retention`` and ``archive_retention`` are texts of ``retention``.
    ``stray_guests`` is the rule of ``cluster_settings.StrayGuests``, ``reading`` that of ``Reading``. ``allowed`` has
    the allow-lists that differ from the built-in ones (``model.allowed``).
    The watcher is paused until ``watcher_pause``, in seconds since the epoch. While ``queue_drained`` is set, the queue
    accepts no jobs.
    """

    master_node: str
    mac_prefix: str = Settings.mac_prefix.default
    master_netdev: str = Settings.master_netdev.default
    enabled_hypervisors: tuple[str, ...] = ("kvm",)
    enabled_disk_templates: tuple[str, ...] = ("file", "diskless")
    candidate_pool_size: int = Settings.candidate_pool_size.default
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
    max_running_jobs: int = Settings.max_running_jobs.default
    default_disk_size: int = Settings.default_disk_size.default
    vg_name: str = Settings.vg_name.default
    prealloc_wipe_disks: bool = Settings.prealloc_wipe_disks.default
    default_iallocator: str = Settings.default_iallocator.default
    default_iallocator_params: base.Parameters = Settings.default_iallocator_params.default
    ipam_hold_time: int = Settings.ipam_hold_time.default
    network_thresholds: tuple[int, int] = Settings.network_thresholds.default
    segment_ranges: bool = Settings.segment_ranges.default
    segment_fallback: bool = Settings.segment_fallback.default
    tenant_network_types: tuple[str, ...] = ()
    physical_networks: tuple[str, ...] = ()
    segment_source: str = ""
    bridge_mappings: dict[str, str] = {}
    tunnel_link: str = ""
    ipam_driver: str = "embedded"
    ipam_database: str = ""
    watcher_pause: float | None = None
    queue_drained: bool = False
    replication: str = Settings.replication.default
    revoked: tuple[Revoked, ...] = ()
    journal_retention: str = Settings.journal_retention.default
    archive_retention: str = Settings.archive_retention.default
    stray_guests: str = Settings.stray_guests.default
    reading: str = Settings.reading.default
    allowed: dict[str, tuple[str, ...]] = {}
    invitations: tuple[Invitation, ...] = ()

    def replication_policy(self, candidates: int, lost: int = 0) -> Replication:
        """Return the policy in force with these numbers of master candidates, the master included, and of lost ones."""
        return Replication(self.replication) if self.replication else self.default_policy(candidates, lost)

    def default_policy(self, candidates: int, lost: int = 0) -> Replication:
        """Return the policy that the number of chosen candidates suggests.

        A ``lost`` candidate counts as chosen as long as no other node has filled its place in the pool. So the loss of
        a candidate does not make the policy weaker: that would be so exactly after the first failure.
        """
        chosen = max(candidates, min(candidates + lost, self.candidate_pool_size))
        return Replication.MAJORITY if chosen >= MANY_CANDIDATES else Replication.SEED


class Connection(base.Part, frozen=True):
    """The connection of a network to a node group: the L2 half of a network (contracts/networks.md#terms)."""

    mode: str
    link: str
    vlan: str = ""


class AllocPolicy(StrEnum):
    """Whether the allocator may choose a group; ``last_resort`` means only if no other group has capacity."""

    PREFERRED = "preferred"
    LAST_RESORT = "last_resort"
    UNALLOCABLE = "unallocable"


class NodeGroup(base.Entity, frozen=True):
    """Nodes with common layer 2 networks: ``networks`` maps the UUID of a network to its connection.

    Parameters and policy have only the values that differ from the cluster's.
    """

    alloc_policy: AllocPolicy = AllocPolicy.PREFERRED
    networks: dict[str, Connection] = {}
    ndparams: base.Parameters = {}
    diskparams: dict[str, base.Parameters] = {}
    ipolicy: Policy = NO_POLICY


class Role(StrEnum):
    """The status of a node, which follows from its flags (contracts/cluster-design.md#node-flags)."""

    MASTER = "M"
    CANDIDATE = "C"
    REGULAR = "R"
    DRAINED = "D"
    OFFLINE = "O"


class Certificate(base.Part, frozen=True):
    """A node's certificate: serial number in hex, its end in seconds since the epoch, and the digest of its key.

    While a node gets another key, ``keys`` has both: which one it presents is not known until it has answered. Without
    keys, the node joined before the cluster recorded them.
    """

    keys: tuple[str, ...] = ()
    serial: str = ""
    end: float = 0.0


NO_CERTIFICATE = Certificate()


class Node(base.Entity, frozen=True):
    """A machine of the cluster; ``group`` is the UUID of its node group.

    ``accelerator`` is the accelerator with which the node's test guest ran ("kvm" or "tcg"), empty before the first
    test; ``accelerator_reason`` explains the result. A ``joining`` node may not have its certificate yet, so it has no
    vote. ``certificate`` is the one that the cluster issued to it. A ``lost_candidate`` was a master candidate when it
    was marked offline; it is one again, or is asked not to be one, before the flag ends.
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
    certificate: Certificate = NO_CERTIFICATE
    lost_candidate: bool = False

    @property
    def takes_part(self) -> bool:
        """Return whether the node has joined and is not offline, so that it has the cluster's files and is called."""
        return not (self.offline or self.joining)

    def role(self, cluster: Cluster) -> Role:
        """Return the node's status; the master's flags are never set."""
        if cluster.master_node == self.uuid:
            return Role.MASTER
        if self.offline:
            return Role.OFFLINE
        if self.drained:
            return Role.DRAINED
        return Role.CANDIDATE if self.master_candidate else Role.REGULAR

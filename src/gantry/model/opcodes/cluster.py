"""The opcodes of cluster, nodes, tags, operating systems and tests."""

from typing import Annotated, Literal

from msgspec import Meta

from gantry.model import base
from gantry.model.cluster_settings import Settings
from gantry.model.opcodes.base import (
    DiskParameters,
    Name,
    NodeName,
    NodeParameters,
    NoEffect,
    Opcode,
    PolicyChange,
    Size,
    Tags,
)

Number = int | str
Switch = bool | Literal["default"]
Words = Annotated[tuple[Annotated[str, Meta(max_length=32)], ...], Meta(max_length=64)]


Listing = Annotated[
    tuple[tuple[Literal["add", "remove"], Annotated[str, Meta(min_length=1, max_length=255)]], ...],
    Meta(max_length=1000),
]
"""Names to add to a list and to remove from it."""


AllowChanges = Annotated[
    tuple[
        tuple[
            Literal["add", "remove"],
            Annotated[str, Meta(min_length=1, max_length=32)],
            Annotated[str, Meta(min_length=1, max_length=1024)],
        ],
        ...,
    ],
    Meta(max_length=1000),
]
"""Entries to add to allow-lists and to remove from them: action, list, entry."""


class ClusterDestroy(Opcode, frozen=True):
    """Destroy the cluster: the nodes delete its files, and the master daemon ends."""


class ClusterPostInit(Opcode, frozen=True):
    """Run the hooks of a new cluster."""


class ClusterRedistConf(Opcode, frozen=True):
    """Send the cluster's files to all nodes again."""


class ClusterRenewCrypto(Opcode, frozen=True):
    """Renew certificates and keys of nodes, of the remote API and of the cluster's authority, without interruption."""

    node_certificates: Annotated[bool, Meta(description="Give all nodes new keys and certificates")] = False
    nodes: Annotated[
        tuple[Name, ...], Meta(max_length=10_000, description="Give only these nodes new keys and certificates")
    ] = ()
    keep_keys: Annotated[bool, Meta(description="Keep the keys of the nodes, and issue only new certificates")] = False
    cluster_certificate: Annotated[
        bool, Meta(description="Replace the authority, and issue all certificates again")
    ] = False
    rapi_certificate: Annotated[bool, Meta(description="Issue a certificate of its own for the remote API")] = False


class ClusterVerify(Opcode, frozen=True):
    """Check configuration, nodes and instances, and log the problems."""

    error_codes: Annotated[
        bool,
        Meta(description="Log errors in a form for programs, ERROR:code:kind:name: text"),
    ] = False
    verbose: NoEffect = False


Rule = Literal["report", "stop", "adopt"]
"""What happens to a stray guest (``model.cluster_settings.StrayGuests``)."""


class ClusterRepairStrayGuests(Opcode, frozen=True):
    """Find the guests that run although the state does not have them running there, and apply a rule to each.

    Each guest to which the rule applies is handled by a job of its own; the result lists those that are left.
    """

    rule: Annotated[
        Rule | None, Meta(description="Report, stop or adopt the guests; by default as the cluster's setting says")
    ] = None


class StrayGuestRepair(Opcode, frozen=True):
    """Stop or adopt a stray guest, if it still is one."""

    DESCRIBES = "guest_name"

    guest_name: Annotated[Name, Meta(description="Name of the guest")]
    guest_uuid: Annotated[str, Meta(max_length=64, description="UUID of the guest")]
    node_name: NodeName
    rule: Annotated[Literal["stop", "adopt"], Meta(description="Stop or adopt the guest")]


class ClusterSetParams(Opcode, frozen=True):
    """Change settings of the cluster. Omitted settings stay unchanged; the word ``default`` resets a setting."""

    enabled_hypervisors: Annotated[
        Words | None, Meta(description="Enabled hypervisors, the default one first; those in use cannot be disabled")
    ] = None
    default_hypervisor: Annotated[str, Meta(max_length=32, description="Hypervisor of new instances")] | None = None
    enabled_disk_templates: Annotated[
        Words | None, Meta(description="Enabled disk templates, the default one first; those in use cannot be disabled")
    ] = None
    default_disk_size: Annotated[Size | None, Meta(description=Settings.default_disk_size.text)] = None
    vg_name: Annotated[str, Meta(max_length=127, description=Settings.vg_name.text)] | None = None
    default_iallocator: Annotated[str, Meta(max_length=255, description=Settings.default_iallocator.text)] | None = None
    default_iallocator_params: Annotated[
        base.Parameters | None, Meta(description=Settings.default_iallocator_params.text)
    ] = None
    prealloc_wipe_disks: Annotated[Switch | None, Meta(description=Settings.prealloc_wipe_disks.text)] = None
    candidate_pool_size: Annotated[Number | None, Meta(description=Settings.candidate_pool_size.text)] = None
    replication: Annotated[str, Meta(max_length=16, description=Settings.replication.text)] | None = None
    journal_retention: Annotated[str, Meta(max_length=32, description=Settings.journal_retention.text)] | None = None
    archive_retention: Annotated[str, Meta(max_length=32, description=Settings.archive_retention.text)] | None = None
    stray_guests: Annotated[str, Meta(max_length=16, description=Settings.stray_guests.text)] | None = None
    reading: Annotated[str, Meta(max_length=16, description=Settings.reading.text)] | None = None
    max_running_jobs: Annotated[Number | None, Meta(description=Settings.max_running_jobs.text)] = None
    mac_prefix: Annotated[str, Meta(max_length=17, description=Settings.mac_prefix.text)] | None = None
    master_netdev: Annotated[str, Meta(max_length=15, description=Settings.master_netdev.text)] | None = None
    ipam_hold_time: Annotated[Number | None, Meta(description=Settings.ipam_hold_time.text)] = None
    network_thresholds: Annotated[
        tuple[int, int] | Literal["default"] | None, Meta(description=Settings.network_thresholds.text)
    ] = None
    segment_ranges: Annotated[Switch | None, Meta(description=Settings.segment_ranges.text)] = None
    segment_fallback: Annotated[Switch | None, Meta(description=Settings.segment_fallback.text)] = None
    ipam_driver: Annotated[
        Literal["embedded", "sql"] | None,
        Meta(
            description="Set what decides allocations: embedded, the cluster's state; "
            "sql, a database shared with others"
        ),
    ] = None
    ipam_database: (
        Annotated[str, Meta(max_length=1024, description="URL of the IPAM database; its password is never shown")]
        | None
    ) = None
    hvparams: Annotated[
        dict[str, base.Parameters] | None, Meta(description="Defaults of hypervisor parameters, by hypervisor")
    ] = None
    beparams: Annotated[base.Parameters | None, Meta(description="Defaults of backend parameters")] = None
    nicparams: Annotated[base.Parameters | None, Meta(description="Defaults of NICs without a network")] = None
    ndparams: Annotated[base.Parameters | None, Meta(description="Defaults of node parameters")] = None
    diskparams: DiskParameters | None = None
    osparams: Annotated[
        dict[str, base.Parameters] | None, Meta(description="Default OS parameters, by operating system")
    ] = None
    osparams_private_cluster: Annotated[
        dict[str, base.Parameters] | None,
        Meta(description="OS parameters that are stored but never shown, by operating system"),
    ] = None
    os_hvp: Annotated[
        dict[str, dict[str, base.Parameters]] | None,
        Meta(description="Hypervisor parameters, by operating system and hypervisor"),
    ] = None
    hidden_os: Annotated[
        Listing | None,
        Meta(description='Operating systems or variants that lists omit: [["add", "busybox"], ["remove", ...]]'),
    ] = None
    blacklisted_os: Annotated[
        Listing | None, Meta(description="Operating systems or variants that cannot be installed, in the same form")
    ] = None
    allowed: Annotated[
        AllowChanges | None,
        Meta(
            description="Entries of allow-lists, which only root on the master may change: "
            '[["add", "images", "/srv/cd"], ...]'
        ),
    ] = None
    ipolicy: PolicyChange = None
    force: Annotated[bool, Meta(description="Continue although nodes do not answer or lack a bridge")] = False


PrimaryIp = Annotated[str, Meta(max_length=64, description="Address of the node daemon")]
NodePort = Annotated[int, Meta(ge=1, le=65535, description="Set the port of the node daemon")]
GroupOfNode = Annotated[str, Meta(max_length=255, description="Node group; by default the group named default")]
MasterCapable = Annotated[bool, Meta(description="Allow the node to be a master candidate")]
VmCapable = Annotated[bool, Meta(description="Allow the node to run instances")]
Readd = Annotated[
    bool, Meta(description="Whether the node is one of the cluster, whose machine has lost its files or was replaced")
]


class NodeAdd(Opcode, frozen=True):
    """Add a machine to the cluster: send it a certificate and the cluster's files, and assign it to a node group.

    ``readd`` is for a node of the cluster whose machine has lost its files or was replaced: it keeps what is
    recorded. An addition that was interrupted after the machine had joined is completed without a join token.
    """

    DESCRIBES = "node_name"

    node_name: NodeName
    primary_ip: PrimaryIp = ""
    port: NodePort = 1811
    join_token: Annotated[str, Meta(max_length=16384, description="Content of the node's join-token file")] = ""
    invitation: Annotated[str, Meta(max_length=64, description="Id of the invitation that the machine shows")] = ""
    group: GroupOfNode = ""
    master_capable: MasterCapable = True
    vm_capable: VmCapable = True
    ndparams: NodeParameters = {}
    conflicts_check: Annotated[
        bool, Meta(description="Refuse an address that a guest has, and reserve the node's address in networks")
    ] = True
    readd: Readd = False


SecretHash = Annotated[
    str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)", description="SHA-256 of the secret that the machine will show, in hex")
]


class NodeInvite(Opcode, frozen=True):
    """Invite a machine: it may join by itself as this node, once and within an hour, if it shows a secret."""

    DESCRIBES = "node_name"

    node_name: NodeName
    secret_hash: SecretHash
    primary_ip: PrimaryIp = ""
    port: NodePort = 1811
    group: GroupOfNode = ""
    master_capable: MasterCapable = True
    vm_capable: VmCapable = True
    ndparams: NodeParameters = {}
    readd: Readd = False


class NodeQueryInvitations(Opcode, frozen=True):
    """List the invitations of machines: name, group, address, state and end, without their secrets."""


class NodeRevokeInvitation(Opcode, frozen=True):
    """Revoke the invitation of a machine that has not joined yet."""

    DESCRIBES = "node_name"

    node_name: NodeName


class NodeRemove(Opcode, frozen=True):
    """Remove a node without instances from the cluster."""

    DESCRIBES = "node_name"

    node_name: NodeName


class NodeSetParams(Opcode, frozen=True):
    """Change the flags and parameters of a node."""

    DESCRIBES = "node_name"

    node_name: NodeName
    master_candidate: Annotated[
        bool | None,
        Meta(description="Make the node a master candidate: it keeps a copy of the state and can become the master"),
    ] = None
    offline: Annotated[
        bool | None,
        Meta(description="Mark the node offline: it is not called, and is neither a candidate nor a primary node"),
    ] = None
    drained: Annotated[bool | None, Meta(description="Mark the node drained: it gets no new instances")] = None
    auto_promote: Annotated[
        bool, Meta(description="Accepted for older clients; a missing candidate is always replaced")
    ] = False
    master_capable: MasterCapable | None = None
    vm_capable: VmCapable | None = None
    ndparams: NodeParameters | None = None
    force: Annotated[bool, Meta(description="Remove a candidate from the pool although no node can replace it")] = False


TagKind = Annotated[Literal["cluster", "nodegroup", "node", "instance", "network"], Meta(description="Object type")]
TaggedName = Annotated[str, Meta(max_length=255, description="Name of the object; empty for the cluster")]


class TagsSet(Opcode, frozen=True):
    """Add tags to an object."""

    DESCRIBES = "name"

    kind: TagKind
    tags: Tags
    name: TaggedName = ""


class TagsDel(Opcode, frozen=True):
    """Remove tags from an object."""

    DESCRIBES = "name"

    kind: TagKind
    tags: Tags
    name: TaggedName = ""


class TagsSearch(Opcode, frozen=True):
    """Find tags by a regular expression; the result lists each as the path of its object and the tag."""

    DESCRIBES = "pattern"

    pattern: Annotated[
        str, Meta(max_length=1024, description="Regular expression; lists the tags that contain a match")
    ]


class OsDiagnose(Opcode, frozen=True):
    """List operating systems, with their status on each node."""

    output_fields: Annotated[tuple[str, ...], Meta(description="Fields of the resource os to return")]
    names: Annotated[tuple[str, ...], Meta(description="Names; empty for all")] = ()


class TestDelay(Opcode, frozen=True):
    """Sleep on the master, on nodes or both; hold the locks of these nodes, unless ``no_locks`` is set."""

    DESCRIBES = "duration"

    duration: Annotated[float, Meta(ge=0, le=86400, description="Seconds to sleep")]
    on_master: Annotated[bool, Meta(description="Sleep on the master")] = True
    on_nodes: Annotated[tuple[str, ...], Meta(description="Nodes to sleep on")] = ()
    repeat: Annotated[int, Meta(ge=0, le=1000, description="Sleep this many times; 0 means once")] = 0
    no_locks: Annotated[bool, Meta(description="Do not lock the nodes")] = False

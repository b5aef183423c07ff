"""The opcodes of cluster, nodes, tags, operating systems and tests."""

from typing import Annotated, Literal

from msgspec import Meta

from gantry.model import base, policy
from gantry.model.opcodes.base import Name, Opcode, Size, Tags

Number = int | str
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
    """Renew certificates and keys of nodes, of the remote API and of the cluster's authority, while all go on."""

    node_certificates: bool = False
    nodes: Annotated[tuple[Name, ...], Meta(max_length=10_000)] = ()
    keep_keys: bool = False
    cluster_certificate: bool = False
    rapi_certificate: bool = False


class ClusterVerify(Opcode, frozen=True):
    """Check configuration, nodes and instances, and log the problems."""

    error_codes: bool = False
    verbose: bool = False


Rule = Literal["report", "stop", "adopt"]
"""What happens to a stray guest (``model.cluster_settings.StrayGuests``)."""


class ClusterRepairStrayGuests(Opcode, frozen=True):
    """Find the guests that run although the state does not have them running there, and apply a rule to each.

    Each guest to which the rule applies is handled by a job of its own; the result lists those that are left.
    """

    rule: Rule | None = None


class StrayGuestRepair(Opcode, frozen=True):
    """Stop or adopt a stray guest, if it still is one."""

    DESCRIBES = "guest_name"

    guest_name: Name
    guest_uuid: Annotated[str, Meta(max_length=64)]
    node_name: Name
    rule: Literal["stop", "adopt"]


class ClusterSetParams(Opcode, frozen=True):
    """Change settings of the cluster. Omitted settings stay unchanged; the word ``default`` resets a setting."""

    enabled_hypervisors: Words | None = None
    default_hypervisor: Annotated[str, Meta(max_length=32)] | None = None
    enabled_disk_templates: Words | None = None
    default_disk_size: Size | None = None
    vg_name: Annotated[str, Meta(max_length=127)] | None = None
    default_iallocator: Annotated[str, Meta(max_length=255)] | None = None
    default_iallocator_params: base.Parameters | None = None
    prealloc_wipe_disks: bool | Literal["default"] | None = None
    candidate_pool_size: Number | None = None
    replication: Annotated[str, Meta(max_length=16)] | None = None
    journal_retention: Annotated[str, Meta(max_length=32)] | None = None
    archive_retention: Annotated[str, Meta(max_length=32)] | None = None
    stray_guests: Annotated[str, Meta(max_length=16)] | None = None
    reading: Annotated[str, Meta(max_length=16)] | None = None
    max_running_jobs: Number | None = None
    mac_prefix: Annotated[str, Meta(max_length=17)] | None = None
    master_netdev: Annotated[str, Meta(max_length=15)] | None = None
    ipam_hold_time: Number | None = None
    network_thresholds: tuple[int, int] | Literal["default"] | None = None
    segment_ranges: bool | Literal["default"] | None = None
    segment_fallback: bool | Literal["default"] | None = None
    ipam_driver: Literal["embedded", "sql"] | None = None
    ipam_database: Annotated[str, Meta(max_length=1024)] | None = None
    hvparams: dict[str, base.Parameters] | None = None
    beparams: base.Parameters | None = None
    nicparams: base.Parameters | None = None
    ndparams: base.Parameters | None = None
    diskparams: dict[str, base.Parameters] | None = None
    osparams: dict[str, base.Parameters] | None = None
    osparams_private_cluster: dict[str, base.Parameters] | None = None
    os_hvp: dict[str, dict[str, base.Parameters]] | None = None
    hidden_os: Listing | None = None
    blacklisted_os: Listing | None = None
    allowed: AllowChanges | None = None
    ipolicy: policy.Change | None = None
    force: bool = False


class NodeAdd(Opcode, frozen=True):
    """Add a machine to the cluster: send it a certificate and the cluster's files, and assign it to a node group.

    ``readd`` is for a node of the cluster whose machine has lost its files or was replaced: it keeps what is
    recorded. An addition that was interrupted after the machine had joined is completed without a join token.
    """

    DESCRIBES = "node_name"

    node_name: Name
    primary_ip: Annotated[str, Meta(max_length=64, description="Address of the node daemon")] = ""
    port: Annotated[int, Meta(ge=1, le=65535)] = 1811
    join_token: Annotated[str, Meta(max_length=16384, description="Content of the node's join-token file")] = ""
    invitation: Annotated[str, Meta(max_length=64, description="Id of the invitation that the machine shows")] = ""
    group: Annotated[str, Meta(max_length=255)] = ""
    master_capable: bool = True
    vm_capable: bool = True
    ndparams: base.Parameters = {}
    conflicts_check: bool = True
    readd: bool = False


SecretHash = Annotated[
    str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)", description="SHA-256 of the secret that the machine will show, in hex")
]


class NodeInvite(Opcode, frozen=True):
    """Invite a machine: it may join by itself as this node, once and within an hour, if it shows a secret."""

    DESCRIBES = "node_name"

    node_name: Name
    secret_hash: SecretHash
    primary_ip: Annotated[str, Meta(max_length=64, description="Address of the node daemon")] = ""
    port: Annotated[int, Meta(ge=1, le=65535)] = 1811
    group: Annotated[str, Meta(max_length=255)] = ""
    master_capable: bool = True
    vm_capable: bool = True
    ndparams: base.Parameters = {}
    readd: bool = False


class NodeQueryInvitations(Opcode, frozen=True):
    """List the invitations of machines: name, group, address, state and end, without their secrets."""


class NodeRevokeInvitation(Opcode, frozen=True):
    """Revoke the invitation of a machine that has not joined yet."""

    DESCRIBES = "node_name"

    node_name: Name


class NodeRemove(Opcode, frozen=True):
    """Remove a node without instances from the cluster."""

    DESCRIBES = "node_name"

    node_name: Name


class NodeSetParams(Opcode, frozen=True):
    """Change the flags and parameters of a node."""

    DESCRIBES = "node_name"

    node_name: Name
    master_candidate: bool | None = None
    offline: bool | None = None
    drained: bool | None = None
    auto_promote: bool = False
    master_capable: bool | None = None
    vm_capable: bool | None = None
    ndparams: base.Parameters | None = None
    force: bool = False


TagKind = Literal["cluster", "nodegroup", "node", "instance", "network"]


class TagsSet(Opcode, frozen=True):
    """Add tags to an object."""

    DESCRIBES = "name"

    kind: TagKind
    tags: Tags
    name: Annotated[str, Meta(max_length=255)] = ""


class TagsDel(Opcode, frozen=True):
    """Remove tags from an object."""

    DESCRIBES = "name"

    kind: TagKind
    tags: Tags
    name: Annotated[str, Meta(max_length=255)] = ""


class TagsSearch(Opcode, frozen=True):
    """Find tags by a regular expression; the result lists each as the path of its object and the tag."""

    DESCRIBES = "pattern"

    pattern: Annotated[str, Meta(max_length=1024)]


class OsDiagnose(Opcode, frozen=True):
    """List operating systems, with their status on each node."""

    output_fields: tuple[str, ...]
    names: tuple[str, ...] = ()


class TestDelay(Opcode, frozen=True):
    """Sleep on the master, on nodes or both; hold the locks of these nodes, unless ``no_locks`` is set."""

    DESCRIBES = "duration"

    duration: Annotated[float, Meta(ge=0, le=86400)]
    on_master: bool = True
    on_nodes: tuple[str, ...] = ()
    repeat: Annotated[int, Meta(ge=0, le=1000)] = 0
    no_locks: bool = False

"""The opcodes that move instances: failover, migration, copy, and evacuation of nodes and node groups."""

from typing import Annotated, Literal

from msgspec import Meta

from gantry.model.opcodes.base import (
    Allocator,
    GroupName,
    IgnorePolicy,
    InstanceName,
    Name,
    NodeName,
    NoEffect,
    Opcode,
    ShutdownTimeout,
    TargetNode,
)

Mode = Annotated[
    Literal["live", "non-live"],
    Meta(description="Set the migration mode: live keeps the guest running while its memory is sent"),
]
OlderMode = Annotated[bool, Meta(description="Older form of mode")]
Cleanup = Annotated[bool, Meta(description="Clean up after an interrupted move: find where the instance runs")]
RuntimeChanges = Annotated[bool, Meta(description="Accepted for older clients; the memory stays unchanged")]
EarlyRelease = Annotated[bool, Meta(description="Release the old copy of a disk before the new copy is complete")]


class InstanceFailover(Opcode, frozen=True):
    """Stop an instance on its node and start it on another node that has its disks.

    The default target is the secondary node, or for disks that every node can access, a node that the allocator
    chooses. An instance with mirrored disks can fail over to any node: one of its two nodes becomes the secondary node.

    See contracts/cluster-design.md#failover-to-any-node.
    """

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    target_node: TargetNode | None = None
    iallocator: Allocator | None = None
    ignore_consistency: Annotated[
        bool,
        Meta(description="Continue although the source node does not answer, or a copy of the disks is out of date"),
    ] = False
    shutdown_timeout: ShutdownTimeout = 120
    ignore_ipolicy: IgnorePolicy = False
    cleanup: Cleanup = False
    keep: Annotated[
        Literal["primary", "secondary"] | None,
        Meta(description="Set which node keeps its copy of mirrored disks when the target is a third node"),
    ] = None
    wait_for_sync: Annotated[
        bool, Meta(description="Start the instance only when the new copy of its disks is complete")
    ] = False


class InstanceMigrate(Opcode, frozen=True):
    """Move a running instance to another node that has its disks, without stopping it."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    mode: Mode | None = None
    live: OlderMode | None = None
    target_node: TargetNode | None = None
    iallocator: Allocator | None = None
    cleanup: Cleanup = False
    allow_failover: Annotated[
        bool, Meta(description="Fail over if the instance does not run or cannot be migrated")
    ] = False
    allow_runtime_changes: RuntimeChanges = True
    ignore_ipolicy: IgnorePolicy = False
    ignore_hvversions: NoEffect = False


class InstanceMove(Opcode, frozen=True):
    """Copy the disks of an instance to another node and run it there; the instance is stopped during the copy."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    target_node: Annotated[Name, Meta(description="Set the target node, which the disks are copied to")]
    shutdown_timeout: ShutdownTimeout = 120
    ignore_consistency: Annotated[
        bool, Meta(description="Continue although the instance cannot be shut down cleanly")
    ] = False
    ignore_ipolicy: IgnorePolicy = False
    compress: Annotated[Literal["none", "gzip"], Meta(description="Set the program that compresses the copy")] = "none"


class InstanceChangeGroup(Opcode, frozen=True):
    """Move an instance to another node group; the result is the list of jobs that move it."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    target_groups: Annotated[
        tuple[Name, ...],
        Meta(max_length=1000, description="Set the node groups that the instance may move to; empty for any"),
    ] = ()
    iallocator: Allocator | None = None
    early_release: EarlyRelease = False


class NodeEvacuate(Opcode, frozen=True):
    """Move instances and disk copies off a node; the result has the jobs, and the instances that cannot move."""

    DESCRIBES = "node_name"

    node_name: NodeName
    mode: Annotated[
        Literal["primary-only", "secondary-only", "all"],
        Meta(description="Move instances that run on the node, copies of disks on it, or both"),
    ]
    remote_node: Annotated[Name | None, Meta(description="Set the node that everything moves to")] = None
    iallocator: Allocator | None = None
    early_release: EarlyRelease = False
    ignore_soft_errors: NoEffect = False


class NodeMigrate(Opcode, frozen=True):
    """Migrate all instances that run on a node; the result is the list of jobs that migrate them."""

    DESCRIBES = "node_name"

    node_name: NodeName
    mode: Mode | None = None
    live: OlderMode | None = None
    target_node: Annotated[Name | None, Meta(description="Set the target node of all instances")] = None
    iallocator: Allocator | None = None
    allow_runtime_changes: RuntimeChanges = True
    ignore_ipolicy: IgnorePolicy = False


class GroupEvacuate(Opcode, frozen=True):
    """Move all instances out of a node group; the result has the jobs, and the instances that cannot move."""

    DESCRIBES = "group_name"

    group_name: GroupName
    target_groups: Annotated[
        tuple[Name, ...],
        Meta(max_length=1000, description="Set the node groups that instances may move to; empty for any"),
    ] = ()
    iallocator: Allocator | None = None
    early_release: EarlyRelease = False
    sequential: Annotated[bool, Meta(description="Run one job after the other")] = False
    force_failover: Annotated[bool, Meta(description="Fail over instead of migrating")] = False

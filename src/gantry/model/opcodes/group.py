"""The opcodes of node groups."""

from typing import Annotated

from msgspec import Meta

from gantry.model.cluster import AllocPolicy
from gantry.model.opcodes.base import (
    DiskParameters,
    GroupName,
    Name,
    NewName,
    NodeParameters,
    Opcode,
    PolicyChange,
    Tags,
)

GroupAllocPolicy = Annotated[
    AllocPolicy,
    Meta(description="Set whether the allocator uses the group: always, only if no other group has capacity, or never"),
]


class GroupAdd(Opcode, frozen=True):
    """Create a node group."""

    DESCRIBES = "group_name"

    group_name: Annotated[Name, Meta(description="Name of the node group")]
    alloc_policy: GroupAllocPolicy | None = None
    ndparams: NodeParameters | None = None
    diskparams: DiskParameters | None = None
    ipolicy: PolicyChange = None
    tags: Tags = ()


class GroupSetParams(Opcode, frozen=True):
    """Change a node group. Omitted settings stay unchanged; the word ``default`` resets a setting."""

    DESCRIBES = "group_name"

    group_name: GroupName
    alloc_policy: GroupAllocPolicy | None = None
    ndparams: NodeParameters | None = None
    diskparams: DiskParameters | None = None
    ipolicy: PolicyChange = None


class GroupRename(Opcode, frozen=True):
    """Rename a node group."""

    DESCRIBES = "group_name"

    group_name: GroupName
    new_name: NewName


class GroupRemove(Opcode, frozen=True):
    """Remove a node group that has no nodes."""

    DESCRIBES = "group_name"

    group_name: GroupName


class GroupAssignNodes(Opcode, frozen=True):
    """Move nodes to a node group."""

    DESCRIBES = "group_name"

    group_name: Annotated[Name, Meta(description="Node group that the nodes join")]
    nodes: Annotated[tuple[Name, ...], Meta(max_length=10000, description="Nodes")]
    force: Annotated[
        bool, Meta(description="Continue although an instance loses a network or has disks in two node groups")
    ] = False

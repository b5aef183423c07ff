"""The opcodes of node groups."""

from typing import Annotated

from msgspec import Meta

from gantry.model import base, policy
from gantry.model.cluster import AllocPolicy
from gantry.model.opcodes.base import Name, Opcode, Tags


class GroupAdd(Opcode, frozen=True):
    """Create a node group."""

    DESCRIBES = "group_name"

    group_name: Name
    alloc_policy: AllocPolicy | None = None
    ndparams: base.Parameters | None = None
    diskparams: dict[str, base.Parameters] | None = None
    ipolicy: policy.Change | None = None
    tags: Tags = ()


class GroupSetParams(Opcode, frozen=True):
    """Change a node group. Omitted settings stay unchanged; the word ``default`` resets a setting."""

    DESCRIBES = "group_name"

    group_name: Name
    alloc_policy: AllocPolicy | None = None
    ndparams: base.Parameters | None = None
    diskparams: dict[str, base.Parameters] | None = None
    ipolicy: policy.Change | None = None


class GroupRename(Opcode, frozen=True):
    """Rename a node group."""

    DESCRIBES = "group_name"

    group_name: Name
    new_name: Name


class GroupRemove(Opcode, frozen=True):
    """Remove a node group that has no nodes."""

    DESCRIBES = "group_name"

    group_name: Name


class GroupAssignNodes(Opcode, frozen=True):
    """Move nodes to a node group."""

    DESCRIBES = "group_name"

    group_name: Name
    nodes: Annotated[tuple[Name, ...], Meta(max_length=10000)]
    force: bool = False

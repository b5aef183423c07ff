"""The opcodes of the rules that say who may change what (``model.access``)."""

from typing import Annotated, Literal

from msgspec import Meta

from gantry.model.opcodes.base import WHO, Opcode

Who = Annotated[str, Meta(max_length=262, pattern=WHO, description="user:NAME or group:NAME")]
On = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=264,
        description="cluster, or group:NAME of a node group, tag:TAG, instance:NAME or network:NAME",
    ),
]
RoleName = Literal["operator", "admin", "network-admin"]


class AccessAdd(Opcode, frozen=True):
    """Give a user or a system group a role on objects; a rule that exists already is not an error."""

    DESCRIBES = "who"

    who: Who
    role: RoleName
    on: On


class AccessRemove(Opcode, frozen=True):
    """Remove the rules of a user or a system group: the one with this role and object, or all that match."""

    DESCRIBES = "who"

    who: Who
    role: RoleName | None = None
    on: On | None = None

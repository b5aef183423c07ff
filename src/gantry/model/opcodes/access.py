"""The opcodes of the rules that say who may change what, and of API tokens (``model.access``)."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gantry.model.opcodes.base import TOKEN, TOKEN_ID, USER, WHO, Opcode

Who = Annotated[str, Meta(max_length=262, pattern=WHO, description="user:NAME or group:NAME")]
On = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=264,
        description="cluster, or group:NAME of a node group, tag:TAG, project:ID, instance:NAME or network:NAME",
    ),
]
RoleName = Annotated[
    Literal["viewer", "operator", "admin", "network-admin"],
    Meta(description="Role: viewer, operator, admin or network-admin"),
]


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


TokenUser = Annotated[str, Meta(max_length=256, pattern=USER, description="User of the remote API whose token it is")]
TokenName = Annotated[str, Meta(max_length=64, pattern=TOKEN, description="Name, unique among the user's tokens")]


class TokenRole(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A role that a token allows to use, as an access rule would give it."""

    role: RoleName
    on: On


class TokenAdd(Opcode, frozen=True):
    """Create an API token; whoever submits it has generated the secret, of which only the hash is stored."""

    DESCRIBES = "name"

    user: TokenUser
    name: TokenName
    id: Annotated[str, Meta(pattern=TOKEN_ID, description="Public part of the token's text, by which it is found")]
    secret_hash: Annotated[
        str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)", description="SHA-256 of the token's text, in hex")
    ]
    extent: Annotated[
        Literal["everything", "read", "roles"],
        Meta(description="What it allows of what its user may: everything, no change, or what its roles include"),
    ] = "everything"
    roles: Annotated[tuple[TokenRole, ...], Meta(max_length=50, description="Roles of a token that allows roles")] = ()
    until: Annotated[
        Annotated[float, Meta(ge=0, le=1e12)] | Literal["never"] | None,
        Meta(description="End, in seconds since the epoch; 90 days from now by default, at most 366; or never"),
    ] = None


class TokenRevoke(Opcode, frozen=True):
    """Revoke an API token of a user, or all; requests with it are refused from then on."""

    DESCRIBES = "user"

    user: TokenUser
    name: TokenName | None = None

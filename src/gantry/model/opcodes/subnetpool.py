"""The opcodes of subnet pools: prefixes from which the CIDRs of subnets are allocated.

See contracts/neutron-api.md#subnet-pools.
"""

from typing import Annotated

from msgspec import Meta

from gantry.model.opcodes.base import Description, DisplayName, Opcode, Project, RangeTags, Shared, Text, Uuid

SubnetPoolName = Annotated[Text, Meta(description="Subnet pool, by its UUID or unique name")]
Prefixes = Annotated[
    tuple[Annotated[str, Meta(max_length=64)], ...],
    Meta(min_length=1, max_length=1024, description="CIDRs, all of one IP version"),
]
Length = Annotated[int, Meta(ge=0, le=128)]
DefaultLength = Annotated[Length, Meta(description="Prefix length of a subnet whose request has none")]
ShortestLength = Annotated[Length, Meta(description="Shortest prefix of a subnet")]
LongestLength = Annotated[Length, Meta(description="Longest prefix of a subnet")]
IsDefault = Annotated[bool, Meta(description="Make this the default subnet pool of its IP version")]
Quota = Annotated[
    int,
    Meta(
        ge=0, le=(1 << 63) - 1, description="Quota of a project, counted in /32 of IPv4 or /64 of IPv6; 0 for unlimited"
    ),
]


class SubnetPoolAdd(Opcode, frozen=True):
    """Create a subnet pool; the result is the new subnet pool.

    The default of ``min_prefixlen`` is 8 for IPv4 and 64 for IPv6, that of ``max_prefixlen`` 32 and 128, and that of
    ``default_prefixlen`` the value of ``min_prefixlen``.
    """

    DESCRIBES = "name"

    prefixes: Prefixes
    name: DisplayName = ""
    default_prefixlen: DefaultLength | None = None
    min_prefixlen: ShortestLength | None = None
    max_prefixlen: LongestLength | None = None
    shared: Shared = False
    project: Project = ""
    is_default: IsDefault = False
    default_quota: Quota = 0
    description: Description = ""
    tags: RangeTags = ()
    uuid: Uuid | None = None


class SubnetPoolSetParams(Opcode, frozen=True):
    """Change a subnet pool, by its UUID or unique name; the result is the changed subnet pool.

    The new prefixes must contain all old prefixes.
    """

    DESCRIBES = "subnet_pool"

    subnet_pool: SubnetPoolName
    name: Annotated[Text | None, Meta(description="New name")] = None
    prefixes: Prefixes | None = None
    default_prefixlen: DefaultLength | None = None
    min_prefixlen: ShortestLength | None = None
    max_prefixlen: LongestLength | None = None
    is_default: IsDefault | None = None
    default_quota: Quota | None = None
    description: Description | None = None
    tags: RangeTags | None = None


class SubnetPoolRemove(Opcode, frozen=True):
    """Remove a subnet pool from which no subnet was allocated, by its UUID or unique name."""

    DESCRIBES = "subnet_pool"

    subnet_pool: SubnetPoolName

"""The opcodes of subnet pools: prefixes from which the CIDRs of subnets are allocated.

See contracts/neutron-api.md#subnet-pools.
"""

from typing import Annotated

from msgspec import Meta

from gantry.model.opcodes.base import Opcode, Uuid
from gantry.model.opcodes.segment import RangeTags, Text

Prefixes = Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(min_length=1, max_length=1024)]
Length = Annotated[int, Meta(ge=0, le=128)]
Quota = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class SubnetPoolAdd(Opcode, frozen=True):
    """Create a subnet pool; the result is the new subnet pool.

    The default of ``min_prefixlen`` is 8 for IPv4 and 64 for IPv6, that of ``max_prefixlen`` 32 and 128, and that of
    ``default_prefixlen`` the value of ``min_prefixlen``.
    """

    DESCRIBES = "name"

    prefixes: Prefixes
    name: Text = ""
    default_prefixlen: Length | None = None
    min_prefixlen: Length | None = None
    max_prefixlen: Length | None = None
    shared: bool = False
    project: Text = ""
    is_default: bool = False
    default_quota: Quota = 0
    description: Text = ""
    tags: RangeTags = ()
    uuid: Uuid | None = None


class SubnetPoolSetParams(Opcode, frozen=True):
    """Change a subnet pool, by its UUID or unique name; the result is the changed subnet pool.

    The new prefixes must contain all old prefixes.
    """

    DESCRIBES = "subnet_pool"

    subnet_pool: Text
    name: Text | None = None
    prefixes: Prefixes | None = None
    default_prefixlen: Length | None = None
    min_prefixlen: Length | None = None
    max_prefixlen: Length | None = None
    is_default: bool | None = None
    default_quota: Quota | None = None
    description: Text | None = None
    tags: RangeTags | None = None


class SubnetPoolRemove(Opcode, frozen=True):
    """Remove a subnet pool from which no subnet was allocated, by its UUID or unique name."""

    DESCRIBES = "subnet_pool"

    subnet_pool: Text

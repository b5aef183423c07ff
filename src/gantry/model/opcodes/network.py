"""The opcodes of networks: subnets, pools, reservations, connections."""

from typing import Annotated, Literal

from msgspec import Meta

from gantry.model import base, network
from gantry.model.opcodes.base import Name, Opcode, Uuid
from gantry.model.opcodes.segment import NetworkType, PhysicalNetwork, RangeTags, SegmentationId, Text

Addresses = Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=64)]
HostRoutes = Annotated[tuple[network.HostRoute, ...], Meta(max_length=256)]
Ranges = Annotated[tuple[Annotated[str, Meta(max_length=128)], ...], Meta(max_length=256)]
Ipv6Mode = Literal["", "slaac", "dhcpv6-stateful", "dhcpv6-stateless"]


class SubnetSpec(base.Part, frozen=True):
    """A subnet to add; ``pool`` makes a pool of all of it (contracts/networks.md#subnets).

    Instead of a CIDR of its own it may have one cut from a ``subnetpool``, with ``prefixlen`` or the pool's default.
    ``pools`` are ranges that each become a pool. ``label`` is a name that may be taken or have any form: where it
    cannot be the name the subnet is found by it all the same.
    """

    cidr: Annotated[str, Meta(max_length=64)] = ""
    name: Annotated[str, Meta(max_length=255)] = ""
    gateway: Annotated[str, Meta(max_length=64)] = ""
    dhcp: bool = False
    pool: bool = False
    pools: Ranges | None = None
    label: Text | None = None
    description: Text = ""
    dns_nameservers: Addresses = ()
    host_routes: HostRoutes = ()
    ipv6_address_mode: Ipv6Mode = ""
    ipv6_ra_mode: Ipv6Mode = ""
    subnetpool: Annotated[str, Meta(max_length=36)] = ""
    default_subnetpool: Literal[4, 6] | None = None
    prefixlen: Annotated[int, Meta(ge=0, le=128)] | None = None
    tags: RangeTags = ()
    uuid: Uuid | None = None


class RangeSpec(base.Part, frozen=True):
    """A range by its first address and its size, its last address, or both if they agree; one address with neither.

    The other form is a text: ``first-last``, one address or a CIDR (contracts/networks.md#configuration-objects).
    """

    start: Annotated[str, Meta(max_length=64)]
    size: int | None = None
    end: Annotated[str, Meta(max_length=64)] | None = None


RangeText = Annotated[str, Meta(max_length=128)]


class PoolSpec(base.Part, frozen=True):
    """A pool to add: a range, in whatever subnet contains it, or all of the ``subnet``, by CIDR, name or UUID."""

    range: RangeText | RangeSpec = ""
    subnet: Annotated[str, Meta(max_length=255)] = ""
    name: Annotated[str, Meta(max_length=255)] = ""


class NetworkAdd(Opcode, frozen=True):
    """Create a network; without a subnet it is layer 2 only.

    With a network type, a physical network or an id, or with ``segmented``, it has a segment
    (contracts/segment-ranges.md#purpose).

    ``network``, ``gateway``, ``network6`` and ``gateway6`` are the older form: a subnet each, with one pool over all
    of it (contracts/networks.md#backwards-compatibility). A ``label`` is a name that may be taken or have any form:
    where it cannot be the name one is made, and clients find the network by the label all the same.
    """

    DESCRIBES = "network_name"

    network_name: Name = ""
    subnets: Annotated[tuple[SubnetSpec, ...], Meta(max_length=256)] = ()
    pools: Annotated[tuple[PoolSpec, ...], Meta(max_length=256)] = ()
    network: str | None = None
    gateway: str | None = None
    network6: str | None = None
    gateway6: str | None = None
    mac_prefix: Annotated[str, Meta(max_length=17)] | None = None
    add_reserved_ips: Annotated[tuple[str, ...], Meta(max_length=4096)] | None = None
    conflicts_check: bool = True
    force: bool = False
    tags: RangeTags = ()
    uuid: Uuid | None = None
    label: Text | None = None
    shared: bool = False
    description: Text = ""
    admin_state_up: bool = True
    network_type: NetworkType = ""
    physical_network: PhysicalNetwork = ""
    segment: SegmentationId | None = None
    segmented: bool = False
    project: Text = ""


class SubnetMod(base.Part, frozen=True):
    """A change of one subnet; ``ident`` is a CIDR, a name or a UUID, and what is None stays as it is.

    ``gateway`` and ``name`` are taken away by "" or "none"; ``pool``, the IPv6 modes, ``subnetpool``, ``prefixlen`` and
    ``uuid`` go with ``add``. With ``usual`` gateway, pools and dhcp of a new subnet are the usual ones where none are
    given, and pools that are given have no address that hosts do not get. ``pools`` are all that the subnet shall have.
    Another ``cidr`` grows, shrinks or moves the subnet, which no address in use and no external range may stand
    against; pools are trimmed (contracts/networks.md#subnets).
    """

    action: Literal["add", "modify", "remove"]
    ident: Annotated[str, Meta(max_length=255)] = ""
    cidr: Annotated[str, Meta(max_length=64)] | None = None
    name: Annotated[str, Meta(max_length=255)] | None = None
    gateway: Annotated[str, Meta(max_length=64)] | None = None
    dhcp: bool | None = None
    pool: bool = False
    pools: Ranges | None = None
    label: Text | None = None
    description: Text | None = None
    dns_nameservers: Addresses | None = None
    host_routes: HostRoutes | None = None
    ipv6_address_mode: Ipv6Mode | None = None
    ipv6_ra_mode: Ipv6Mode | None = None
    subnetpool: Annotated[str, Meta(max_length=36)] | None = None
    default_subnetpool: Literal[4, 6] | None = None
    prefixlen: Annotated[int, Meta(ge=0, le=128)] | None = None
    tags: RangeTags | None = None
    uuid: Uuid | None = None
    usual: bool = False


class PoolMod(base.Part, frozen=True):
    """A change of pools: ``add`` a range or all of a subnet, ``remove`` a range or a pool, ``modify`` a pool's name.

    ``ident`` is the name, or exactly the range, of the pool that is modified or removed; ``subnet`` the CIDR, name or
    UUID of the subnet that becomes a pool. A removed ``range`` trims and splits the pools that have some of it.
    """

    action: Literal["add", "modify", "remove"]
    range: RangeText | RangeSpec = ""
    ident: Annotated[str, Meta(max_length=255)] = ""
    subnet: Annotated[str, Meta(max_length=255)] = ""
    name: Annotated[str, Meta(max_length=255)] | None = None


class NetworkSetParams(Opcode, frozen=True):
    """Change a network: what it says of itself, subnets, pools and external reservations; all of it, or nothing.

    In this order: what is not reserved any more, the older form, subnets, pools, what is reserved. ``gateway``,
    ``network6`` and ``gateway6`` are the older form: they mean the first subnet of their family, "none" takes it away.
    """

    DESCRIBES = "network_name"

    network_name: Name
    subnets: Annotated[tuple[SubnetMod, ...], Meta(max_length=256)] = ()
    pools: Annotated[tuple[PoolMod, ...], Meta(max_length=256)] = ()
    add_reserved_ips: Annotated[tuple[str, ...], Meta(max_length=4096)] | None = None
    remove_reserved_ips: Annotated[tuple[str, ...], Meta(max_length=4096)] | None = None
    gateway: str | None = None
    network6: str | None = None
    gateway6: str | None = None
    mac_prefix: Annotated[str, Meta(max_length=17)] | None = None
    conflicts_check: bool = True
    force: bool = False
    label: Text | None = None
    shared: bool | None = None
    description: Text | None = None
    admin_state_up: bool | None = None
    tags: RangeTags | None = None
    network_type: NetworkType = ""
    physical_network: PhysicalNetwork = ""
    segment: SegmentationId | None = None
    segmented: bool | None = None


class NetworkRename(Opcode, frozen=True):
    """Give a network another name."""

    DESCRIBES = "network_name"

    network_name: Name
    new_name: Name


class NetworkRemove(Opcode, frozen=True):
    """Remove a network that no instance uses."""

    DESCRIBES = "network_name"

    network_name: Name
    force: bool = False


class NetworkConnect(Opcode, frozen=True):
    """Plug a network in at a node group."""

    DESCRIBES = "network_name"

    network_name: Name
    group_name: Name
    network_mode: Literal["bridged", "routed"]
    network_link: Annotated[str, Meta(min_length=1, max_length=64)]
    network_vlan: Annotated[str, Meta(max_length=64)] = ""
    conflicts_check: bool = True


class NetworkDisconnect(Opcode, frozen=True):
    """Unplug a network from a node group whose instances do not use it."""

    DESCRIBES = "network_name"

    network_name: Name
    group_name: Name

"""The opcodes of networks: subnets, pools, reservations, connections."""

from typing import Annotated, Literal

from msgspec import Meta

from gantry.model import base, network
from gantry.model.opcodes.base import Name, Opcode, Uuid
from gantry.model.opcodes.segment import PhysicalNetwork, RangeTags, SegmentationId, Text, WireType

Addresses = Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=64)]
HostRoutes = Annotated[tuple[network.HostRoute, ...], Meta(max_length=256)]
Ranges = Annotated[tuple[Annotated[str, Meta(max_length=128)], ...], Meta(max_length=256)]
Ipv6Mode = Literal["", "slaac", "dhcpv6-stateful", "dhcpv6-stateless"]


class SubnetSpec(base.Part, frozen=True):
    """A subnet to add; ``pool`` creates a pool of the whole subnet (contracts/networks.md#subnets).

    Without ``cidr``, the CIDR is allocated from ``subnetpool``, with ``prefixlen`` or the subnet pool's default length.
    Each range of ``pools`` becomes a pool. ``label`` is a name of any form, which need not be unique: if it cannot
    become the subnet's name, clients can still find the subnet by it.
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
    ip_version: Literal[4, 6] | None = None
    prefixlen: Annotated[int, Meta(ge=0, le=128)] | None = None
    tags: RangeTags = ()
    uuid: Uuid | None = None


class RangeSpec(base.Part, frozen=True):
    """A range by its first address and its size or last address, or both if they agree; a single address with neither.

    The other form is text: ``first-last``, a single address or a CIDR (contracts/networks.md#configuration-objects).
    """

    start: Annotated[str, Meta(max_length=64)]
    size: int | None = None
    end: Annotated[str, Meta(max_length=64)] | None = None


RangeText = Annotated[str, Meta(max_length=128)]


class PoolSpec(base.Part, frozen=True):
    """A pool to add: a range inside any subnet of the network, or the whole ``subnet``, by CIDR, name or UUID."""

    range: RangeText | RangeSpec = ""
    subnet: Annotated[str, Meta(max_length=255)] = ""
    name: Annotated[str, Meta(max_length=255)] = ""


class NetworkAdd(Opcode, frozen=True):
    """Create a network; without a subnet it is layer 2 only.

    A network with a network type, a physical network, a segmentation id or ``segmented`` has a segment
    (contracts/segment-ranges.md#purpose), unless its type is flat or local.

    ``network``, ``gateway``, ``network6`` and ``gateway6`` are the older form: each CIDR becomes a subnet with a pool
    of all its addresses (contracts/networks.md#backwards-compatibility). ``label`` is a name of any form, which need
    not be unique: if it cannot become the network's name, a name is generated, and clients can find the network by the
    label.
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
    network_type: WireType = ""
    physical_network: PhysicalNetwork = ""
    segment: SegmentationId | None = None
    segmented: bool = False
    project: Text = ""
    connect: bool = False


class SubnetMod(base.Part, frozen=True):
    """A change of one subnet; ``ident`` is a CIDR, a name or a UUID. Fields that are None stay unchanged.

    "" or "none" removes ``gateway`` and ``name``; ``pool``, the IPv6 modes, ``subnetpool``, ``ip_version``,
    ``prefixlen`` and ``uuid`` are for ``add`` only. With ``usual``, a new subnet gets the usual gateway, pools and dhcp
    if none are given, and given pools must not contain addresses that hosts cannot have. ``pools`` replaces all pools
    of the subnet. A new ``cidr`` grows, shrinks or moves the subnet: all addresses in use and external reservations
    must be inside, and pools are trimmed (contracts/networks.md#subnets).
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
    ip_version: Literal[4, 6] | None = None
    prefixlen: Annotated[int, Meta(ge=0, le=128)] | None = None
    tags: RangeTags | None = None
    uuid: Uuid | None = None
    usual: bool = False


class PoolMod(base.Part, frozen=True):
    """A change of pools: ``add`` a range or a whole subnet, ``remove`` a range or a pool, ``modify`` a pool's name.

    ``ident`` is the name, or the exact range, of the pool to modify or remove; ``subnet`` is the CIDR, name or UUID of
    the subnet that becomes a pool. Removing a ``range`` trims and splits the pools that overlap it.
    """

    action: Literal["add", "modify", "remove"]
    range: RangeText | RangeSpec = ""
    ident: Annotated[str, Meta(max_length=255)] = ""
    subnet: Annotated[str, Meta(max_length=255)] = ""
    name: Annotated[str, Meta(max_length=255)] | None = None


class NetworkSetParams(Opcode, frozen=True):
    """Change the attributes, subnets, pools and external reservations of a network, all together or not at all.

    The order is: removed reservations, the older form, subnets, pools, added reservations. ``gateway``, ``network6``
    and ``gateway6`` are the older form: they change the first subnet of their IP version, and "none" removes the value.
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
    network_type: WireType = ""
    physical_network: PhysicalNetwork = ""
    segment: SegmentationId | None = None
    segmented: bool | None = None


class NetworkRename(Opcode, frozen=True):
    """Rename a network."""

    DESCRIBES = "network_name"

    network_name: Name
    new_name: Name


class NetworkRemove(Opcode, frozen=True):
    """Remove a network that no instance uses."""

    DESCRIBES = "network_name"

    network_name: Name
    force: bool = False
    disconnect: bool = False


class NetworkConnect(Opcode, frozen=True):
    """Connect a network to a node group."""

    DESCRIBES = "network_name"

    network_name: Name
    group_name: Name
    network_mode: Literal["bridged", "routed"]
    network_link: Annotated[str, Meta(min_length=1, max_length=64)]
    network_vlan: Annotated[str, Meta(max_length=64)] = ""
    conflicts_check: bool = True


class NetworkDisconnect(Opcode, frozen=True):
    """Disconnect a network from a node group whose instances do not use the network."""

    DESCRIBES = "network_name"

    network_name: Name
    group_name: Name

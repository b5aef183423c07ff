"""The opcodes of networks: subnets, pools, reservations, connections."""

from typing import Annotated, Literal

from msgspec import Meta

from gantry.model import base, network
from gantry.model.opcodes.base import (
    AdminState,
    ConflictsCheck,
    Description,
    GroupName,
    Name,
    NewName,
    Opcode,
    Project,
    RangeTags,
    Shared,
    Text,
    Uuid,
    Vlan,
)
from gantry.model.opcodes.segment import PhysicalNetwork, SegmentationId, WireType

Label = Annotated[Text, Meta(description="Name that a client chose; becomes the name if it is valid and unique")]
Cidr = Annotated[str, Meta(max_length=64, description="The subnet, as in 192.0.2.0/24")]
NewOrNoName = Annotated[str, Meta(max_length=255, description="New name; none removes it")]
Action = Annotated[Literal["add", "modify", "remove"], Meta(description="What to do")]
Dhcp = Annotated[bool, Meta(description="Serve the addresses by DHCP; at most one subnet of each address family")]
WholePool = Annotated[bool, Meta(description="Create a pool of the whole subnet")]
Ranges = Annotated[tuple[Annotated[str, Meta(max_length=128)], ...], Meta(max_length=256)]
NameServers = Annotated[
    tuple[Annotated[str, Meta(max_length=64)], ...],
    Meta(max_length=64, description="Addresses of name servers, announced to guests"),
]
HostRoutes = Annotated[tuple[network.HostRoute, ...], Meta(max_length=256, description="Routes, announced to guests")]
Ipv6Mode = Literal["", "slaac", "dhcpv6-stateful", "dhcpv6-stateless"]
AddressMode = Annotated[
    Ipv6Mode, Meta(description="IPv6 address mode of guests: slaac, dhcpv6-stateful, dhcpv6-stateless, or empty")
]
RouterMode = Annotated[
    Ipv6Mode, Meta(description="IPv6 router advertisement mode: the same as ipv6_address_mode, or empty")
]
SubnetPoolId = Annotated[str, Meta(max_length=36, description="UUID of the subnet pool that the CIDR comes from")]
DefaultSubnetPool = Annotated[
    Literal[4, 6],
    Meta(description="IP version of the default subnet pool that the CIDR comes from, if `subnetpool` names none"),
]
IpVersion = Annotated[Literal[4, 6], Meta(description="IP version that the subnet pool must have")]
PrefixLength = Annotated[
    int, Meta(ge=0, le=128, description="Prefix length of the CIDR from the subnet pool; by default the pool's own")
]


class SubnetSpec(base.Part, frozen=True):
    """A subnet to add; ``pool`` creates a pool of the whole subnet (contracts/networks.md#subnets).

    Without ``cidr``, the CIDR is allocated from ``subnetpool``, with ``prefixlen`` or the subnet pool's default length.
    Each range of ``pools`` becomes a pool. ``label`` is a name of any form, which need not be unique: if it cannot
    become the subnet's name, clients can still find the subnet by it.
    """

    cidr: Cidr = ""
    name: Annotated[str, Meta(max_length=255, description="Name; can be empty")] = ""
    gateway: Annotated[str, Meta(max_length=64, description="Gateway; empty for none")] = ""
    dhcp: Dhcp = False
    pool: WholePool = False
    pools: Annotated[Ranges | None, Meta(description="Ranges that each become a pool")] = None
    label: Label | None = None
    description: Description = ""
    dns_nameservers: NameServers = ()
    host_routes: HostRoutes = ()
    ipv6_address_mode: AddressMode = ""
    ipv6_ra_mode: RouterMode = ""
    subnetpool: SubnetPoolId = ""
    default_subnetpool: DefaultSubnetPool | None = None
    ip_version: IpVersion | None = None
    prefixlen: PrefixLength | None = None
    tags: RangeTags = ()
    uuid: Uuid | None = None


class RangeSpec(base.Part, frozen=True):
    """A range by its first address and its size or last address, or both if they agree; a single address with neither.

    The other form is text: ``first-last``, a single address or a CIDR (contracts/networks.md#configuration-objects).
    """

    start: Annotated[str, Meta(max_length=64, description="First address")]
    size: Annotated[int | None, Meta(description="Number of addresses")] = None
    end: Annotated[str, Meta(max_length=64, description="Last address")] | None = None


RangeText = Annotated[str, Meta(max_length=128)]
PoolRange = Annotated[RangeText | RangeSpec, Meta(description="first-last, a single address, a CIDR, or the structure")]
PoolSubnet = Annotated[
    str, Meta(max_length=255, description="Subnet that becomes a pool as a whole: CIDR, name or UUID")
]


class PoolSpec(base.Part, frozen=True):
    """A pool to add: a range inside any subnet of the network, or the whole ``subnet``, by CIDR, name or UUID."""

    range: PoolRange = ""
    subnet: PoolSubnet = ""
    name: Annotated[str, Meta(max_length=255, description="Name, unique in the network; can be empty")] = ""


NetworkName = Annotated[Name, Meta(description="Name of the network")]
Gateway4 = Annotated[str, Meta(description="Gateway of the IPv4 subnet")]
Gateway6 = Annotated[str, Meta(description="Gateway of the IPv6 subnet")]
MacPrefix = Annotated[
    str, Meta(max_length=17, description="First half of the MAC addresses of NICs, instead of the cluster's")
]
Reservations = Annotated[
    tuple[str, ...], Meta(max_length=4096, description="Addresses and ranges to reserve externally")
]
LargeRanges = Annotated[bool, Meta(description="Allow ranges of more than 65,536 addresses")]
Segment = Annotated[
    SegmentationId, Meta(description="Segmentation id; by default the next free id of the project's segment ranges")
]


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

    network_name: NetworkName = ""
    subnets: Annotated[tuple[SubnetSpec, ...], Meta(max_length=256, description="Subnets")] = ()
    pools: Annotated[
        tuple[PoolSpec, ...], Meta(max_length=256, description="Pools, each in the subnet that contains its range")
    ] = ()
    network: Annotated[
        str | None, Meta(description="Add an IPv4 subnet with this CIDR, and one pool of all its addresses")
    ] = None
    gateway: Gateway4 | None = None
    network6: Annotated[
        str | None, Meta(description="Add an IPv6 subnet with this CIDR, and one pool of all its addresses")
    ] = None
    gateway6: Gateway6 | None = None
    mac_prefix: MacPrefix | None = None
    add_reserved_ips: Reservations | None = None
    conflicts_check: ConflictsCheck = True
    force: LargeRanges = False
    tags: RangeTags = ()
    uuid: Uuid | None = None
    label: Label | None = None
    shared: Shared = False
    description: Description = ""
    admin_state_up: AdminState = True
    network_type: WireType = ""
    physical_network: PhysicalNetwork = ""
    segment: Segment | None = None
    segmented: Annotated[bool, Meta(description="Allocate a segment even if no network type is given")] = False
    project: Project = ""
    connect: Annotated[
        bool,
        Meta(description="Connect the network in every node group, by the link of its physical network if it has one"),
    ] = False


class SubnetMod(base.Part, frozen=True):
    """A change of one subnet; ``ident`` is a CIDR, a name or a UUID. Fields that are None stay unchanged.

    "" or "none" removes ``gateway`` and ``name``; ``pool``, the IPv6 modes, ``subnetpool``, ``ip_version``,
    ``prefixlen`` and ``uuid`` are for ``add`` only. With ``usual``, a new subnet gets the usual gateway, pools and dhcp
    if none are given, and given pools must not contain addresses that hosts cannot have. ``pools`` replaces all pools
    of the subnet. A new ``cidr`` grows, shrinks or moves the subnet: all addresses in use and external reservations
    must be inside, and pools are trimmed (contracts/networks.md#subnets).
    """

    action: Action
    ident: Annotated[str, Meta(max_length=255, description="The subnet: CIDR, name or UUID")] = ""
    cidr: Cidr | None = None
    name: NewOrNoName | None = None
    gateway: Annotated[str, Meta(max_length=64, description="Gateway; none removes it")] | None = None
    dhcp: Dhcp | None = None
    pool: WholePool = False
    pools: Annotated[Ranges | None, Meta(description="The complete list of pools, as ranges")] = None
    label: Label | None = None
    description: Description | None = None
    dns_nameservers: NameServers | None = None
    host_routes: HostRoutes | None = None
    ipv6_address_mode: AddressMode | None = None
    ipv6_ra_mode: RouterMode | None = None
    subnetpool: SubnetPoolId | None = None
    default_subnetpool: DefaultSubnetPool | None = None
    ip_version: IpVersion | None = None
    prefixlen: PrefixLength | None = None
    tags: RangeTags | None = None
    uuid: Uuid | None = None
    usual: Annotated[
        bool,
        Meta(
            description="Set what the request leaves out: the first address as gateway, all other addresses as pools, "
            "and DHCP; pools in the request exclude the gateway and the first and last address"
        ),
    ] = False


class PoolMod(base.Part, frozen=True):
    """A change of pools: ``add`` a range or a whole subnet, ``remove`` a range or a pool, ``modify`` a pool's name.

    ``ident`` is the name, or the exact range, of the pool to modify or remove; ``subnet`` is the CIDR, name or UUID of
    the subnet that becomes a pool. Removing a ``range`` trims and splits the pools that overlap it.
    """

    action: Action
    range: PoolRange = ""
    ident: Annotated[str, Meta(max_length=255, description="The pool: name or range")] = ""
    subnet: PoolSubnet = ""
    name: NewOrNoName | None = None


class NetworkSetParams(Opcode, frozen=True):
    """Change the attributes, subnets, pools and external reservations of a network, all together or not at all.

    The order is: removed reservations, the older form, subnets, pools, added reservations. ``gateway``, ``network6``
    and ``gateway6`` are the older form: they change the first subnet of their IP version, and "none" removes the value.
    """

    DESCRIBES = "network_name"

    network_name: NetworkName
    subnets: Annotated[
        tuple[SubnetMod, ...], Meta(max_length=256, description="Changes of subnets, applied in order")
    ] = ()
    pools: Annotated[tuple[PoolMod, ...], Meta(max_length=256, description="Changes of pools, applied in order")] = ()
    add_reserved_ips: Reservations | None = None
    remove_reserved_ips: (
        Annotated[
            tuple[str, ...],
            Meta(max_length=4096, description="Remove external reservations of these addresses and ranges"),
        ]
        | None
    ) = None
    gateway: Gateway4 | None = None
    network6: Annotated[
        str | None, Meta(description="CIDR of the first IPv6 subnet, which is added if there is none")
    ] = None
    gateway6: Gateway6 | None = None
    mac_prefix: MacPrefix | None = None
    conflicts_check: ConflictsCheck = True
    force: LargeRanges = False
    label: Label | None = None
    shared: Shared | None = None
    description: Description | None = None
    admin_state_up: AdminState | None = None
    tags: RangeTags | None = None
    network_type: WireType = ""
    physical_network: PhysicalNetwork = ""
    segment: Segment | None = None
    segmented: Annotated[bool | None, Meta(description="Allocate a segment, or release the network's segment")] = None


class NetworkRename(Opcode, frozen=True):
    """Rename a network."""

    DESCRIBES = "network_name"

    network_name: NetworkName
    new_name: NewName


class NetworkRemove(Opcode, frozen=True):
    """Remove a network that no instance uses."""

    DESCRIBES = "network_name"

    network_name: NetworkName
    force: Annotated[bool, Meta(description="Accepted for older clients; a connected network is never removed")] = False
    disconnect: Annotated[
        bool,
        Meta(description="Remove the connections that the network got when it was created"),
    ] = False


class NetworkConnect(Opcode, frozen=True):
    """Connect a network to a node group."""

    DESCRIBES = "network_name"

    network_name: NetworkName
    group_name: GroupName
    network_mode: Annotated[Literal["bridged", "routed"], Meta(description="NIC mode: bridged or routed")]
    network_link: Annotated[
        str, Meta(min_length=1, max_length=64, description="Bridge, or routing table of routed NICs")
    ]
    network_vlan: Vlan = ""
    conflicts_check: ConflictsCheck = True


class NetworkDisconnect(Opcode, frozen=True):
    """Disconnect a network from a node group whose instances do not use the network."""

    DESCRIBES = "network_name"

    network_name: NetworkName
    group_name: GroupName

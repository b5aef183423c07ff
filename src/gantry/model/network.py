"""Network, subnet, pool, port, segment range and subnet pool.

Ranges are text, ``first-last`` or a single address, in the canonical spelling of the address family; ``gantry.address``
calculates with them. A network does not store which addresses are in use: the NICs of instances and the ports do, and
the state has an index of them. Each quarantined address is a record (``Quarantine``). A ``project`` is the UUID of the
object's project in the front ends, empty for none. The names of ports, segment ranges and subnet pools need not be
unique, and may be empty.

See contracts/networks.md#configuration-objects.
"""

from typing import Annotated, NamedTuple

from msgspec import Meta

from gantry.model import base


class Allocation(NamedTuple):
    """An address with its owner: UUID of the network (empty for none), canonical text, UUID of the NIC or port."""

    network: str
    ip: str
    nic: str


class Pool(base.Part, frozen=True):
    """A range inside a subnet from which addresses are allocated; names are unique in a network."""

    range: str
    name: str = ""


class HostRoute(base.Part, frozen=True):
    """A route for guests: ``destination`` is reached via ``nexthop``."""

    destination: Annotated[str, Meta(description="Destination CIDR")]
    nexthop: Annotated[str, Meta(description="Address of the next hop")]

    def __str__(self) -> str:
        return f"{self.destination} via {self.nexthop}"


class Subnet(base.Part, frozen=True, cache_hash=True):
    """The layer 3 part of a network: only ``cidr`` is required; ``external`` are the external reservations.

    ``label`` is the name that a client requested if it could not become the subnet's name, otherwise None; clients can
    find the subnet by it. ``ipv6_address_mode`` and ``ipv6_ra_mode`` are "slaac", "dhcpv6-stateful", "dhcpv6-stateless"
    or empty; ``subnetpool`` is the UUID of the subnet pool from which the CIDR was allocated.
    """

    uuid: str
    cidr: str
    name: str = ""
    gateway: str = ""
    dhcp: bool = False
    pools: tuple[Pool, ...] = ()
    external: tuple[str, ...] = ()
    label: str | None = None
    description: str = ""
    dns_nameservers: tuple[str, ...] = ()
    host_routes: tuple[HostRoute, ...] = ()
    ipv6_address_mode: str = ""
    ipv6_ra_mode: str = ""
    subnetpool: str = ""
    tags: tuple[str, ...] = ()
    serial_no: int = 1
    ctime: float = 0.0
    mtime: float = 0.0


class Quarantine(base.Part, frozen=True):
    """A released address that ``until`` a time (seconds since the epoch) only its last owner may get.

    ``instance`` is the UUID of that owner, ``name`` its name, and ``noun`` its kind.
    """

    network: str
    ip: str
    until: float
    instance: str
    name: str
    noun: str = "instance"

    @property
    def uuid(self) -> str:
        """Return its key in the collection: an address of a network has at most one quarantine."""
        return f"{self.network}/{self.ip}"


FLAT, LOCAL = "flat", "local"
"""The network types without segmentation ids."""

MTU = 1500
"""The MTU of guests outside tunnels, in bytes."""

TUNNEL_MTU = 1450
"""The MTU of guests in a tunnelled segment, in bytes: 1500 without the headers of VXLAN over IPv4. Nodes that offer a
smaller MTU are refused, so that a guest has the same MTU after a migration."""


class Segment(base.Part, frozen=True):
    """The segment of a network on the wire: "vlan" on a physical network, "vxlan", "gre" or "geneve", with its id."""

    network_type: str
    segmentation_id: int
    physical_network: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """Return its key in the state: no two networks may have the same segment."""
        return self.network_type, self.physical_network, self.segmentation_id


class Unsegmented(base.Part, frozen=True):
    """The wire of a network without a segmentation id.

    A "flat" network has the untagged frames of its physical network, which no other network may have. A "local" network
    does not leave its node, and has no physical network.
    """

    network_type: str
    physical_network: str = ""


class Network(base.Entity, frozen=True):
    """A layer 2 network with any number of subnets that do not overlap, and its own MAC prefix or the cluster's.

    It has a ``segment``, or is declared as ``unsegmented``, or neither: then only its connections say what it is.
    A ``shared`` network is for every project. ``label`` is the name that a client requested if it could not become the
    network's name, because names of networks are unique; otherwise None.
    """

    mac_prefix: str = ""
    subnets: tuple[Subnet, ...] = ()
    segment: Segment | None = None
    unsegmented: Unsegmented | None = None
    project: str = ""
    shared: bool = False
    label: str | None = None
    description: str = ""
    admin_state_up: bool = True

    @property
    def wire(self) -> Segment | Unsegmented | None:
        """Return its segment, or what it is without a segment."""
        return self.segment or self.unsegmented

    @property
    def wire_key(self) -> tuple[str, str, int] | None:
        """Return the key that no other network may have, the id of a flat network being 0; None if there is none."""
        if self.segment:
            return self.segment.key
        flat = self.unsegmented if self.unsegmented and self.unsegmented.network_type == FLAT else None
        return (FLAT, flat.physical_network, 0) if flat else None

    @property
    def mtu(self) -> int:
        """Return the MTU of its guests, in bytes."""
        return TUNNEL_MTU if self.segment and self.segment.network_type != "vlan" else MTU


class SegmentRange(base.Entity, frozen=True):
    """Segmentation ids for the networks of a project, or of every project if ``shared``.

    A ``default`` range is from the configuration file; clients cannot change it.
    """

    network_type: str
    minimum: int
    maximum: int
    physical_network: str = ""
    shared: bool = True
    project: str = ""
    default: bool = False
    description: str = ""


ROUTERS = "network:router_"
"""The prefix of a router port's ``device_owner``: a router does not configure addresses itself."""

CLAIMS = "kubernetes:"
"""The prefix of a claim port's ``device_owner``: it gets exactly the requested address, never a gateway."""


class Port(base.Entity, frozen=True):
    """An attachment to a network (a UUID) for something other than an instance: a MAC address and addresses.

    ``device_id`` and ``device_owner`` are the client's own description of the purpose.
    """

    network: str
    mac: str
    ip: tuple[str, ...] = ()
    device_id: str = ""
    device_owner: str = ""
    project: str = ""
    admin_state_up: bool = True
    description: str = ""

    @property
    def is_router(self) -> bool:
        """Return whether it is the interface of a router."""
        return self.device_owner.startswith(ROUTERS)

    @property
    def configures_itself(self) -> bool:
        """Return whether it makes its own addresses in subnets whose guests do that."""
        return not self.device_owner.startswith((ROUTERS, CLAIMS))

    def allocations(self) -> list[Allocation]:
        """Return the addresses that no other owner may have."""
        return [Allocation(self.network, ip, self.uuid) for ip in self.ip]


class SubnetPool(base.Entity, frozen=True):
    """Prefixes of one IP version from which CIDRs of subnets are allocated, for every project if ``shared``.

    ``default_quota`` limits the use by one project, in /32 of IPv4 or /64 of IPv6; 0 is no limit.
    """

    prefixes: tuple[str, ...]
    default_prefixlen: int
    min_prefixlen: int
    max_prefixlen: int
    shared: bool = False
    project: str = ""
    is_default: bool = False
    default_quota: int = 0
    description: str = ""

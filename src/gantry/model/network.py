"""Network, subnet, pool, port, and what segments and subnets are cut from.

Ranges are written as text, ``first-last`` or one address, in the canonical spelling of the address family; the
arithmetic on them is ``gantry.address``. Which addresses are in use is not stored here: the NICs of the instances and
the ports say so, and the state keeps an index of them; which ones rest after their release (``Rest``) is a record each.
A ``project`` is whose an object is, by the UUID that the doors' users have it by; empty for nobody's. The names of
ports, segment ranges and subnet pools need not be unique, and may be empty.

See contracts/networks.md#configuration-objects.
"""

from collections.abc import Iterator
from typing import NamedTuple

from gantry.model import base


class Place(NamedTuple):
    """Where an address is in use: UUID of the network (empty for none), canonical text, UUID of the NIC or port."""

    network: str
    ip: str
    nic: str


class Pool(base.Part, frozen=True):
    """A range inside a subnet from which addresses are handed out; names are unique in a network."""

    range: str
    name: str = ""


class HostRoute(base.Part, frozen=True):
    """A way that guests are told of: what lies behind ``nexthop``."""

    destination: str
    nexthop: str

    def __str__(self) -> str:
        return f"{self.destination} via {self.nexthop}"


class Subnet(base.Part, frozen=True):
    """The layer 3 half of a network: only ``cidr`` is needed; ``external`` are the administrator's reservations.

    ``label`` is what clients were promised to find it by where that could not be its name, None where it is the name;
    ``ipv6_address_mode`` and ``ipv6_ra_mode`` are "slaac", "dhcpv6-stateful", "dhcpv6-stateless" or empty;
    ``subnetpool`` is the UUID of the pool that the CIDR was cut from.
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


class Rest(base.Part, frozen=True):
    """A free address that nobody gets ``until`` a time, in seconds, but the instance (a UUID) that had it.

    ``noun`` is what that one is where it is no instance.
    """

    network: str
    ip: str
    until: float
    instance: str
    name: str
    noun: str = "instance"

    @property
    def uuid(self) -> str:
        """Return its key in the collection, which is the place: an address rests once."""
        return f"{self.network}/{self.ip}"


MTU = 1500
"""How long packets are that guests send, in bytes, where no tunnel takes a part of them."""

TUNNEL_MTU = 1450
"""What a guest in a tunnelled segment may send: what VXLAN over IPv4 leaves of 1500 bytes. A node that offers its
guests less is refused, so one that migrates finds the same everywhere."""


class Segment(base.Part, frozen=True):
    """What a network is told apart by on the wire: "vlan" on a physical network, "vxlan", "gre" or "geneve"."""

    network_type: str
    segmentation_id: int
    physical_network: str = ""

    @property
    def place(self) -> tuple[str, str, int]:
        """Return its key in the state: no two networks may have one."""
        return self.network_type, self.physical_network, self.segmentation_id


class Network(base.Entity, frozen=True):
    """A cable with a name: any number of subnets that do not overlap, a MAC prefix of its own or the cluster's.

    ``shared`` ones are for every project. ``label`` is what clients were promised to find it by where that could not
    be the name, because names of networks are unique; None where it is the name.
    """

    mac_prefix: str = ""
    subnets: tuple[Subnet, ...] = ()
    segment: Segment | None = None
    project: str = ""
    shared: bool = False
    label: str | None = None
    description: str = ""
    admin_state_up: bool = True

    @property
    def mtu(self) -> int:
        """Return how long the packets of its guests may be, in bytes."""
        return TUNNEL_MTU if self.segment and self.segment.network_type != "vlan" else MTU


class SegmentRange(base.Entity, frozen=True):
    """Segmentation ids from which the networks of a project get theirs, of every project if ``shared``.

    A ``default`` one is from the configuration file and is not changed through the doors.
    """

    network_type: str
    minimum: int
    maximum: int
    physical_network: str = ""
    shared: bool = True
    project: str = ""
    default: bool = False
    description: str = ""


class Port(base.Entity, frozen=True):
    """A place in a network (a UUID) with a MAC address and any number of addresses, held for who is no instance.

    ``device_id`` and ``device_owner`` say what for, in the words of who made it.
    """

    network: str
    mac: str
    ip: tuple[str, ...] = ()
    device_id: str = ""
    device_owner: str = ""
    project: str = ""
    admin_state_up: bool = True
    description: str = ""

    def places(self) -> Iterator[Place]:
        """Yield every address that nobody else may have."""
        return (Place(self.network, ip, self.uuid) for ip in self.ip)


class SubnetPool(base.Entity, frozen=True):
    """Prefixes of one family that the CIDRs of subnets are cut from, of every project's if ``shared``.

    ``default_quota`` is how much one project may have of it, in /32 of IPv4 or /64 of IPv6; 0 is no limit.
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

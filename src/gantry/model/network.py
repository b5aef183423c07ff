"""Network, subnet and pool (networks seed "Configuration changes").

Ranges are written as text, ``first-last`` or one address, in the canonical spelling of the address family; the
arithmetic on them is ``gantry.address``. Which addresses are in use is not stored here: the NICs of the instances
say so, and the state keeps an index of them; which ones rest after their release (``Rest``) is a record each.
"""

from gantry.model import base


class Pool(base.Part, frozen=True):
    """A range inside a subnet from which addresses are handed out; names are unique in a network."""

    range: str
    name: str = ""


class Subnet(base.Part, frozen=True):
    """The layer 3 half of a network: only ``cidr`` is needed; ``external`` are the administrator's reservations."""

    uuid: str
    cidr: str
    name: str = ""
    gateway: str = ""
    dhcp: bool = False
    pools: tuple[Pool, ...] = ()
    external: tuple[str, ...] = ()


class Rest(base.Part, frozen=True):
    """A free address that nobody gets ``until`` a time, in seconds, but the instance (a UUID) that had it."""

    network: str
    ip: str
    until: float
    instance: str
    name: str

    @property
    def uuid(self) -> str:
        """Return its key in the collection, which is the place: an address rests once."""
        return f"{self.network}/{self.ip}"


class Network(base.Entity, frozen=True):
    """A cable with a name: any number of subnets that do not overlap, a MAC prefix of its own or the cluster's."""

    mac_prefix: str = ""
    subnets: tuple[Subnet, ...] = ()

"""Network, subnet and pool (networks seed "Configuration changes").

Ranges are written as text, ``first-last`` or one address, in the canonical spelling of the address family; the
arithmetic on them is ``gantry.address``. Which addresses are in use is not stored here: the NICs of the instances
say so, and the state keeps an index of them.
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


class Network(base.Entity, frozen=True):
    """A cable with a name: any number of subnets that do not overlap, a MAC prefix of its own or the cluster's."""

    mac_prefix: str = ""
    subnets: tuple[Subnet, ...] = ()

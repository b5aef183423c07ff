"""What a subnet tells its guests besides their addresses: name servers, routes, and how they make addresses in IPv6.

Called by ``subnets`` for every subnet that is made or changed, and by who picks addresses for ports. Pure.
"""

import ipaddress
from collections.abc import Iterable

from msgspec import structs

from gantry import errors
from gantry.address import ranges
from gantry.model import network, opcodes

_TOLD = ("description", "dns_nameservers", "host_routes", "ipv6_address_mode", "ipv6_ra_mode", "tags")
SHOWN = ("dns_nameservers", "host_routes")
"""What of it is shown where a plan tells what changes."""

_AUTOMATIC = ("slaac", "dhcpv6-stateless")
_SLAAC_PREFIX = 64


def is_automatic(subnet: network.Subnet) -> bool:
    """Tell whether the guests of a subnet make their addresses themselves, of its prefix and their MAC addresses."""
    return subnet.ipv6_address_mode in _AUTOMATIC or subnet.ipv6_ra_mode in _AUTOMATIC


def told(subnet: network.Subnet, given: opcodes.SubnetSpec | opcodes.SubnetMod) -> network.Subnet:
    """Return the subnet with what is given; what is None stays. Raises InvalidError."""
    changes = {name: value for name in _TOLD if (value := getattr(given, name)) is not None}
    new = structs.replace(subnet, **changes)
    if not changes.keys() - {"description", "tags"}:
        return new
    _check_modes(new)
    return structs.replace(
        new,
        dns_nameservers=tuple(str(ranges.parse_address(text)) for text in new.dns_nameservers),
        host_routes=tuple(_routes(new.host_routes)),
    )


def _check_modes(subnet: network.Subnet) -> None:
    modes = {subnet.ipv6_address_mode, subnet.ipv6_ra_mode} - {""}
    cidr = ranges.parse_cidr(subnet.cidr)
    if modes and cidr.family is not ranges.Family.IPV6:
        raise errors.InvalidError(f"subnet {cidr} is of IPv4, which has no IPv6 modes")
    if len(modes) > 1:
        raise errors.InvalidError(
            f"ipv6_ra_mode {subnet.ipv6_ra_mode} and ipv6_address_mode {subnet.ipv6_address_mode} do not go together",
            hint="give one of them, or both the same",
        )
    if is_automatic(subnet) and cidr.prefix != _SLAAC_PREFIX:
        raise errors.InvalidError(
            f"guests of subnet {cidr} cannot make their addresses", hint=f"with {modes.pop()} it has to be a /64"
        )


def _routes(routes: Iterable[network.HostRoute]) -> Iterable[network.HostRoute]:
    for route in routes:
        hop = ranges.parse_address(route.nexthop)
        try:
            destination = ipaddress.ip_network(route.destination)
        except ValueError:
            raise errors.InvalidError(f"'{route.destination}' is no destination of a route") from None
        if destination.version != hop.family:
            raise errors.InvalidError(f"route to {destination} leads to {hop}, which is of another IP version")
        yield network.HostRoute(destination=str(destination), nexthop=str(hop))

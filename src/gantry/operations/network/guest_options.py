"""Options that a subnet passes to its guests besides addresses: name servers, routes, IPv6 address modes.

Called by ``subnets`` for every new or changed subnet, and by the allocation of port addresses. Pure.
"""

import ipaddress
from collections.abc import Iterable

from msgspec import structs

from gantry import errors
from gantry.address import ranges
from gantry.model import network, opcodes

_FIELDS = ("description", "dns_nameservers", "host_routes", "ipv6_address_mode", "ipv6_ra_mode", "tags")
LISTED_FIELDS = ("dns_nameservers", "host_routes")
"""The options whose changes a plan lists."""

_AUTOMATIC = ("slaac", "dhcpv6-stateless")
_SLAAC_PREFIX = 64


def is_automatic(subnet: network.Subnet) -> bool:
    """Return whether guests make their own addresses, from the subnet's prefix and their MAC addresses."""
    return subnet.ipv6_address_mode in _AUTOMATIC or subnet.ipv6_ra_mode in _AUTOMATIC


def with_options(subnet: network.Subnet, request: opcodes.SubnetSpec | opcodes.SubnetMod) -> network.Subnet:
    """Return the subnet with the requested options; None leaves an option unchanged. Raises InvalidError."""
    changes = {name: value for name in _FIELDS if (value := getattr(request, name)) is not None}
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
        raise errors.InvalidError(f"subnet {cidr} is IPv4, so it cannot have IPv6 modes")
    if len(modes) > 1:
        raise errors.InvalidError(
            f"ipv6_ra_mode {subnet.ipv6_ra_mode} and ipv6_address_mode {subnet.ipv6_address_mode} conflict",
            hint="specify one of them, or both with the same value",
        )
    if is_automatic(subnet) and cidr.prefix != _SLAAC_PREFIX:
        raise errors.InvalidError(
            f"guests of subnet {cidr} cannot make their addresses", hint=f"{modes.pop()} requires a /64"
        )


def _routes(routes: Iterable[network.HostRoute]) -> Iterable[network.HostRoute]:
    for route in routes:
        hop = ranges.parse_address(route.nexthop)
        try:
            destination = ipaddress.ip_network(route.destination)
        except ValueError:
            raise errors.InvalidError(f"'{route.destination}' is not a valid destination of a route") from None
        if destination.version != hop.family:
            raise errors.InvalidError(f"route to {destination} has next hop {hop}, which has another IP version")
        yield network.HostRoute(destination=str(destination), nexthop=str(hop))

"""Defaults of a subnet that is created with little more than a CIDR, as Neutron does.

Called by ``subnets`` for requests with ``usual`` (contracts/neutron-api.md#subnets): the gateway is the first address,
in IPv6 the subnet-router anycast address; other addresses are one or two pools; dhcp is on if no other subnet of the
IP version has it. Requested pools must not contain the gateway or an end of the subnet. Pure.
"""

from msgspec import structs

from gantry import errors
from gantry.address import pools, ranges
from gantry.model import network, opcodes


def completed(net: network.Network, mod: opcodes.SubnetMod) -> opcodes.SubnetMod:
    """Return a subnet to add, completed with defaults; its CIDR is known."""
    if not mod.usual or not mod.cidr:
        return mod
    cidr = ranges.parse_cidr(mod.cidr)
    gateway = _first(cidr) if mod.gateway is None else mod.gateway
    number = ranges.parse_address(gateway).value if gateway else None
    remaining = ranges.difference([cidr.range], pools.never_handed_out(cidr, gateway=number))
    same_family = (subnet for subnet in net.subnets if ranges.parse_cidr(subnet.cidr).family is cidr.family)
    return structs.replace(
        mod,
        gateway=gateway,
        pools=tuple(ranges.format_range(cidr.family, run) for run in remaining) if mod.pools is None else mod.pools,
        dhcp=not any(subnet.dhcp for subnet in same_family) if mod.dhcp is None else mod.dhcp,
    )


def check(subnet: network.Subnet) -> None:
    """Refuse a pool with an address that no host can have; raises InvalidError."""
    cidr = ranges.parse_cidr(subnet.cidr)
    gateway = ranges.parse_address(subnet.gateway).value if subnet.gateway else None
    for pool in subnet.pools:
        _, run = ranges.parse_range(pool.range)
        if any(run.overlaps(end) for end in pools.never_handed_out(cidr, gateway=None)):
            raise errors.InvalidError(f"pool {pool.range} reaches an end of its subnet {cidr}, which no host can have")
        if gateway is not None and gateway in run:
            raise errors.InvalidError(f"pool {pool.range} has the gateway {subnet.gateway}", hint="exclude the gateway")


def _first(cidr: ranges.Cidr) -> str:
    """Return the default gateway of a subnet; empty for a single address."""
    if cidr.range.size == 1:
        return ""
    above = 1 if cidr.family is ranges.Family.IPV4 and cidr.prefix < cidr.family.bits - 1 else 0
    return ranges.format_address(cidr.family, cidr.range.first + above)

"""What a subnet is given where its maker says no more than a CIDR, as network services elsewhere do it.

Called by ``subnets`` for those who ask for it by ``usual`` (contracts/neutron-api.md#subnets): the first address is
the gateway, in IPv6 the one that all routers have; all the others are one or two pools; there is dhcp if no other
subnet of the IP version has it. Pools that are given have neither the gateway nor an end of the subnet. Pure.
"""

from msgspec import structs

from gantry import errors
from gantry.address import pools, ranges
from gantry.model import network, opcodes


def completed(net: network.Network, mod: opcodes.SubnetMod) -> opcodes.SubnetMod:
    """Return a subnet to add with what was left out; its CIDR is known."""
    if not mod.usual or not mod.cidr:
        return mod
    cidr = ranges.parse_cidr(mod.cidr)
    gateway = _first(cidr) if mod.gateway is None else mod.gateway
    number = ranges.parse_address(gateway).value if gateway else None
    left = ranges.difference([cidr.range], pools.never_handed_out(cidr, gateway=number))
    others = (one for one in net.subnets if ranges.parse_cidr(one.cidr).family is cidr.family)
    return structs.replace(
        mod,
        gateway=gateway,
        pools=tuple(ranges.format_range(cidr.family, run) for run in left) if mod.pools is None else mod.pools,
        dhcp=not any(one.dhcp for one in others) if mod.dhcp is None else mod.dhcp,
    )


def check(subnet: network.Subnet) -> None:
    """Refuse a pool that has an address which no host gets; InvalidError."""
    cidr = ranges.parse_cidr(subnet.cidr)
    gateway = ranges.parse_address(subnet.gateway).value if subnet.gateway else None
    for pool in subnet.pools:
        _, run = ranges.parse_range(pool.range)
        if any(run.overlaps(end) for end in pools.never_handed_out(cidr, gateway=None)):
            raise errors.InvalidError(f"pool {pool.range} reaches an end of its subnet {cidr}, which no host can have")
        if gateway is not None and gateway in run:
            raise errors.InvalidError(f"pool {pool.range} has the gateway {subnet.gateway}", hint="leave it out")


def _first(cidr: ranges.Cidr) -> str:
    """Return the gateway of a subnet; none in one of a single address."""
    if cidr.range.size == 1:
        return ""
    above = 1 if cidr.family is ranges.Family.IPV4 and cidr.prefix < cidr.family.bits - 1 else 0
    return ranges.format_address(cidr.family, cidr.range.first + above)

"""Which addresses a port gets, by what is asked for and what the subnets of its network are.

A port that asks for nothing gets one address of each IP version, from the first subnet with room. From each subnet
whose guests make their own it gets what its guest will make of its MAC address, whatever else is asked for, unless that
is to have no address at all. Called by the units of ports; pure but for the picks of its plan.

See contracts/neutron-api.md#ports.
"""

from collections.abc import Iterator, Sequence

from gantry import errors
from gantry.address import automatic, ranges
from gantry.ipam import driver
from gantry.model import network, opcodes
from gantry.operations.network import guest_options, subnets

ROUTERS = "network:router_"
"""What the ``device_owner`` of a router's port begins with: a router makes no addresses itself."""

CLAIMS = "kubernetes:"
"""What that of a port begins with that stands for a claim: it is what was asked for and no more, never a gateway."""

Choice = Sequence[driver.SubnetAddress | driver.SpecificAddress]
"""One address of a port: the requests that are tried in turn while there is no room."""


class Picker:
    """Picks addresses in one network for the ports of one plan."""

    def __init__(self, net: network.Network, allocations: driver.Allocations) -> None:
        self._net = net
        self._allocations = allocations

    def pick(
        self, asked: Sequence[opcodes.FixedSpec] | None, *, mac: str, owner: str, held: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Return the addresses of a port whose device owner is ``owner``; None asks for what a port gets by itself.

        Of those ``held`` the ones asked for stay, and one of a subnet of which any is asked for; others are given back.
        Raises InvalidError, NotFoundError, NotUniqueError, WrongStateError, NoRoomError, BusyError.
        """
        makes = not owner.startswith((ROUTERS, CLAIMS))
        is_claim = owner.startswith(CLAIMS)
        wanted = (
            self._by_itself() if asked is None else [self._choice(one, makes, gateway=not is_claim) for one in asked]
        )
        if makes and asked != ():
            wanted += [[_specific(address)] for address in self._made(mac)]
        wanted = [choice for choice in wanted if choice]
        # Those that are named go first, so that no pool picks one of them.
        order = sorted(range(len(wanted)), key=lambda place: isinstance(wanted[place][0], driver.SubnetAddress))
        left = list(held)
        found = {place: self._kept(wanted[place], left) for place in order}
        for ip in left:
            self._allocations.release(self._net, ip)
        for place in order:
            found[place] = found[place] or self._first(wanted[place])
        return tuple(found[place] for place in range(len(wanted)))

    def again(self, ips: Sequence[str]) -> list[opcodes.FixedSpec]:
        """Return what asks for addresses that a port has; for what its guest made, for whatever that makes now."""
        homes = [(ip, self._containing(ranges.parse_address(ip))) for ip in ips]
        return [
            opcodes.FixedSpec(subnet=home.uuid, ip="" if guest_options.is_automatic(home) else ip) for ip, home in homes
        ]

    def _by_itself(self) -> list[Choice]:
        told = [one for one in self._net.subnets if one.pools and not guest_options.is_automatic(one)]
        of_family = [[one for one in told if _cidr(one).family is family] for family in ranges.Family]
        return [[driver.SubnetAddress(one.uuid) for one in some] for some in of_family]

    def _made(self, mac: str) -> Iterator[ranges.Address]:
        return (automatic.address(_cidr(one), mac) for one in self._net.subnets if guest_options.is_automatic(one))

    def _choice(self, one: opcodes.FixedSpec, makes: bool, *, gateway: bool) -> Choice:
        """Return what one thing asked for is; nothing where the port's guest makes the address itself."""
        address = ranges.parse_address(one.ip) if one.ip else None
        home = subnets.find(self._net, one.subnet) if one.subnet else self._containing(address)
        if guest_options.is_automatic(home) and makes:
            if address is None:
                return []
            raise errors.InvalidError(
                f"address {address} cannot be asked for: guests of subnet {home.uuid} ({home.cidr}) make their own"
            )
        if address is None:
            return [driver.SubnetAddress(home.uuid)]
        if not _has(home, address):
            raise errors.InvalidError(f"address {address} is not in subnet {home.uuid} ({home.cidr})")
        return [_specific(address, gateway=gateway)]

    def _containing(self, address: ranges.Address | None) -> network.Subnet:
        if address is None:
            raise errors.InvalidError("an address that is asked for needs a subnet, an address or both")
        for subnet in self._net.subnets:
            if _has(subnet, address):
                return subnet
        known = ", ".join(subnet.cidr for subnet in self._net.subnets) or "none"
        raise errors.InvalidError(f"address {address} is outside every subnet of network {self._net.name} ({known})")

    def _kept(self, choice: Choice, left: list[str]) -> str:
        """Take what fits out of the addresses that a port has; empty if none does."""
        for request in choice:
            for ip in left:
                if self._fits(request, ranges.parse_address(ip)):
                    left.remove(ip)
                    return ip
        return ""

    def _fits(self, request: driver.SubnetAddress | driver.SpecificAddress, address: ranges.Address) -> bool:
        if isinstance(request, driver.SpecificAddress):
            return request.address == address
        return any(one.uuid == request.subnet and _has(one, address) for one in self._net.subnets)

    def _first(self, choice: Choice) -> str:
        for request in choice[:-1]:
            try:
                return self._allocations.allocate(self._net, request)
            except errors.NoRoomError:
                continue
        return self._allocations.allocate(self._net, choice[-1])


def _specific(address: ranges.Address, *, gateway: bool = True) -> driver.SpecificAddress:
    return driver.SpecificAddress(address, gateway=gateway)


def _cidr(subnet: network.Subnet) -> ranges.Cidr:
    return ranges.known_cidr(subnet.cidr)


def _has(subnet: network.Subnet, address: ranges.Address) -> bool:
    cidr = _cidr(subnet)
    return cidr.family is address.family and address.value in cidr.range

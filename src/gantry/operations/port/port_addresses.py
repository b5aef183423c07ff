"""The addresses of a port, by the request and the subnets of its network.

A port without a request gets one address of each IP version, from the first subnet with a free one. From each subnet
whose guests configure themselves (SLAAC) it also gets the address that its guest derives from its MAC address, unless
the request is for no address at all. Called by the units of ports; pure except for the allocations of its plan.

See contracts/neutron-api.md#ports.
"""

from collections.abc import Iterator, Sequence

from gantry import errors
from gantry.address import automatic, ranges
from gantry.ipam import driver
from gantry.model import network, opcodes
from gantry.operations.network import guest_options, subnets

Choice = Sequence[driver.SubnetAddress | driver.SpecificAddress]
"""One address of a port: requests that are tried in order until one finds a free address."""


class Picker:
    """Allocates addresses in one network for the ports of one plan."""

    def __init__(self, net: network.Network, allocations: driver.Allocations) -> None:
        self._net = net
        self._allocations = allocations

    def pick(
        self, requested: Sequence[opcodes.FixedSpec] | None, *, mac: str, owner: str, current: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Return the addresses of a port whose device owner is ``owner``; None requests the default addresses.

        Of the ``current`` addresses, those requested stay, and one for each request of any address of its subnet;
        the others are released.
        Raises InvalidError, NotFoundError, NotUniqueError, WrongStateError, NoRoomError, BusyError.
        """
        configures_itself = not owner.startswith((network.ROUTERS, network.CLAIMS))
        is_claim = owner.startswith(network.CLAIMS)
        choices = (
            self._defaults()
            if requested is None
            else [self._choice(spec, configures_itself, gateway=not is_claim) for spec in requested]
        )
        if configures_itself and requested != ():
            choices += [[_specific(address)] for address in self._automatic(mac)]
        choices = [choice for choice in choices if choice]
        # Specific addresses go first, so that no pool allocates one of them.
        order = sorted(range(len(choices)), key=lambda index: isinstance(choices[index][0], driver.SubnetAddress))
        remaining = list(current)
        addresses = {index: self._kept(choices[index], remaining) for index in order}
        for ip in remaining:
            self._allocations.release(self._net, ip)
        for index in order:
            addresses[index] = addresses[index] or self._first(choices[index])
        return tuple(addresses[index] for index in range(len(choices)))

    def specs_of(self, ips: Sequence[str]) -> list[opcodes.FixedSpec]:
        """Return requests for a port's present addresses; a self-configured address is requested without its value."""
        subnet_of = [(ip, self._containing(ranges.parse_address(ip))) for ip in ips]
        return [
            opcodes.FixedSpec(subnet=subnet.uuid, ip="" if guest_options.is_automatic(subnet) else ip)
            for ip, subnet in subnet_of
        ]

    def _defaults(self) -> list[Choice]:
        pooled = [subnet for subnet in self._net.subnets if subnet.pools and not guest_options.is_automatic(subnet)]
        by_family = [[subnet for subnet in pooled if _cidr(subnet).family is family] for family in ranges.Family]
        return [[driver.SubnetAddress(subnet.uuid) for subnet in family_subnets] for family_subnets in by_family]

    def _automatic(self, mac: str) -> Iterator[ranges.Address]:
        automatic_subnets = (subnet for subnet in self._net.subnets if guest_options.is_automatic(subnet))
        return (automatic.address(_cidr(subnet), mac) for subnet in automatic_subnets)

    def _choice(self, spec: opcodes.FixedSpec, configures_itself: bool, *, gateway: bool) -> Choice:
        """Return the choice for one request; empty if the port's guest configures that address itself."""
        address = ranges.parse_address(spec.ip) if spec.ip else None
        subnet = subnets.find(self._net, spec.subnet) if spec.subnet else self._containing(address)
        if guest_options.is_automatic(subnet) and configures_itself:
            if address is None:
                return []
            raise errors.InvalidError(
                f"address {address} cannot be requested: guests of subnet {subnet.uuid} ({subnet.cidr}) make their own"
            )
        if address is None:
            return [driver.SubnetAddress(subnet.uuid)]
        if not _has(subnet, address):
            raise errors.InvalidError(f"address {address} is not in subnet {subnet.uuid} ({subnet.cidr})")
        return [_specific(address, gateway=gateway)]

    def _containing(self, address: ranges.Address | None) -> network.Subnet:
        if address is None:
            raise errors.InvalidError("a requested address needs a subnet, an address or both")
        for subnet in self._net.subnets:
            if _has(subnet, address):
                return subnet
        known = ", ".join(subnet.cidr for subnet in self._net.subnets) or "none"
        raise errors.InvalidError(f"address {address} is outside every subnet of network {self._net.name} ({known})")

    def _kept(self, choice: Choice, remaining: list[str]) -> str:
        """Remove and return an address that fits the choice from the remaining addresses; empty if none fits."""
        for request in choice:
            for ip in remaining:
                if self._fits(request, ranges.parse_address(ip)):
                    remaining.remove(ip)
                    return ip
        return ""

    def _fits(self, request: driver.SubnetAddress | driver.SpecificAddress, address: ranges.Address) -> bool:
        if isinstance(request, driver.SpecificAddress):
            return request.address == address
        return any(subnet.uuid == request.subnet and _has(subnet, address) for subnet in self._net.subnets)

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

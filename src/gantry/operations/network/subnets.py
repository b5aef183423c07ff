"""Edits of a network's subnets: each takes a network and returns a new one; ``pools`` edits their address ranges.

Called by the units that create and change networks, so that both follow the same rules. Pure: nothing is stored here,
several edits become one change of the state, and a refusal is a PrerequisiteError that names the owner. ``owners``
returns the owners of addresses in a part of the network.

Invariants of the result (contracts/networks.md#subnets): subnets do not overlap, one of each family may have dhcp,
names are unique, a gateway lies inside its subnet, and no owner has an address that a subnet does not contain or cannot
allocate: its gateway, which only a port may have, and the addresses in ``address.pools.never_handed_out``. The caller
releases the addresses that ports configured themselves in a removed subnet (``address_users.ports_after``).
"""

import itertools
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec import structs

from gantry import errors
from gantry.address import automatic, pools, ranges
from gantry.ipam import driver
from gantry.model import network, opcodes
from gantry.operations.network import guest_options, neutron_defaults

NONE = "none"
"""The value that removes a name or a gateway."""

_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9_.-]*")
_ACTIONS = ("add", "modify", "remove")

_MAPPED = ranges.sized(0xFFFF << 32, 1 << 32)
"""IPv4-mapped IPv6 addresses (RFC 4291 2.5.5.2): each would be a second name of an address, so no subnet has them."""

AddressRange = tuple[ranges.Family, ranges.Range]


class Owner(NamedTuple):
    """An address of the network with its owner, and the owner's title for messages; ``port`` is None for a NIC."""

    address: ranges.Address
    title: str
    port: network.Port | None = None


Owners = Callable[[Iterable[AddressRange]], Iterable[Owner]]
"""Returns the owners of addresses in ranges."""

MAX_LISTED = 5
"""The maximum number of owners in a message."""


def address_range(subnet: network.Subnet) -> AddressRange:
    """Return all addresses of a subnet."""
    cidr = ranges.parse_cidr(subnet.cidr)
    return cidr.family, cidr.range


def covers(address_ranges: Iterable[AddressRange], address: ranges.Address) -> bool:
    """Return whether an address lies in one of the ranges."""
    return any(family is address.family and address.value in run for family, run in address_ranges)


def gained(before: network.Network, after: network.Network) -> list[AddressRange]:
    """Return the addresses in the subnets of ``after`` that are not in those of ``before``."""
    old, new = ([address_range(subnet) for subnet in net.subnets] for net in (before, after))
    return [
        (family, run)
        for family in ranges.Family
        for run in ranges.difference((r for f, r in new if f is family), (r for f, r in old if f is family))
    ]


def find(net: network.Network, ident: str) -> network.Subnet:
    """Return the subnet with a CIDR (in any spelling), a name or a UUID; raises NotFoundError, InvalidError."""
    if "/" in ident:
        cidr = ranges.parse_cidr(ident)
        matching_subnets = [subnet for subnet in net.subnets if ranges.parse_cidr(subnet.cidr) == cidr]
    else:
        matching_subnets = [subnet for subnet in net.subnets if ident and ident in (subnet.name, subnet.uuid)]
    if len(matching_subnets) > 1:
        listed = ", ".join(subnet.cidr for subnet in matching_subnets)
        raise errors.InvalidError(f"subnet {ident} of network {net.name} is ambiguous: {listed}", hint="use its CIDR")
    if not matching_subnets:
        raise errors.NotFoundError(
            f"network {net.name} has no subnet {ident or '(no name given)'}",
            hint="its subnets: " + (", ".join(map(titled, net.subnets)) or NONE),
        )
    return matching_subnets[0]


def titled(subnet: network.Subnet) -> str:
    """Return how messages name a subnet."""
    return f"{subnet.cidr} ({subnet.name})" if subnet.name else subnet.cidr


def is_name(text: str) -> bool:
    """Return whether a text is a valid name; addresses, ranges and CIDRs never are, so they cannot be confused."""
    return _NAME.fullmatch(text) is not None


def checked_name(text: str, *, what: str) -> str:
    """Return the name of a subnet or pool, empty for none; raises InvalidError."""
    if text in ("", NONE):
        return ""
    if text in driver.KEYWORDS or text in _ACTIONS:
        raise errors.InvalidError(f"{what} name {text} is a reserved word", hint="choose another name")
    if not is_name(text):
        raise errors.InvalidError(
            f"{what} name {text!r} is not valid, or looks like an address",
            hint="use letters, digits and . _ - with at least one letter",
        )
    return text


def add(net: network.Network, spec: opcodes.SubnetSpec, *, uuid: str, usual: bool = False) -> network.Network:
    """Return the network with an additional subnet; with ``usual``, ``neutron_defaults`` checks its pools."""
    cidr = _checked(ranges.parse_cidr(spec.cidr))
    name, label = checked_name(spec.name, what="subnet"), None
    if spec.label is not None:
        name, label = _labeled(net.subnets, spec.label)
    new = network.Subnet(
        uuid=spec.uuid or uuid,
        cidr=str(cidr),
        name=name,
        label=label,
        gateway=_gateway(cidr, spec.gateway),
        dhcp=spec.dhcp,
        pools=_pools(cidr, ([str(cidr)] if spec.pool else []) if spec.pools is None else spec.pools),
        subnetpool=spec.subnetpool,
    )
    new = guest_options.with_options(new, spec)
    if usual:
        neutron_defaults.check(new)
    _check_beside(net.subnets, new)
    return structs.replace(net, subnets=(*net.subnets, new))


def _labeled(other_subnets: Iterable[network.Subnet], label: str) -> tuple[str, str | None]:
    """Return the name that results from a label, and the remaining label (``neutron_names``)."""
    used = {subnet.name for subnet in other_subnets} | {*driver.KEYWORDS, *_ACTIONS, NONE}
    return (label, None) if not label or (is_name(label) and label not in used) else ("", label)


def _pools(cidr: ranges.Cidr, texts: Iterable[str], *, old: Iterable[network.Pool] = ()) -> tuple[network.Pool, ...]:
    """Return exactly these ranges of a subnet as pools; an existing pool keeps its name."""
    names = {pool.range: pool.name for pool in old}
    runs = []
    for text in texts:
        family, run = ranges.parse_range(text)
        if family is not cidr.family or not cidr.range.covers(run):
            raise errors.InvalidError(f"pool {text} is outside its subnet {cidr}")
        runs.append(run)
    if overlap := ranges.first_overlap(runs):
        first, second = (ranges.format_range(cidr.family, run) for run in overlap)
        raise errors.InvalidError(f"pool {first} overlaps pool {second}")
    texts_of_runs = (ranges.format_range(cidr.family, run) for run in runs)
    return tuple(network.Pool(range=text, name=names.get(text, "")) for text in texts_of_runs)


def _checked(cidr: ranges.Cidr) -> ranges.Cidr:
    if cidr.family is ranges.Family.IPV6 and cidr.range.overlaps(_MAPPED):
        raise errors.InvalidError(
            f"subnet {cidr} contains ::ffff:0:0/96, the IPv4-mapped IPv6 addresses",
            hint="choose another network, such as 2001:db8::/64",
        )
    if cidr.prefix == 0:
        raise errors.InvalidError(f"subnet {cidr} contains all addresses", hint="choose a longer prefix than /0")
    return cidr


def _gateway(cidr: ranges.Cidr, text: str, *, requested: bool = True) -> str:
    """Return the gateway of a subnet, empty for none; raises InvalidError.

    A requested gateway may be outside of the subnet, such as fe80::1: guests reach it on the link. A gateway that the
    subnet has already must not come to be outside because the subnet changes.
    """
    if text in ("", NONE):
        return ""
    address = ranges.parse_address(text)
    if address.family != cidr.family:
        raise errors.InvalidError(f"gateway {text} has another IP version than its subnet {cidr}")
    if address.value not in cidr.range:
        if not requested:
            raise errors.InvalidError(
                f"gateway {text} is outside its subnet {cidr}", hint="specify the gateway too, or gateway=none"
            )
        return str(address)
    # The first address of an IPv6 subnet is the subnet-router anycast address, so a router may have it.
    if address.family is ranges.Family.IPV4:
        pools.check_usable(cidr, address.value, gateway=None)
    return str(address)


def _check_dhcp(cidr: ranges.Cidr) -> None:
    """Refuse DHCP in a subnet whose addresses no host can have (RFC 1122 3.2.1.3)."""
    for text, what in _WITHOUT_HOSTS.items():
        unusable = ranges.parse_cidr(text)
        if unusable.family is cidr.family and unusable.range.overlaps(cidr.range):
            raise errors.InvalidError(
                f"subnet {cidr} has {what} ({text}), so it cannot have dhcp", hint="choose another network, or dhcp=no"
            )


_WITHOUT_HOSTS = {
    "0.0.0.0/8": "addresses of this network",
    "127.0.0.0/8": "loopback addresses",
    "224.0.0.0/4": "multicast addresses",
    "ff00::/8": "multicast addresses",
}


def _check_beside(other_subnets: Iterable[network.Subnet], new: network.Subnet) -> None:
    """Refuse a subnet that conflicts with the other subnets of its network."""
    cidr = ranges.parse_cidr(new.cidr)
    if new.dhcp:
        _check_dhcp(cidr)
    for other in other_subnets:
        other_cidr = ranges.parse_cidr(other.cidr)
        if cidr.family == other_cidr.family and cidr.range.overlaps(other_cidr.range):
            raise errors.InvalidError(
                f"subnets {other_cidr} and {cidr} overlap", hint="subnets of a network must not overlap"
            )
        if cidr.family == other_cidr.family and new.dhcp and other.dhcp:
            raise errors.InvalidError(
                f"subnets {other_cidr} and {cidr} both have dhcp",
                hint=f"one subnet of each IP version may have it; --subnet {other_cidr}:modify,dhcp=no removes it",
            )
        if new.name and new.name == other.name:
            raise errors.InvalidError(
                f"two subnets are named {new.name}: {other_cidr} and {cidr}",
                hint="names of subnets are unique in a network",
            )


def change(net: network.Network, mod: opcodes.SubnetMod, *, uuid: Callable[[], str], owners: Owners) -> network.Network:
    """Return the network after an action on one of its subnets."""
    match mod.action:
        case "add":
            return add(net, _as_spec(neutron_defaults.completed(net, mod)), uuid=uuid(), usual=mod.usual)
        case "modify":
            return _modify(net, mod, owners=owners)
        case "remove":
            return _remove(net, find(net, mod.ident), owners=owners)


def _as_spec(mod: opcodes.SubnetMod) -> opcodes.SubnetSpec:
    if mod.cidr is None or mod.ident:
        raise errors.InvalidError("a subnet to add needs its cidr and no identifier")
    fields = {name: getattr(mod, name) for name in opcodes.SubnetSpec.__struct_fields__}
    return opcodes.SubnetSpec(**{name: value for name, value in fields.items() if value is not None})


def _check_modifies(mod: opcodes.SubnetMod) -> None:
    if mod.pool:
        raise errors.InvalidError("pool is valid for a new subnet only", hint=f"use --pool add:subnet={mod.ident}")
    for name in (
        "ipv6_address_mode",
        "ipv6_ra_mode",
        "subnetpool",
        "default_subnetpool",
        "ip_version",
        "prefixlen",
        "uuid",
    ):
        if getattr(mod, name) not in (None, False):
            raise errors.InvalidError(f"{name} is valid for a new subnet only and cannot be changed")


def _modify(net: network.Network, mod: opcodes.SubnetMod, *, owners: Owners) -> network.Network:
    old = find(net, mod.ident)
    _check_modifies(mod)
    before = ranges.parse_cidr(old.cidr)
    cidr = before if mod.cidr is None else _new_cidr(before, mod.cidr)
    new = structs.replace(
        old if cidr == before else _resized(old, cidr, owners=owners),
        **_renamed(net, old, mod),
        gateway=_gateway(cidr, old.gateway, requested=cidr == before)
        if mod.gateway is None
        else _gateway(cidr, mod.gateway),
        dhcp=old.dhcp if mod.dhcp is None else mod.dhcp,
    )
    if mod.pools is not None:
        new = structs.replace(new, pools=_pools(cidr, mod.pools, old=old.pools))
    if mod.usual and (mod.pools is not None or mod.gateway is not None):
        neutron_defaults.check(new)
    new = guest_options.with_options(new, mod)
    _check_beside((subnet for subnet in net.subnets if subnet != old), new)
    if (new.cidr, new.gateway) != (old.cidr, old.gateway):
        _check_usable(new, owners)
    if new.gateway != old.gateway:
        _check_no_router(old, owners)
    return _replace(net, old, new)


def _renamed(net: network.Network, old: network.Subnet, mod: opcodes.SubnetMod) -> dict[str, str | None]:
    if mod.label is not None:
        name, label = _labeled((subnet for subnet in net.subnets if subnet != old), mod.label)
        return {"name": name, "label": label}
    return {} if mod.name is None else {"name": checked_name(mod.name, what="subnet"), "label": None}


def _new_cidr(before: ranges.Cidr, text: str) -> ranges.Cidr:
    """Return the requested CIDR of a subnet: its own first address with a shorter prefix means the enclosing CIDR.

    So 192.0.2.0/24 grows with ``cidr=192.0.2.0/22`` (contracts/networks.md#subnets) to 192.0.0.0/22; host bits in any
    other address are an error.
    """
    first, _, prefix = text.strip().partition("/")
    own = ranges.Address(before.family, before.first)
    if prefix.isdecimal() and int(prefix) < before.prefix and ranges.parse_address(first) == own:
        host_bits = before.family.bits - int(prefix)
        return _checked(ranges.Cidr(before.family, before.first >> host_bits << host_bits, int(prefix)))
    return _checked(ranges.parse_cidr(text))


def _resized(old: network.Subnet, cidr: ranges.Cidr, *, owners: Owners) -> network.Subnet:
    """Return a subnet with another CIDR, its pools trimmed; refused while the removed part is in use or reserved."""
    before = ranges.parse_cidr(old.cidr)
    title = f"subnet {before} cannot become {cidr}"
    if cidr.family is not before.family:
        raise errors.InvalidError(f"{title}: the IP version cannot change")
    trimmed = [(cidr.family, run) for run in ranges.difference([before.range], [cidr.range])]
    _check_unused(title, trimmed, owners=owners)
    for text in old.external:
        _, run = ranges.parse_range(text)
        if not cidr.range.covers(run):
            raise errors.WrongStateError(
                f"{title}: {text} is reserved externally", hint=f"remove it first: --remove-reserved-ips {text}"
            )
    kept = ((pool, ranges.parse_range(pool.range)[1].intersection(cidr.range)) for pool in old.pools)
    trimmed_pools = tuple(
        structs.replace(pool, range=ranges.format_range(cidr.family, run)) for pool, run in kept if run
    )
    return structs.replace(old, cidr=str(cidr), pools=trimmed_pools)


def _check_unused(title: str, address_ranges: Iterable[AddressRange], *, owners: Owners) -> None:
    users = [f"{user.title} ({user.address})" for user in itertools.islice(owners(address_ranges), MAX_LISTED + 1)]
    if users:
        more = " and others" if len(users) > MAX_LISTED else ""
        raise errors.WrongStateError(
            f"{title}: in use by {', '.join(users[:MAX_LISTED])}{more}", hint="change or remove these first"
        )


def _check_usable(subnet: network.Subnet, owners: Owners) -> None:
    """Refuse an address in use as the subnet's gateway, or as its first or last address."""
    cidr = ranges.parse_cidr(subnet.cidr)
    gateway = ranges.parse_address(subnet.gateway).value if subnet.gateway else None
    if gateway is not None and gateway not in cidr.range:
        gateway = None
    never = [(cidr.family, run) for run in pools.never_handed_out(cidr, gateway=gateway)]
    for owner in owners(never):
        try:
            pools.check_usable(cidr, owner.address.value, gateway=None if owner.port else gateway)
        except errors.InvalidError as error:
            raise errors.WrongStateError(
                f"subnet {subnet.cidr} cannot be changed: {error.message}, and {owner.title} has it",
                hint="change or remove that owner first",
            ) from None


def _check_no_router(subnet: network.Subnet, owners: Owners) -> None:
    """Refuse to change a subnet's gateway while a router has the address: guests would lose their way out."""
    address = ranges.parse_address(subnet.gateway) if subnet.gateway else None
    for owner in owners([(address.family, ranges.sized(address.value, 1))]) if address else ():
        if owner.port and owner.port.is_router:
            raise errors.WrongStateError(
                f"gateway {subnet.gateway} of subnet {subnet.cidr} cannot be changed: router port {owner.port.uuid} "
                f"({owner.port.name or 'without a name'}) has it",
                hint="remove that port first",
            )


def _remove(net: network.Network, subnet: network.Subnet, *, owners: Owners) -> network.Network:
    title = f"subnet {subnet.cidr} of network {net.name} cannot be removed"

    def users(address_ranges: Iterable[AddressRange]) -> Iterable[Owner]:
        return (owner for owner in owners(address_ranges) if not _is_self_configured(subnet, owner))

    _check_unused(title, [address_range(subnet)], owners=users)
    return _replace(net, subnet)


def _is_self_configured(subnet: network.Subnet, owner: Owner) -> bool:
    """Return whether a port made its address itself: nobody requested the address, so it goes with its subnet."""
    port = owner.port
    if not (port and port.configures_itself and guest_options.is_automatic(subnet)):
        return False
    return owner.address == automatic.address(ranges.parse_cidr(subnet.cidr), port.mac)


def _replace(net: network.Network, old: network.Subnet, *new: network.Subnet) -> network.Network:
    index = net.subnets.index(old)
    return structs.replace(net, subnets=(*net.subnets[:index], *new, *net.subnets[index + 1 :]))

"""Edits of a network's subnets: each takes a network and returns the next; ``operations.pools`` has those of ranges.

Called by the units that create and change networks, so that both keep one set of rules. Pure: nothing is stored here,
several edits in a row become one change of the state, and what is refused raises a PrerequisiteError that names who
holds the thing. ``holders`` are the addresses that instances have in the network.

Invariants of what is returned (networks seed "Multiple Subnets per Network"): subnets do not overlap, one of each
family may have dhcp, their names are unique, a gateway lies inside, and no instance has an address that a subnet does
not contain or cannot give: its gateway, and what ``address.pools.never_handed_out`` has.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from gantry import errors
from gantry.address import pools, ranges
from gantry.ipam import driver
from gantry.model import network, opcodes

NONE = "none"
"""The word that takes a name or a gateway away."""

_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9_.-]*")
_ACTIONS = ("add", "modify", "remove")

_MAPPED = ranges.sized(0xFFFF << 32, 1 << 32)
"""IPv4 addresses in IPv6 spelling (RFC 4291 2.5.5.2): each would have a second name, so no subnet has them."""

Place = tuple[ranges.Family, ranges.Range]


class Holder(NamedTuple):
    """An address of the network that an instance has."""

    address: ranges.Address
    instance: str


def place_of(subnet: network.Subnet) -> Place:
    """Return all addresses of a subnet."""
    cidr = ranges.parse_cidr(subnet.cidr)
    return cidr.family, cidr.range


def covers(places: Iterable[Place], address: ranges.Address) -> bool:
    """Tell whether an address lies in one of the ranges."""
    return any(family is address.family and address.value in run for family, run in places)


def gained(before: network.Network, after: network.Network) -> list[Place]:
    """Return the addresses that ``after`` has in its subnets and ``before`` has not."""
    old, new = ([place_of(subnet) for subnet in net.subnets] for net in (before, after))
    return [
        (family, run)
        for family in ranges.Family
        for run in ranges.difference((r for f, r in new if f is family), (r for f, r in old if f is family))
    ]


def find(net: network.Network, ident: str) -> network.Subnet:
    """Return the subnet with a CIDR, in any spelling, a name or a UUID; raises NotFoundError, InvalidError."""
    if "/" in ident:
        cidr = ranges.parse_cidr(ident)
        found = [subnet for subnet in net.subnets if ranges.parse_cidr(subnet.cidr) == cidr]
    else:
        found = [subnet for subnet in net.subnets if ident and ident in (subnet.name, subnet.uuid)]
    if len(found) > 1:
        listed = ", ".join(subnet.cidr for subnet in found)
        raise errors.InvalidError(f"subnet {ident} of network {net.name} is ambiguous: {listed}", hint="use its CIDR")
    if not found:
        raise errors.NotFoundError(
            f"network {net.name} has no subnet {ident or '(none was named)'}",
            hint="its subnets are: " + (", ".join(map(_titled, net.subnets)) or NONE),
        )
    return found[0]


def _titled(subnet: network.Subnet) -> str:
    return f"{subnet.cidr} ({subnet.name})" if subnet.name else subnet.cidr


def is_name(text: str) -> bool:
    """Tell whether a text has the form of a name: no address, range or CIDR has it, so the two cannot be mixed up."""
    return _NAME.fullmatch(text) is not None


def checked_name(text: str, *, what: str) -> str:
    """Return the name of a subnet or pool, empty for none; raises InvalidError."""
    if text in ("", NONE):
        return ""
    if text in driver.KEYWORDS or text in _ACTIONS:
        raise errors.InvalidError(f"{what} name {text} is taken: it is a word of the commands", hint="choose another")
    if not is_name(text):
        raise errors.InvalidError(
            f"{what} name {text!r} is not valid, or reads as an address",
            hint="write letters, digits and . _ - with a letter among them",
        )
    return text


def add(net: network.Network, spec: opcodes.SubnetSpec, *, uuid: str) -> network.Network:
    """Return the network with one more subnet."""
    cidr = _checked(ranges.parse_cidr(spec.cidr))
    whole = ranges.format_range(cidr.family, cidr.range)
    new = network.Subnet(
        uuid=uuid,
        cidr=str(cidr),
        name=checked_name(spec.name, what="subnet"),
        gateway=_gateway(cidr, spec.gateway),
        dhcp=spec.dhcp,
        pools=(network.Pool(range=whole),) if spec.pool else (),
    )
    _check_beside(net.subnets, new)
    return structs.replace(net, subnets=(*net.subnets, new))


def _checked(cidr: ranges.Cidr) -> ranges.Cidr:
    if cidr.family is ranges.Family.IPV6 and cidr.range.overlaps(_MAPPED):
        raise errors.InvalidError(
            f"subnet {cidr} has the addresses ::ffff:0:0/96, which are IPv4 addresses in IPv6 spelling",
            hint="choose a network of its own, such as 2001:db8::/64",
        )
    return cidr


def _gateway(cidr: ranges.Cidr, text: str) -> str:
    if text in ("", NONE):
        return ""
    address = ranges.parse_address(text)
    if address.family != cidr.family or address.value not in cidr.range:
        raise errors.InvalidError(
            f"gateway {text} is outside its subnet {cidr}", hint="name one inside, or none with gateway=none"
        )
    # A router may have the first address of an IPv6 subnet: it is every router's.
    if address.family is ranges.Family.IPV4:
        pools.check_usable(cidr, address.value, gateway=None)
    return str(address)


def _check_beside(others: Iterable[network.Subnet], new: network.Subnet) -> None:
    """Refuse a subnet that cannot stand beside the others of its network."""
    one = ranges.parse_cidr(new.cidr)
    for other in others:
        two = ranges.parse_cidr(other.cidr)
        if one.family == two.family and one.range.overlaps(two.range):
            raise errors.InvalidError(f"subnets {two} and {one} overlap", hint="subnets of one network must not")
        if one.family == two.family and new.dhcp and other.dhcp:
            raise errors.InvalidError(
                f"subnets {two} and {one} both have dhcp",
                hint=f"one of each IP version may have it; --subnet {two}:modify,dhcp=no takes it away",
            )
        if new.name and new.name == other.name:
            raise errors.InvalidError(
                f"two subnets are named {new.name}: {two} and {one}", hint="names of subnets are unique in a network"
            )


def change(
    net: network.Network, mod: opcodes.SubnetMod, *, uuid: Callable[[], str], holders: Sequence[Holder]
) -> network.Network:
    """Return the network after an action on one of its subnets."""
    match mod.action:
        case "add":
            if mod.cidr is None or mod.ident:
                raise errors.InvalidError("a subnet to add needs its cidr and no identifier")
            spec = opcodes.SubnetSpec(
                cidr=mod.cidr, name=mod.name or "", gateway=mod.gateway or "", dhcp=bool(mod.dhcp), pool=mod.pool
            )
            return add(net, spec, uuid=uuid())
        case "modify":
            return _modify(net, mod, holders=holders)
        case "remove":
            return _remove(net, find(net, mod.ident), holders=holders)


def _modify(net: network.Network, mod: opcodes.SubnetMod, *, holders: Sequence[Holder]) -> network.Network:
    old = find(net, mod.ident)
    if mod.pool:
        raise errors.InvalidError("pool goes with a subnet to add", hint=f"write --pool add:subnet={mod.ident}")
    before = ranges.parse_cidr(old.cidr)
    cidr = before if mod.cidr is None else _new_cidr(before, mod.cidr)
    new = structs.replace(
        old if cidr == before else _resized(old, cidr, holders=holders),
        name=old.name if mod.name is None else checked_name(mod.name, what="subnet"),
        gateway=_gateway(cidr, old.gateway if mod.gateway is None else mod.gateway),
        dhcp=old.dhcp if mod.dhcp is None else mod.dhcp,
    )
    _check_beside((subnet for subnet in net.subnets if subnet != old), new)
    if (new.cidr, new.gateway) != (old.cidr, old.gateway):
        _check_usable(new, holders)
    return _replace(net, old, new)


def _new_cidr(before: ranges.Cidr, text: str) -> ranges.Cidr:
    """Read the CIDR that a subnet shall get: with its own first address and a shorter prefix, what encloses it.

    So 192.0.2.0/24 grows by ``cidr=192.0.2.0/22`` (networks seed "Multiple Subnets per Network") to 192.0.0.0/22;
    host bits in any other address are a mistake.
    """
    first, _, prefix = text.strip().partition("/")
    own = ranges.Address(before.family, before.first)
    if prefix.isdecimal() and int(prefix) < before.prefix and ranges.parse_address(first) == own:
        host_bits = before.family.bits - int(prefix)
        return _checked(ranges.Cidr(before.family, before.first >> host_bits << host_bits, int(prefix)))
    return _checked(ranges.parse_cidr(text))


def _resized(old: network.Subnet, cidr: ranges.Cidr, *, holders: Sequence[Holder]) -> network.Subnet:
    """Return a subnet with another CIDR, its pools trimmed; refused while the trimmed part is reserved by anybody."""
    before = ranges.parse_cidr(old.cidr)
    title = f"subnet {before} cannot become {cidr}"
    if cidr.family is not before.family:
        raise errors.InvalidError(f"{title}: it keeps its IP version")
    trimmed = [(cidr.family, run) for run in ranges.difference([before.range], [cidr.range])]
    _check_unused(title, trimmed, holders=holders)
    for text in old.external:
        _, run = ranges.parse_range(text)
        if not cidr.range.covers(run):
            raise errors.WrongStateError(
                f"{title}: {text} is reserved externally", hint=f"--remove-reserved-ips {text} goes first"
            )
    kept = ((pool, ranges.parse_range(pool.range)[1].intersection(cidr.range)) for pool in old.pools)
    trimmed_pools = tuple(
        structs.replace(pool, range=ranges.format_range(cidr.family, run)) for pool, run in kept if run
    )
    return structs.replace(old, cidr=str(cidr), pools=trimmed_pools)


def _check_unused(title: str, places: Iterable[Place], *, holders: Sequence[Holder]) -> None:
    held = list(places)
    users = [f"{one.instance} ({one.address})" for one in holders if covers(held, one.address)]
    if users:
        more = f" and {len(users) - 5} more" if len(users) > 5 else ""
        raise errors.WrongStateError(
            f"{title}: in use by instance {', '.join(users[:5])}{more}", hint="change or remove these instances first"
        )


def _check_usable(subnet: network.Subnet, holders: Sequence[Holder]) -> None:
    """Refuse that an address in use becomes the subnet's gateway, or its first or last address."""
    cidr, everywhere = ranges.parse_cidr(subnet.cidr), [place_of(subnet)]
    gateway = ranges.parse_address(subnet.gateway).value if subnet.gateway else None
    for one in holders:
        if covers(everywhere, one.address):
            try:
                pools.check_usable(cidr, one.address.value, gateway=gateway)
            except errors.InvalidError as error:
                raise errors.WrongStateError(
                    f"subnet {subnet.cidr} cannot be like this: {error.message}, and instance {one.instance} has it",
                    hint="change or remove the instance first",
                ) from None


def _remove(net: network.Network, subnet: network.Subnet, *, holders: Sequence[Holder]) -> network.Network:
    title = f"subnet {subnet.cidr} of network {net.name} cannot be removed"
    _check_unused(title, [place_of(subnet)], holders=holders)
    return _replace(net, subnet)


def _replace(net: network.Network, old: network.Subnet, *new: network.Subnet) -> network.Network:
    index = net.subnets.index(old)
    return structs.replace(net, subnets=(*net.subnets[:index], *new, *net.subnets[index + 1 :]))


def describe(before: network.Network, after: network.Network) -> list[str]:
    """Say what is different between two states of a network's subnets, a line for each difference."""
    old = {subnet.uuid: subnet for subnet in before.subnets}
    new = {subnet.uuid: subnet for subnet in after.subnets}
    lines = [f"remove subnet {subnet.cidr}" for uuid, subnet in old.items() if uuid not in new]
    for uuid, subnet in new.items():
        lines += _differences(old[uuid], subnet) if uuid in old else _added(subnet)
    return lines


def _added(subnet: network.Subnet) -> list[str]:
    gateway = f" with gateway {subnet.gateway}" if subnet.gateway else ""
    blank = structs.replace(subnet, dhcp=False, pools=(), external=())
    return [f"add subnet {_titled(subnet)}{gateway}", *_differences(blank, subnet)]


def _differences(old: network.Subnet, new: network.Subnet) -> list[str]:
    lines = [
        f"subnet {old.cidr}: {name} {getattr(old, name) or NONE} becomes {getattr(new, name) or NONE}"
        for name in ("cidr", "name", "gateway")
        if getattr(old, name) != getattr(new, name)
    ]
    if old.dhcp != new.dhcp:
        lines.append(f"subnet {old.cidr}: dhcp {'on' if new.dhcp else 'off'}")
    pools_then, pools_now = set(old.pools), set(new.pools)
    lines += [f"remove pool {pool.range} {pool.name}".rstrip() for pool in old.pools if pool not in pools_now]
    lines += [f"add pool {pool.range} {pool.name}".rstrip() for pool in new.pools if pool not in pools_then]
    then, now = set(old.external), set(new.external)
    lines += [f"release {run}" for run in old.external if run not in now]
    return lines + [f"reserve {run} externally" for run in new.external if run not in then]

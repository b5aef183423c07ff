"""Edits of a network's subnets: each takes a network and returns the next; ``pools`` has those of ranges.

Called by the units that create and change networks, so that both keep one set of rules. Pure: nothing is stored here,
several edits in a row become one change of the state, and what is refused raises a PrerequisiteError that names who
holds the thing. ``holders`` tells who has addresses in a part of the network.

Invariants of what is returned (contracts/networks.md#subnets): subnets do not overlap, one of each
family may have dhcp, their names are unique, a gateway lies inside, and nobody has an address that a subnet does not
contain or cannot give: its gateway, which only a port may have, and what ``address.pools.never_handed_out`` has.
"""

import itertools
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec import structs

from gantry import errors
from gantry.address import pools, ranges
from gantry.ipam import driver
from gantry.model import network, opcodes
from gantry.operations.network import guest_options, neutron_defaults

NONE = "none"
"""The word that takes a name or a gateway away."""

_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9_.-]*")
_ACTIONS = ("add", "modify", "remove")

_MAPPED = ranges.sized(0xFFFF << 32, 1 << 32)
"""IPv4 addresses in IPv6 spelling (RFC 4291 2.5.5.2): each would have a second name, so no subnet has them."""

Place = tuple[ranges.Family, ranges.Range]


class Holder(NamedTuple):
    """An address of the network that somebody has, a port or an instance, and what to call that one."""

    address: ranges.Address
    called: str
    is_port: bool = False


Holders = Callable[[Iterable[Place]], Iterable[Holder]]
"""Tells who has addresses in some places."""

NAMED = 5
"""How many of them a message names."""


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


def add(net: network.Network, spec: opcodes.SubnetSpec, *, uuid: str, usual: bool = False) -> network.Network:
    """Return the network with one more subnet; a ``usual`` one has the pools that ``neutron_defaults`` lets it have."""
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
    new = guest_options.told(new, spec)
    if usual:
        neutron_defaults.check(new)
    _check_beside(net.subnets, new)
    return structs.replace(net, subnets=(*net.subnets, new))


def _labeled(others: Iterable[network.Subnet], label: str) -> tuple[str, str | None]:
    """Return the name that a label gives a subnet, and what is left as its label (``neutron_names``)."""
    taken = {subnet.name for subnet in others} | {*driver.KEYWORDS, *_ACTIONS, NONE}
    return (label, None) if not label or (is_name(label) and label not in taken) else ("", label)


def _pools(cidr: ranges.Cidr, texts: Iterable[str], *, old: Iterable[network.Pool] = ()) -> tuple[network.Pool, ...]:
    """Return exactly these ranges of a subnet as pools; one that was a pool keeps its name."""
    names = {pool.range: pool.name for pool in old}
    runs = []
    for text in texts:
        family, run = ranges.parse_range(text)
        if family is not cidr.family or not cidr.range.covers(run):
            raise errors.InvalidError(f"pool {text} is outside its subnet {cidr}")
        runs.append(run)
    if overlap := ranges.first_overlap(runs):
        one, two = (ranges.format_range(cidr.family, run) for run in overlap)
        raise errors.InvalidError(f"pool {one} overlaps pool {two}")
    found = (ranges.format_range(cidr.family, run) for run in runs)
    return tuple(network.Pool(range=text, name=names.get(text, "")) for text in found)


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
    net: network.Network, mod: opcodes.SubnetMod, *, uuid: Callable[[], str], holders: Holders
) -> network.Network:
    """Return the network after an action on one of its subnets."""
    match mod.action:
        case "add":
            return add(net, _as_spec(neutron_defaults.completed(net, mod)), uuid=uuid(), usual=mod.usual)
        case "modify":
            return _modify(net, mod, holders=holders)
        case "remove":
            return _remove(net, find(net, mod.ident), holders=holders)


def _as_spec(mod: opcodes.SubnetMod) -> opcodes.SubnetSpec:
    if mod.cidr is None or mod.ident:
        raise errors.InvalidError("a subnet to add needs its cidr and no identifier")
    given = {name: getattr(mod, name) for name in opcodes.SubnetSpec.__struct_fields__}
    return opcodes.SubnetSpec(**{name: value for name, value in given.items() if value is not None})


def _check_modifies(mod: opcodes.SubnetMod) -> None:
    if mod.pool:
        raise errors.InvalidError("pool goes with a subnet to add", hint=f"write --pool add:subnet={mod.ident}")
    for name in ("ipv6_address_mode", "ipv6_ra_mode", "subnetpool", "default_subnetpool", "prefixlen", "uuid"):
        if getattr(mod, name) not in (None, False):
            raise errors.InvalidError(f"{name} goes with a subnet to add: it cannot be changed")


def _modify(net: network.Network, mod: opcodes.SubnetMod, *, holders: Holders) -> network.Network:
    old = find(net, mod.ident)
    _check_modifies(mod)
    before = ranges.parse_cidr(old.cidr)
    cidr = before if mod.cidr is None else _new_cidr(before, mod.cidr)
    new = structs.replace(
        old if cidr == before else _resized(old, cidr, holders=holders),
        **_renamed(net, old, mod),
        gateway=_gateway(cidr, old.gateway if mod.gateway is None else mod.gateway),
        dhcp=old.dhcp if mod.dhcp is None else mod.dhcp,
    )
    if mod.pools is not None:
        new = structs.replace(new, pools=_pools(cidr, mod.pools, old=old.pools))
    if mod.usual and (mod.pools is not None or mod.gateway is not None):
        neutron_defaults.check(new)
    new = guest_options.told(new, mod)
    _check_beside((subnet for subnet in net.subnets if subnet != old), new)
    if (new.cidr, new.gateway) != (old.cidr, old.gateway):
        _check_usable(new, holders)
    return _replace(net, old, new)


def _renamed(net: network.Network, old: network.Subnet, mod: opcodes.SubnetMod) -> dict[str, str | None]:
    if mod.label is not None:
        name, label = _labeled((subnet for subnet in net.subnets if subnet != old), mod.label)
        return {"name": name, "label": label}
    return {} if mod.name is None else {"name": checked_name(mod.name, what="subnet"), "label": None}


def _new_cidr(before: ranges.Cidr, text: str) -> ranges.Cidr:
    """Read the CIDR that a subnet shall get: with its own first address and a shorter prefix, what encloses it.

    So 192.0.2.0/24 grows by ``cidr=192.0.2.0/22`` (contracts/networks.md#subnets) to 192.0.0.0/22;
    host bits in any other address are a mistake.
    """
    first, _, prefix = text.strip().partition("/")
    own = ranges.Address(before.family, before.first)
    if prefix.isdecimal() and int(prefix) < before.prefix and ranges.parse_address(first) == own:
        host_bits = before.family.bits - int(prefix)
        return _checked(ranges.Cidr(before.family, before.first >> host_bits << host_bits, int(prefix)))
    return _checked(ranges.parse_cidr(text))


def _resized(old: network.Subnet, cidr: ranges.Cidr, *, holders: Holders) -> network.Subnet:
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


def _check_unused(title: str, places: Iterable[Place], *, holders: Holders) -> None:
    users = [f"{one.called} ({one.address})" for one in itertools.islice(holders(places), NAMED + 1)]
    if users:
        more = " and others" if len(users) > NAMED else ""
        raise errors.WrongStateError(
            f"{title}: in use by {', '.join(users[:NAMED])}{more}", hint="change or remove these first"
        )


def _check_usable(subnet: network.Subnet, holders: Holders) -> None:
    """Refuse that an address in use becomes the subnet's gateway, or its first or last address."""
    cidr = ranges.parse_cidr(subnet.cidr)
    gateway = ranges.parse_address(subnet.gateway).value if subnet.gateway else None
    never = [(cidr.family, run) for run in pools.never_handed_out(cidr, gateway=gateway)]
    for one in holders(never):
        try:
            pools.check_usable(cidr, one.address.value, gateway=None if one.is_port else gateway)
        except errors.InvalidError as error:
            raise errors.WrongStateError(
                f"subnet {subnet.cidr} cannot be like this: {error.message}, and {one.called} has it",
                hint="change or remove that first",
            ) from None


def _remove(net: network.Network, subnet: network.Subnet, *, holders: Holders) -> network.Network:
    title = f"subnet {subnet.cidr} of network {net.name} cannot be removed"
    _check_unused(title, [place_of(subnet)], holders=holders)
    return _replace(net, subnet)


def _replace(net: network.Network, old: network.Subnet, *new: network.Subnet) -> network.Network:
    index = net.subnets.index(old)
    return structs.replace(net, subnets=(*net.subnets[:index], *new, *net.subnets[index + 1 :]))


def dated(before: network.Network, after: network.Network, *, now: float) -> network.Network:
    """Return the network with the times of what is new in its subnets, or was changed, and how often that was."""
    old = {subnet.uuid: subnet for subnet in before.subnets}
    return structs.replace(after, subnets=tuple(_dated(old.get(one.uuid), one, now) for one in after.subnets))


def _dated(old: network.Subnet | None, new: network.Subnet, now: float) -> network.Subnet:
    if old is None:
        return structs.replace(new, ctime=now, mtime=now)
    return new if new == old else structs.replace(new, serial_no=old.serial_no + 1, mtime=now)


def describe(before: network.Network, after: network.Network) -> list[str]:
    """Say what is different between two states of a network's subnets, a line for each difference."""
    old = {subnet.uuid: subnet for subnet in before.subnets}
    new = {subnet.uuid: subnet for subnet in after.subnets}
    lines = [f"remove subnet {subnet.cidr}" for uuid, subnet in old.items() if uuid not in new]
    for uuid, subnet in new.items():
        lines += _differences(old[uuid], subnet) if uuid in old else _added(subnet)
    return lines


def _text(value: object) -> str:
    return (", ".join(map(str, value)) if isinstance(value, tuple) else str(value or "")) or NONE


def _added(subnet: network.Subnet) -> list[str]:
    gateway = f" with gateway {subnet.gateway}" if subnet.gateway else ""
    bare = dict.fromkeys(guest_options.SHOWN, ())
    blank = structs.replace(subnet, dhcp=False, pools=(), external=(), description="", **bare)
    return [f"add subnet {_titled(subnet)}{gateway}", *_differences(blank, subnet)]


def _differences(old: network.Subnet, new: network.Subnet) -> list[str]:
    lines = [
        f"subnet {old.cidr}: {name} {_text(getattr(old, name))} becomes {_text(getattr(new, name))}"
        for name in ("cidr", "name", "label", "gateway", "description", *guest_options.SHOWN)
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

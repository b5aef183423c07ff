"""Edits of the address ranges in a network's subnets: pools and external reservations; each returns a new network.

Called, like ``subnets``, by the units that create and change networks; pure. A range belongs to the subnet that has
all of it, so a command does not name the subnet (contracts/networks.md#pools).

Invariants of the result: a range lies in its subnet; pools do not overlap, nor do external reservations. An external
reservation may cover pools and addresses in use. The users of addresses are not stored here but in instances and ports;
a pool over addresses in use has them as reserved from the start.

A pool's name is unique in its network. A pool that a removal has split is still one pool: its parts share the name, and
``ip=NAME`` allocates from the first part with a free address. Renaming by name renames all parts, by range one part.
"""

import bisect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import structs

from gantry import errors
from gantry.address import ranges
from gantry.model import network, opcodes
from gantry.operations.network import subnets

LARGE = 65536
"""Addresses. A larger FIRST-LAST range counts as a mistake without ``force``; a CIDR or a size is always accepted."""

RangeText = str | opcodes.RangeSpec


def parse(spec: RangeText) -> tuple[ranges.Family, ranges.Range]:
    """Return a range that is text, or a first address with a size, a last address, or both; raises InvalidError."""
    if isinstance(spec, str):
        return ranges.parse_range(spec)
    first = ranges.parse_address(spec.start)
    if spec.end is None:
        return first.family, ranges.sized(first.value, 1 if spec.size is None else spec.size)
    family, run = ranges.parse_range(f"{first}-{spec.end}")
    if spec.size not in (None, run.size):
        raise errors.InvalidError(f"{first}-{spec.end} has {run.size} addresses, not {spec.size}")
    return family, run


def _text(spec: RangeText) -> str:
    if isinstance(spec, str):
        return spec
    return f"{spec.start}-{spec.end}" if spec.end else f"of {spec.size or 1} addresses from {spec.start} on"


def _locate(
    net: network.Network, spec: RangeText, *, what: str, force: bool
) -> tuple[network.Subnet, ranges.Family, ranges.Range]:
    """Return the subnet that contains a range, and the range; a large range requires ``force``."""
    family, run = parse(spec)
    if run.size > LARGE and isinstance(spec, str) and "/" not in spec and not force:
        raise errors.InvalidError(
            f"{what} {spec} has {run.size:,} addresses, more than {LARGE:,}", hint="if this is intended, add --force"
        )
    subnets_and_cidrs = [(subnet, ranges.parse_cidr(subnet.cidr)) for subnet in net.subnets]
    touched = [
        (subnet, cidr) for subnet, cidr in subnets_and_cidrs if cidr.family is family and cidr.range.overlaps(run)
    ]
    for subnet, cidr in touched:
        if cidr.range.covers(run):
            return subnet, family, run
    if touched:
        listed = " and ".join(str(cidr) for _, cidr in touched)
        raise errors.InvalidError(
            f"{what} {_text(spec)} extends beyond {listed}", hint="the range must lie in one subnet"
        )
    known = ", ".join(subnet.cidr for subnet in net.subnets) or "none"
    raise errors.InvalidError(
        f"{what} {_text(spec)} is outside every subnet of the network ({known})",
        hint="add its subnet first: --subnet add:cidr=CIDR",
    )


def _all(net: network.Network) -> list[network.Pool]:
    return [pool for subnet in net.subnets for pool in subnet.pools]


def _known(net: network.Network) -> str:
    listed = ", ".join(f"{pool.range} {pool.name}".rstrip() for pool in _all(net))
    return f"pools: {listed or 'none'}"


def _put(net: network.Network, old: network.Subnet, new: network.Subnet) -> network.Network:
    return structs.replace(net, subnets=tuple(new if subnet == old else subnet for subnet in net.subnets))


def _check_apart(family: ranges.Family, new: Iterable[ranges.Range], old: Mapping[str, str], *, what: str) -> None:
    """Refuse new ranges that overlap each other or an old range; ``old`` has the name of each, perhaps empty."""
    both = sorted([(run, True) for run in new] + [(ranges.parse_range(text)[1], False) for text in old])
    for (first, _), (second, is_new) in itertools.pairwise(both):
        if first.overlaps(second):
            pair = (second, first) if is_new else (first, second)
            new_text, old_text = (ranges.format_range(family, run) for run in pair)
            name = f" ({old[old_text]})" if old.get(old_text) else ""
            raise errors.InvalidError(
                f"{what} {new_text} overlaps {what} {old_text}{name}",
                hint="choose another range, or remove that range first",
            )


def add(net: network.Network, spec: opcodes.PoolSpec | opcodes.PoolMod, *, force: bool) -> network.Network:
    """Return the network with an additional pool: a range, or a whole subnet."""
    if bool(spec.range) == bool(spec.subnet):
        raise errors.InvalidError("a pool needs either a range or a subnet")
    if spec.subnet:
        subnet = subnets.find(net, spec.subnet)
        family, run = subnets.address_range(subnet)
    else:
        subnet, family, run = _locate(net, spec.range, what="pool", force=force)
    name = _new_name(spec.name or "", other_pools=_all(net))
    _check_apart(family, [run], {pool.range: pool.name for pool in subnet.pools}, what="pool")
    new = network.Pool(range=ranges.format_range(family, run), name=name)
    return _put(net, subnet, structs.replace(subnet, pools=(*subnet.pools, new)))


def _new_name(text: str, *, other_pools: Iterable[network.Pool]) -> str:
    name = subnets.checked_name(text, what="pool")
    same_name = next((pool for pool in other_pools if name and pool.name == name), None)
    if same_name:
        raise errors.InvalidError(
            f"pool name {name} is already the name of pool {same_name.range}",
            hint="pool names are unique in a network",
        )
    return name


def find(net: network.Network, ident: str) -> list[network.Pool]:
    """Return all parts of the pool with a name, or the pool with exactly this range; NotFoundError, InvalidError."""
    if subnets.is_name(ident):
        matching_pools = [pool for pool in _all(net) if pool.name == ident]
    else:
        requested = ranges.parse_range(ident)
        matching_pools = [pool for pool in _all(net) if ranges.parse_range(pool.range) == requested]
    if not matching_pools:
        raise errors.NotFoundError(f"network {net.name} has no pool {ident}", hint=_known(net))
    return matching_pools


def change(net: network.Network, mod: opcodes.PoolMod, *, force: bool) -> network.Network:
    """Return the network after an action on its pools."""
    match mod.action:
        case "add":
            return add(net, mod, force=force)
        case "modify":
            return _rename(net, mod)
        case "remove" if mod.ident:
            removed = find(net, mod.ident)
            return _each(net, lambda pool: () if pool in removed else (pool,))
        case "remove":
            return _remove(net, mod.range)


def _rename(net: network.Network, mod: opcodes.PoolMod) -> network.Network:
    if mod.name is None:
        raise errors.InvalidError(f"no change of pool {mod.ident} was requested", hint="specify a name")
    parts = find(net, mod.ident)
    name = _new_name(mod.name, other_pools=(pool for pool in _all(net) if pool not in parts))
    return _each(net, lambda pool: (structs.replace(pool, name=name) if pool in parts else pool,))


def _remove(net: network.Network, spec: RangeText) -> network.Network:
    """Return the network without a range in its pools: they are trimmed, split or removed, and keep their names."""
    removed = parse(spec)
    new = _each(net, lambda pool: [structs.replace(pool, range=part) for part in _without(pool.range, removed)])
    if new == net:
        raise errors.NotFoundError(f"no pool of network {net.name} has any of {_text(spec)}", hint=_known(net))
    return new


def _each(net: network.Network, edit: Callable[[network.Pool], Iterable[network.Pool]]) -> network.Network:
    """Return the network with each pool replaced by the pools that ``edit`` returns for it."""
    return structs.replace(
        net,
        subnets=tuple(
            structs.replace(subnet, pools=tuple(new for pool in subnet.pools for new in edit(pool)))
            for subnet in net.subnets
        ),
    )


def _without(text: str, removed: subnets.AddressRange) -> list[str]:
    family, run = ranges.parse_range(text)
    if family is not removed[0]:
        return [text]
    return [ranges.format_range(family, part) for part in run.minus(removed[1])]


def reserved(net: network.Network) -> list[subnets.AddressRange]:
    """Return the external reservations of all subnets."""
    return [ranges.parse_range(text) for subnet in net.subnets for text in subnet.external]


def reserve(net: network.Network, texts: Iterable[str], *, force: bool) -> network.Network:
    """Return the network with additional external reservations, which may cover pools and addresses in use."""
    added: dict[str, list[ranges.Range]] = {}
    for text in texts:
        subnet, _, run = _locate(net, text, what="reserved range", force=force)
        added.setdefault(subnet.uuid, []).append(run)
    return structs.replace(
        net, subnets=tuple(_with_external(subnet, added.get(subnet.uuid, ())) for subnet in net.subnets)
    )


def _with_external(subnet: network.Subnet, added: Sequence[ranges.Range]) -> network.Subnet:
    family = ranges.parse_cidr(subnet.cidr).family
    _check_apart(family, added, dict.fromkeys(subnet.external, ""), what="external reservation")
    listed = sorted([*added, *(ranges.parse_range(text)[1] for text in subnet.external)])
    return structs.replace(subnet, external=tuple(ranges.format_range(family, run) for run in listed))


def release(net: network.Network, texts: Iterable[str]) -> network.Network:
    """Return the network without ranges in its external reservations: these are trimmed, split or removed."""
    reservations = _sorted(reserved(net))
    released = [(text, ranges.parse_range(text)) for text in texts]
    for text, (family, run) in released:
        if not _overlapping(reservations[family], run):
            known = ", ".join(text for subnet in net.subnets for text in subnet.external) or "none"
            raise errors.NotFoundError(
                f"no address of {text} is reserved externally in network {net.name}",
                hint=f"external reservations: {known:.400}",
            )
    removed = _sorted(address_range for _, address_range in released)
    return structs.replace(net, subnets=tuple(_without_external(subnet, removed) for subnet in net.subnets))


def _without_external(subnet: network.Subnet, removed: Mapping[ranges.Family, list[ranges.Range]]) -> network.Subnet:
    family = ranges.parse_cidr(subnet.cidr).family
    remaining = [
        part
        for run in (ranges.parse_range(text)[1] for text in subnet.external)
        for part in ranges.difference([run], _overlapping(removed[family], run))
    ]
    return structs.replace(subnet, external=tuple(ranges.format_range(family, run) for run in remaining))


def _sorted(address_ranges: Iterable[subnets.AddressRange]) -> Mapping[ranges.Family, list[ranges.Range]]:
    listed = list(address_ranges)
    return {key: ranges.union(run for family, run in listed if family is key) for key in ranges.Family}


def _overlapping(runs: Sequence[ranges.Range], run: ranges.Range) -> list[ranges.Range]:
    """Return which of sorted, disjoint ranges share a number with a range. Cost: a binary search."""
    start = bisect.bisect_left(runs, run.first, key=lambda other: other.last)
    return list(itertools.takewhile(lambda other: other.first <= run.last, itertools.islice(runs, start, None)))

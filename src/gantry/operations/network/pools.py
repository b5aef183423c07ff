"""Edits of the ranges in a network's subnets: pools, and external reservations; each returns the next network.

Called, like ``subnets``, by the units that create and change networks; pure. A range belongs to the subnet
that contains it, so a command names none (contracts/networks.md#pools).

Invariants of what is returned: a range lies in its subnet; pools do not overlap each other, external ranges neither,
while an external range may cover pools and addresses in use. Who uses which address is not written here: instances
say so, and a pool over addresses in use has them as reserved from the start.

A pool's name is unique in its network. A pool that a removal has split is still one pool: its parts share the name,
and ``ip=NAME`` takes from the first part with room. Renaming by name renames all parts, by range the one.
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
"""Addresses. FIRST-LAST of more is taken for a slip unless ``force`` is given; a CIDR or a size says it is meant."""

Given = str | opcodes.RangeSpec


def parse(given: Given) -> tuple[ranges.Family, ranges.Range]:
    """Return a range written as text, or as first address with size, last address, or both; raises InvalidError."""
    if isinstance(given, str):
        return ranges.parse_range(given)
    first = ranges.parse_address(given.start)
    if given.end is None:
        return first.family, ranges.sized(first.value, 1 if given.size is None else given.size)
    family, run = ranges.parse_range(f"{first}-{given.end}")
    if given.size not in (None, run.size):
        raise errors.InvalidError(f"{first}-{given.end} has {run.size} addresses, not {given.size}")
    return family, run


def _text(given: Given) -> str:
    if isinstance(given, str):
        return given
    return f"{given.start}-{given.end}" if given.end else f"of {given.size or 1} addresses from {given.start} on"


def _locate(
    net: network.Network, given: Given, *, what: str, force: bool
) -> tuple[network.Subnet, ranges.Family, ranges.Range]:
    """Return the subnet that contains a range, and the range; a large one only with ``force``."""
    family, run = parse(given)
    if run.size > LARGE and isinstance(given, str) and "/" not in given and not force:
        raise errors.InvalidError(
            f"{what} {given} has {run.size:,} addresses, more than {LARGE:,}", hint="if you mean it, add --force"
        )
    places = [(subnet, ranges.parse_cidr(subnet.cidr)) for subnet in net.subnets]
    touched = [(subnet, cidr) for subnet, cidr in places if cidr.family is family and cidr.range.overlaps(run)]
    for subnet, cidr in touched:
        if cidr.range.covers(run):
            return subnet, family, run
    if touched:
        listed = " and ".join(str(cidr) for _, cidr in touched)
        raise errors.InvalidError(f"{what} {_text(given)} reaches out of {listed}", hint="it has to lie in one subnet")
    known = ", ".join(subnet.cidr for subnet in net.subnets) or "none"
    raise errors.InvalidError(
        f"{what} {_text(given)} is outside every subnet of the network ({known})",
        hint="add its subnet first: --subnet add:cidr=CIDR",
    )


def _all(net: network.Network) -> list[network.Pool]:
    return [pool for subnet in net.subnets for pool in subnet.pools]


def _known(net: network.Network) -> str:
    listed = ", ".join(f"{pool.range} {pool.name}".rstrip() for pool in _all(net))
    return f"its pools are: {listed or 'none'}"


def _put(net: network.Network, old: network.Subnet, new: network.Subnet) -> network.Network:
    return structs.replace(net, subnets=tuple(new if subnet == old else subnet for subnet in net.subnets))


def _check_apart(family: ranges.Family, new: Iterable[ranges.Range], old: Mapping[str, str], *, what: str) -> None:
    """Refuse new ranges that overlap one another or an old one; ``old`` has a name, or none, for each."""
    both = sorted([(run, True) for run in new] + [(ranges.parse_range(text)[1], False) for text in old])
    for (first, _), (second, is_new) in itertools.pairwise(both):
        if first.overlaps(second):
            pair = (second, first) if is_new else (first, second)
            one, two = (ranges.format_range(family, run) for run in pair)
            name = f" ({old[two]})" if old.get(two) else ""
            raise errors.InvalidError(
                f"{what} {one} overlaps {what} {two}{name}", hint="choose a range beside it, or remove that one first"
            )


def add(net: network.Network, spec: opcodes.PoolSpec | opcodes.PoolMod, *, force: bool) -> network.Network:
    """Return the network with one more pool: a range, or all of a subnet."""
    if bool(spec.range) == bool(spec.subnet):
        raise errors.InvalidError("a pool needs a range or a subnet, and one of them only")
    if spec.subnet:
        subnet = subnets.find(net, spec.subnet)
        family, run = subnets.place_of(subnet)
    else:
        subnet, family, run = _locate(net, spec.range, what="pool", force=force)
    name = _new_name(spec.name or "", others=_all(net))
    _check_apart(family, [run], {pool.range: pool.name for pool in subnet.pools}, what="pool")
    new = network.Pool(range=ranges.format_range(family, run), name=name)
    return _put(net, subnet, structs.replace(subnet, pools=(*subnet.pools, new)))


def _new_name(text: str, *, others: Iterable[network.Pool]) -> str:
    name = subnets.checked_name(text, what="pool")
    taken = next((pool for pool in others if name and pool.name == name), None)
    if taken:
        raise errors.InvalidError(
            f"pool name {name} is taken by pool {taken.range}", hint="pool names are unique in a network"
        )
    return name


def find(net: network.Network, ident: str) -> list[network.Pool]:
    """Return the pool with a name, in all its parts, or with exactly a range; raises NotFoundError, InvalidError."""
    if subnets.is_name(ident):
        found = [pool for pool in _all(net) if pool.name == ident]
    else:
        wanted = ranges.parse_range(ident)
        found = [pool for pool in _all(net) if ranges.parse_range(pool.range) == wanted]
    if not found:
        raise errors.NotFoundError(f"network {net.name} has no pool {ident}", hint=_known(net))
    return found


def change(net: network.Network, mod: opcodes.PoolMod, *, force: bool) -> network.Network:
    """Return the network after an action on its pools."""
    match mod.action:
        case "add":
            return add(net, mod, force=force)
        case "modify":
            return _rename(net, mod)
        case "remove" if mod.ident:
            gone = find(net, mod.ident)
            return _each(net, lambda pool: () if pool in gone else (pool,))
        case "remove":
            return _remove(net, mod.range)


def _rename(net: network.Network, mod: opcodes.PoolMod) -> network.Network:
    if mod.name is None:
        raise errors.InvalidError(f"nothing is asked to be changed in pool {mod.ident}", hint="give it a name")
    parts = find(net, mod.ident)
    name = _new_name(mod.name, others=(pool for pool in _all(net) if pool not in parts))
    return _each(net, lambda pool: (structs.replace(pool, name=name) if pool in parts else pool,))


def _remove(net: network.Network, given: Given) -> network.Network:
    """Return the network without a range in its pools: they are trimmed, split or gone, and their names stay."""
    place = parse(given)
    new = _each(net, lambda pool: [structs.replace(pool, range=rest) for rest in _without(pool.range, place)])
    if new == net:
        raise errors.NotFoundError(f"no pool of network {net.name} has any of {_text(given)}", hint=_known(net))
    return new


def _each(net: network.Network, edit: Callable[[network.Pool], Iterable[network.Pool]]) -> network.Network:
    """Return the network with what ``edit`` makes of each pool in the pool's place."""
    return structs.replace(
        net,
        subnets=tuple(
            structs.replace(subnet, pools=tuple(new for pool in subnet.pools for new in edit(pool)))
            for subnet in net.subnets
        ),
    )


def _without(text: str, place: subnets.Place) -> list[str]:
    family, run = ranges.parse_range(text)
    return [ranges.format_range(family, part) for part in run.minus(place[1])] if family is place[0] else [text]


def reserved(net: network.Network) -> list[subnets.Place]:
    """Return the external reservations of all subnets."""
    return [ranges.parse_range(text) for subnet in net.subnets for text in subnet.external]


def reserve(net: network.Network, texts: Iterable[str], *, force: bool) -> network.Network:
    """Return the network with more external reservations, which may cover pools and addresses in use."""
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
    """Return the network without ranges in its external reservations: those are trimmed, split or gone."""
    there = _sorted(reserved(net))
    gone = [(text, ranges.parse_range(text)) for text in texts]
    for text, (family, run) in gone:
        if not _overlapping(there[family], run):
            known = ", ".join(one for subnet in net.subnets for one in subnet.external) or "nothing"
            raise errors.NotFoundError(
                f"nothing of {text} is reserved externally in network {net.name}", hint=f"reserved are: {known:.400}"
            )
    removed = _sorted(place for _, place in gone)
    return structs.replace(net, subnets=tuple(_without_external(subnet, removed) for subnet in net.subnets))


def _without_external(subnet: network.Subnet, removed: Mapping[ranges.Family, list[ranges.Range]]) -> network.Subnet:
    family = ranges.parse_cidr(subnet.cidr).family
    left = [
        rest
        for run in (ranges.parse_range(text)[1] for text in subnet.external)
        for rest in ranges.difference([run], _overlapping(removed[family], run))
    ]
    return structs.replace(subnet, external=tuple(ranges.format_range(family, run) for run in left))


def _sorted(places: Iterable[subnets.Place]) -> Mapping[ranges.Family, list[ranges.Range]]:
    listed = list(places)
    return {of: ranges.union(run for family, run in listed if family is of) for of in ranges.Family}


def _overlapping(runs: Sequence[ranges.Range], run: ranges.Range) -> list[ranges.Range]:
    """Return which of sorted ranges, apart from each other, share a number with one. Cost: a binary search."""
    start = bisect.bisect_left(runs, run.first, key=lambda one: one.last)
    return list(itertools.takewhile(lambda one: one.first <= run.last, itertools.islice(runs, start, None)))

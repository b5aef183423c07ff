"""Admission rules: which objects a server rejects although they fit their schema.

The embedded API server calls it on each create and update, the admission webhook for a real API server. Pure.

Differences from Metal3's webhooks. Stricter: a ``namePrefix`` that cannot begin an object name is rejected, and a
shrinking pool is checked against the address objects, not against its status. Laxer: a random pool may have any finite
size, an address may be pre-allocated anywhere in the subnets of the ranges, and the rules do not apply to an update
that leaves the spec unchanged or to an object that is being deleted, so that rules newer than the object do not block
them.

See contracts/ippool-claims.md#admission.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator

from gantry import errors
from gantry.address import ranges
from gantry.kubernetes.api import capi, data, ipam, meta, schema
from gantry.kubernetes.claims import actions, allocate, pool_space

AddressesIn = Callable[[meta.Ref], Iterable[actions.Address]]
"""Returns the address objects of a pool."""
ClaimOf = Callable[[meta.Ref], meta.Resource | None]
"""Returns a claim, None if there is none."""

MAX_LISTED = 20
"""Maximum number of addresses listed when a smaller pool is rejected, or in a warning."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def _no_claim(_: meta.Ref) -> None:
    """Return no claim."""


def review(
    new: meta.Resource, old: meta.Resource | None, *, in_use: AddressesIn, claim_of: ClaimOf = _no_claim
) -> list[schema.Cause]:
    """Return why a create or update is rejected, nothing if it is allowed; ``old`` is None for a create."""
    if new.is_deleting:
        return []
    match new, old:
        case ipam.IPPool(), ipam.IPPool() | None:
            return list(_pool(new, old, in_use))
        case ipam.IPClaim(), ipam.IPClaim() | None:
            return [*_claim(new), *_immutable_fields(new, old, ("pool",))]
        case capi.IPAddressClaim(), capi.IPAddressClaim() | None:
            return [*_claim(new), *_immutable_fields(new, old, ("spec",))]
        case ipam.IPAddress(), ipam.IPAddress() | None:
            return [*_address(new), *_immutable_fields(new, old, ("address", "pool", "claim"))]
        case capi.IPAddress(), capi.IPAddress() | None:
            return [*_capi_address(new, claim_of(new.claim)), *_immutable_fields(new, old, ("spec",))]
        case data.Metal3DataTemplate(), data.Metal3DataTemplate() | None:
            return [*_template(new), *_immutable_fields(new, old, ("metaData", "networkData"))]
    return []


def warnings(new: ipam.IPPool, pools: Iterable[ipam.IPPool]) -> list[str]:
    """Return warnings about possible mistakes in a valid pool.

    Ranges that overlap those of a pool with another ``namePrefix``; addresses pre-allocated outside of the ranges;
    prefix lengths that no address of the ranges can have.
    """
    out = [] if new.is_deleting else [*_outside_ranges(new.spec), *_impossible_prefixes(new.spec)]
    for pool in pools:
        is_shared = pool.ref == new.ref or pool.spec.name_prefix == new.spec.name_prefix
        if not is_shared and pool.metadata.namespace == new.metadata.namespace and _overlaps(new.spec, pool.spec):
            out.append(
                f"ranges overlap with those of IPPool {pool.metadata.name}, which has another namePrefix: "
                "both pools allocate the same addresses"
            )
    return out


def _outside_ranges(spec: ipam.PoolSpec) -> Iterator[str]:
    valid = _valid_ranges(spec)
    preallocated = sorted(map(ranges.parse_address, spec.pre_allocations.values()))
    outside = [str(address) for address in preallocated if not _contains(valid, address)]
    if outside:
        more = f" and {len(outside) - MAX_LISTED} more" if len(outside) > MAX_LISTED else ""
        yield (
            f"spec.preAllocations: {', '.join(outside[:MAX_LISTED])}{more}: in a subnet of the pool, but in none of "
            "its ranges; only the claims of these names can get them"
        )


def _impossible_prefixes(spec: ipam.PoolSpec) -> Iterator[str]:
    out = dict[str, None]()
    for index, spec_range in enumerate(spec.pools):
        part, prefix = pool_space.parse_range(spec_range), spec_range.prefix or spec.prefix
        if part and not 0 <= prefix <= part.family.bits:
            where = f"spec.pools[{index}].prefix" if spec_range.prefix else "spec.prefix"
            out[f"{where}: {prefix} is not a prefix length of IPv{int(part.family)} (0 to {part.family.bits})"] = None
    return iter(out)


def _overlaps(first: ipam.PoolSpec, second: ipam.PoolSpec) -> bool:
    try:
        parts = [[part for part in map(pool_space.parse_range, spec.pools) if part] for spec in (first, second)]
    except errors.InvalidError:
        return False
    return any(
        mine.family is theirs.family and mine.bounds.overlaps(theirs.bounds) for mine in parts[0] for theirs in parts[1]
    )


def _bad(field: str, value: object, text: str) -> schema.Cause:
    quoted = f'"{value}"' if isinstance(value, str) else value
    return schema.Cause(schema.INVALID, field, f"Invalid value: {quoted}: {text}")


def _immutable_fields(new: meta.Resource, old: meta.Resource | None, names: tuple[str, ...]) -> Iterator[schema.Cause]:
    """Yield the immutable fields of a spec (``spec``: the whole spec) that an update changes."""
    if old is None:
        return
    before, after = (body.to_json().get("spec", {}) for body in (old, new))
    for name in names:
        if name == "spec" and before != after:
            yield schema.Cause(schema.FORBIDDEN, "spec", "Forbidden: spec is immutable: it cannot be modified")
        elif (
            isinstance(before, dict)
            and isinstance(after, dict)
            and _immutable_part(before, name) != _immutable_part(after, name)
        ):
            yield _bad(f"spec.{name}", _name_or_value(after.get(name)), "cannot be modified")


def _immutable_part(spec: schema.Json, name: str) -> object:
    """Return the immutable part of a field: of a reference its name, namespace and kind."""
    value = spec.get(name)
    if name in ("pool", "claim") and isinstance(value, dict):
        return [value.get(key) for key in ("name", "namespace", "kind")]
    return value


def _name_or_value(value: object) -> object:
    return value.get("name") if isinstance(value, dict) else value


def _pool(new: ipam.IPPool, old: ipam.IPPool | None, in_use: AddressesIn) -> Iterator[schema.Cause]:
    spec = new.spec
    if old:
        if spec.name_prefix != old.spec.name_prefix:
            yield _bad("spec.namePrefix", spec.name_prefix, "cannot be modified")
        before, after = (address.allocation_strategy or ipam.SEQUENTIAL for address in (old.spec, spec))
        if before != after:
            yield _bad("spec.allocationStrategy", after, "cannot be modified after creation")
        if spec == old.spec:
            return
    elif not _NAME.fullmatch(f"{spec.name_prefix}-0") or len(spec.name_prefix) > allocate.MAX_NAME_LENGTH - 40:
        yield _bad("spec.namePrefix", spec.name_prefix, "is not a valid beginning of the name of an IPAddress object")
    causes = [*_invalid_addresses(spec), *_ranges(spec)]
    yield from causes
    if not causes:
        yield from _invalid_preallocations(spec)
        yield from itertools.islice(_stranded_addresses(new, in_use), MAX_LISTED)


def _invalid_addresses(spec: ipam.PoolSpec) -> Iterator[schema.Cause]:
    """Yield the invalid addresses of a pool."""
    addresses = {"spec.gateway": spec.gateway}
    addresses.update((f"spec.dnsServers[{index}]", text) for index, text in enumerate(spec.dns_servers))
    for index, spec_range in enumerate(spec.pools):
        field = f"spec.pools[{index}]"
        addresses.update(
            {f"{field}.gateway": spec_range.gateway, f"{field}.start": spec_range.start, f"{field}.end": spec_range.end}
        )
        addresses.update((f"{field}.dnsServers[{number}]", text) for number, text in enumerate(spec_range.dns_servers))
    for field, text in addresses.items():
        if text and pool_space.parse(text) is None:
            yield _bad(field, text, "is not a valid IP address")
    for name, text in spec.pre_allocations.items():
        if pool_space.parse(text) is None:
            yield _bad(f"spec.preAllocations[{name}]", text, "is not a valid IP address")
    for index, text in enumerate(spec.excluded_addresses):
        try:
            ranges.parse_range(text)
        except errors.InvalidError as error:
            yield _bad(f"spec.excludedAddresses[{index}]", text, str(error))


def _ranges(spec: ipam.PoolSpec) -> Iterator[schema.Cause]:
    for index, spec_range in enumerate(spec.pools):
        field = f"spec.pools[{index}]"
        if not (spec_range.start or spec_range.end or spec_range.subnet):
            text = "pool entry must specify at least one of start, end, or subnet"
            yield schema.Cause(schema.INVALID, field, f"Invalid value: {text}")
            continue
        try:
            pool_space.parse_range(spec_range)
        except errors.InvalidError as error:
            yield _bad(field, spec_range.start or spec_range.end or spec_range.subnet, str(error))
        if spec.allocation_strategy == ipam.RANDOM and spec_range.start and not (spec_range.end or spec_range.subnet):
            text = 'cannot be used with allocationStrategy "random" without an end or a subnet: the range is unbounded'
            yield _bad(field, spec_range.start, text)


def _invalid_preallocations(spec: ipam.PoolSpec) -> Iterator[schema.Cause]:
    claims, valid = dict[ranges.Address, str](), [*_valid_ranges(spec), *_subnets(spec)]
    for name, text in sorted(spec.pre_allocations.items()):
        address, where = ranges.parse_address(text), f"spec.preAllocations[{name}]"
        if address in claims:
            yield _bad(where, text, f'IP address is already pre-allocated to claim "{claims[address]}"')
        claims.setdefault(address, name)
        if not _contains(valid, address):
            yield _bad(where, text, "is out of bounds of the pools given")


def _stranded_addresses(pool: ipam.IPPool, in_use: AddressesIn) -> Iterator[schema.Cause]:
    valid, subnets = _valid_ranges(pool.spec), _subnets(pool.spec)
    preallocated = set(map(pool_space.parse, pool.spec.pre_allocations.values()))
    for used in in_use(pool.ref):
        address = pool_space.parse(used.spec.address)
        if address and not _contains([*valid, *subnets] if address in preallocated else valid, address):
            text = f"is in use by {used.claim} but out of bounds of the pools given"
            yield _bad("spec.pools", used.spec.address, text)


def _valid_ranges(spec: ipam.PoolSpec) -> list[tuple[ranges.Family, ranges.Range]]:
    """Return each range, which is valid, limited to all of its bounds."""
    out = []
    for spec_range in spec.pools:
        start, end = (ranges.parse_address(text) if text else None for text in (spec_range.start, spec_range.end))
        parsed_subnet = pool_space.parse_subnet(spec_range.subnet)
        family = next(bound.family for bound in (start, end, parsed_subnet[0] if parsed_subnet else None) if bound)
        bounds = ranges.span(start.value if start else 0, end.value if end else (1 << family.bits) - 1)
        valid = bounds.intersection(parsed_subnet[0].range) if bounds and parsed_subnet else bounds
        if valid:
            out.append((family, valid))
    return out


def _subnets(spec: ipam.PoolSpec) -> list[tuple[ranges.Family, ranges.Range]]:
    """Return the subnets of the ranges, in which an address may be pre-allocated."""
    parsed = (pool_space.parse_subnet(spec_range.subnet) for spec_range in spec.pools)
    return [(cidr.family, cidr.range) for cidr, _ in filter(None, parsed)]


def _contains(valid: list[tuple[ranges.Family, ranges.Range]], address: ranges.Address) -> bool:
    return any(family is address.family and address.value in bounds for family, bounds in valid)


def _claim(new: actions.Claim) -> Iterator[schema.Cause]:
    if not new.pool.name:
        field = "spec.pool.name" if isinstance(new, ipam.IPClaim) else "spec.poolRef.name"
        yield schema.Cause(schema.INVALID, field, "Invalid value: cannot be empty")
    yield from _annotation(new, new.requested)


def _annotation(new: meta.Resource, text: str) -> Iterator[schema.Cause]:
    if text and pool_space.parse(text) is None:
        yield _bad(f"metadata.annotations.{ipam.REQUEST_ANNOTATION}", text, "is not a valid IP address")


def _address(new: ipam.IPAddress) -> Iterator[schema.Cause]:
    names = {"spec.pool.name": new.spec.pool.name, "spec.claim.name": new.spec.claim.name}
    for field, name in {**names, "spec.address": new.spec.address}.items():
        if not name:
            yield schema.Cause(schema.INVALID, field, "Invalid value: cannot be empty")
    if new.spec.address and pool_space.parse(new.spec.address) is None:
        yield _bad("spec.address", new.spec.address, "is not a valid IP address")
    yield from _annotation(new, new.metadata.annotations.get(ipam.REQUEST_ANNOTATION, ""))


def _capi_address(new: capi.IPAddress, claim: meta.Resource | None) -> Iterator[schema.Cause]:
    address = pool_space.parse(new.spec.address)
    if address is None:
        yield _bad("spec.address", new.spec.address, "is not a valid IP address")
    elif new.spec.prefix > address.family.bits:
        yield _bad("spec.prefix", new.spec.prefix, f"prefix is too large for an IPv{int(address.family)} address")
    if new.spec.gateway and pool_space.parse(new.spec.gateway) is None:
        yield _bad("spec.gateway", new.spec.gateway, "is not a valid IP address")
    if isinstance(claim, capi.IPAddressClaim) and not claim.spec.pool_ref.is_same(new.spec.pool_ref):
        text = f"{claim.ref} refers to another pool: {claim.spec.pool_ref}"
        yield _bad("spec.poolRef", str(new.spec.pool_ref), text)


def _template(new: data.Metal3DataTemplate) -> Iterator[schema.Cause]:
    networks = new.spec.network_data.networks
    for name, family_networks in (("ipv4", networks.ipv4), ("ipv6", networks.ipv6)):
        for index, network in enumerate(family_networks):
            if not (
                network.ip_address_from_ip_pool or network.from_pool_ref.name or network.from_pool_annotation.object
            ):
                where = f"spec.networkData.networks.{name}[{index}].fromPoolRef"
                text = "fromPoolRef needs to contain a reference to an IPPool"
                yield schema.Cause(schema.REQUIRED, where, f"Required value: {text}")

"""Reconcile one pool: its metadata, its status, its deletion.

The pool controller calls it when a pool has work, delayed so that one status update covers many claims; at once if the
pool has no finalizer yet, because its claims wait for that. No decision relies on the status. The controller remembers
the last status update (``WrittenStatus``): a server whose definition has fewer fields prunes the others, and these must
not be written again and again.
"""

import datetime
import re
from collections.abc import Iterator, Mapping

import msgspec

from gantry.kubernetes.api import ipam, meta, patches
from gantry.kubernetes.claims import actions, allocate, cache, pool_space

MAX_MAP_BYTES = 1_000_000
"""Maximum total bytes of the maps in a pool's status: etcd stores no object above 1.5 MB.

The size of an entry includes its entry in ``managedFields``, which repeats its name.
"""

MAX_COUNT = (1 << 63) - 1

_LABEL = re.compile("[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""A valid label value; the name of an object may be longer."""


class WrittenStatus(msgspec.Struct, frozen=True):
    """A status that was written, and the status that the server stored."""

    desired: ipam.PoolStatus
    stored: ipam.PoolStatus


class Decision(msgspec.Struct, frozen=True):
    """The next actions for a pool; ``new_status`` is the new status if an action writes it (``WrittenStatus``)."""

    steps: tuple[actions.Action, ...] = ()
    new_status: ipam.PoolStatus | None = None


def decide(
    objects: cache.Cache, ref: meta.Ref, *, now: datetime.datetime, written: WrittenStatus | None = None
) -> Decision:
    """Return the next actions for a pool; none while it is paused."""
    pool = objects.pool(ref)
    if pool is None or objects.is_pool_paused(pool):
        return Decision()
    if pool.is_deleting:
        if ipam.POOL_FINALIZER in pool.metadata.finalizers and not _is_used(objects, ref):
            return Decision((_removal(objects, pool),))
    elif metadata_patch := _metadata_patch(objects, pool):
        return Decision((metadata_patch,))
    return _status(objects, pool, now, written)


def _is_used(objects: cache.Cache, ref: meta.Ref) -> bool:
    """Return whether a pool has addresses or reservations, or is about to have one."""
    if any(True for _ in objects.addresses_in(ref)) or objects.networks.has_reservations(ref):
        return True
    return any(objects.is_busy(claim) for claim in objects.assumed_addresses(ref))


def _removal(objects: cache.Cache, pool: ipam.IPPool) -> actions.Patch:
    """Return the removal of the pool's finalizer.

    It checks that no assumed address has an object: the answer to its creation may have been lost.
    """
    absent = tuple(
        meta.Ref(claim.group, "IPAddress", claim.namespace, allocate.name_of(pool, address))
        for claim, address in sorted(objects.assumed_addresses(pool.ref).items())
    )
    return msgspec.structs.replace(actions.without_finalizer(pool, ipam.POOL_FINALIZER), absent=absent)


def _metadata_patch(objects: cache.Cache, pool: ipam.IPPool) -> actions.Patch | None:
    """Return the patch that adds the finalizer, and the labels and the owner references of the pool's Cluster."""
    old, changed = pool.metadata, dict[str, object]()
    if ipam.POOL_FINALIZER not in old.finalizers:
        changed["finalizers"] = [*old.finalizers, ipam.POOL_FINALIZER]
    name = pool.spec.cluster_name
    labels = {meta.CLUSTER_LABEL: name, meta.PROVIDER_LABEL: ipam.PROVIDER} if _LABEL.fullmatch(name) else {}
    if not labels.items() <= old.labels.items():
        changed["labels"] = labels
    references = old.owner_references
    for owner in objects.clusters.owners(old.namespace, name):
        references = _with_owner(references, owner)
    if references != old.owner_references:
        changed["ownerReferences"] = [msgspec.to_builtins(reference) for reference in references]
    return actions.patch(pool, changed) if changed else None


def _with_owner(references: tuple[meta.OwnerReference, ...], owner: meta.Resource) -> tuple[meta.OwnerReference, ...]:
    """Return owner references with the current version and UID of an owner; the flags of an existing one are kept."""
    ref = owner.ref
    same = [each for each in references if (each.group, each.kind, each.name) == (ref.group, ref.kind, ref.name)]
    current = msgspec.structs.replace(
        same[0] if same else meta.OwnerReference(kind=ref.kind, name=ref.name),
        api_version=owner.api_version,
        uid=owner.metadata.uid,
    )
    return references if same == [current] else (*(each for each in references if each not in same), current)


def _status(objects: cache.Cache, pool: ipam.IPPool, now: datetime.datetime, written: WrittenStatus | None) -> Decision:
    old = written.desired if written and written.stored == pool.status else pool.status
    new = status(objects, pool, old=old, now=now)
    if new == old:
        return Decision()
    change = patches.difference(_plain(pool.status), _plain(new))
    return Decision((actions.patch_status(pool, change), *_events(pool, old, new)), new)


def _plain(pool_status: ipam.PoolStatus) -> dict[str, object]:
    return msgspec.json.decode(msgspec.json.encode(pool_status), type=dict[str, object])


def status(objects: cache.Cache, pool: ipam.IPPool, *, old: ipam.PoolStatus, now: datetime.datetime) -> ipam.PoolStatus:
    """Return the desired status of a pool; ``lastUpdated`` changes only with the allocations."""
    indexes, names = _addresses_by_claim(objects, pool)
    preallocated = {name: text for name, text in pool.spec.pre_allocations.items() if name not in indexes}
    maps = _truncated_maps(
        [indexes, {**preallocated, **indexes}, names], remaining=MAX_MAP_BYTES - _bytes(pool.spec.pre_allocations)
    )
    space = objects.space_of(pool.ref)
    total, used, free = space.counts() if space else (0, 0, 0)
    waiting = objects.waiting(pool.ref)
    new = ipam.PoolStatus(
        last_updated=old.last_updated,
        indexes=maps[0],
        allocations=maps[1],
        addresses=maps[2],
        total=min(total, MAX_COUNT),
        used=used,
        free=min(free, MAX_COUNT),
        waiting=waiting,
        conditions=old.conditions,
    )
    for condition in (_exhausted_condition(space, free), _ready_condition(objects, pool, complete=maps[0] == indexes)):
        new = msgspec.structs.replace(new, conditions=meta.with_condition(new.conditions, condition, now=now))
    if not old.last_updated or (old.indexes, old.allocations) != (new.indexes, new.allocations):
        new = msgspec.structs.replace(new, last_updated=meta.stamp(now))
    return new


def _addresses_by_claim(objects: cache.Cache, pool: ipam.IPPool) -> tuple[dict[str, str], dict[str, str]]:
    """Return addresses and object names by claim name; the kind precedes a CAPI claim's name if both kinds have it.

    An invalid address, which CAPI's definition lets through, is skipped: the server would reject the whole status.
    """
    valid = (
        address
        for address in objects.addresses_in(pool.ref)
        if isinstance(address, ipam.IPAddress) or _is_address(address)
    )
    ordered = sorted(valid, key=lambda address: (address.claim, address.ref))
    claim_names = {address.claim.name for address in ordered if isinstance(address, ipam.IPAddress)}
    indexes, names = {}, {}
    for address in ordered:
        is_ambiguous = address.claim.kind == "IPAddressClaim" and address.claim.name in claim_names
        name = f"IPAddressClaim/{address.claim.name}" if is_ambiguous else address.claim.name
        indexes[name], names[name] = address.spec.address, address.metadata.name
    return indexes, names


def _is_address(address: actions.Address) -> bool:
    return pool_space.parse(address.spec.address) is not None


def _truncated_maps(maps: list[dict[str, str]], *, remaining: int) -> list[dict[str, str]]:
    """Return the maps, limited to ``remaining`` bytes: drop the last ones first, and truncate the first."""
    out = list[dict[str, str]]()
    for entries in maps:
        size = _bytes(entries)
        if size > remaining:
            entries = dict(_truncated(entries, remaining)) if not out else {}
        out.append(entries)
        remaining -= min(size, remaining)
    return out


def _bytes(entries: Mapping[str, str]) -> int:
    return sum(_size(key, value) for key, value in entries.items())


def _size(key: str, value: str) -> int:
    """Return the size in bytes of ``"key":"value",`` and of ``"f:key":{},``."""
    return 2 * len(key) + len(value) + 14


def _truncated(entries: dict[str, str], remaining: int) -> Iterator[tuple[str, str]]:
    for key, value in entries.items():
        remaining -= _size(key, value)
        if remaining < 0:
            return
        yield key, value


def _exhausted_condition(space: pool_space.PoolSpace | None, free: int) -> meta.Condition:
    if space and not free:
        return meta.Condition(type="Exhausted", status="True", reason="NoFreeAddress", message="no address is free")
    return meta.Condition(type="Exhausted", status="False", reason="HasFreeAddresses")


def _ready_condition(objects: cache.Cache, pool: ipam.IPPool, *, complete: bool) -> meta.Condition:
    name = pool.spec.cluster_name
    text = "too many addresses to list in the status; list IPAddress objects instead"
    reason, message = "Ready", "" if complete else text
    if pool.is_deleting:
        reason, message = "Deleting", "addresses of the pool are still in use"
    elif objects.problem(pool.ref):
        reason, message = "InvalidSpec", objects.problem(pool.ref)
    elif network_problem := objects.networks.unusable_reason(pool.ref):
        reason, message = "NetworkNotReady", network_problem
    elif name and not objects.clusters.get(pool.metadata.namespace, name):
        reason, message = "ClusterNotFound", f"Cluster {name} does not exist yet"
    return meta.Condition(type="Ready", status="True" if reason == "Ready" else "False", reason=reason, message=message)


def _events(pool: ipam.IPPool, old: ipam.PoolStatus, new: ipam.PoolStatus) -> Iterator[actions.Report]:
    """Yield an Event for each condition whose status has changed."""
    before = {condition.type: condition for condition in old.conditions}
    for condition in new.conditions:
        was = before.get(condition.type, meta.Condition(status="True" if condition.type == "Ready" else "False"))
        if was.status != condition.status:
            bad = (condition.status == "False") == (condition.type == "Ready")
            yield actions.report(
                pool, condition.reason, condition.message or f"{condition.type} is {condition.status}", warning=bad
            )

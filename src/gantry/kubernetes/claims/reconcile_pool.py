"""Reconcile one pool: its metadata, its status, its deletion.

The pool controller calls it when a pool has work, delayed so that one status update covers many claims. No decision
relies on the status. The controller remembers the last status update (``WrittenStatus``): a server whose definition has
fewer fields prunes the others, and these must not be written again and again.
"""

import datetime
import re
from collections.abc import Iterator, Mapping

import msgspec

from gantry.kubernetes.api import ipam, meta, patches
from gantry.kubernetes.claims import actions, cache, pool_space

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
    """The next actions for a pool; ``wanted`` is the new status if an action writes it (``WrittenStatus``)."""

    steps: tuple[actions.Action, ...] = ()
    new_status: ipam.PoolStatus | None = None


def decide(seen: cache.Cache, ref: meta.Ref, *, now: datetime.datetime, told: WrittenStatus | None = None) -> Decision:
    """Return the next actions for a pool; none while it is paused."""
    pool = seen.pool(ref)
    if pool is None or seen.is_pool_paused(pool):
        return Decision()
    if pool.is_deleting:
        is_used = any(True for _ in seen.addresses_in(ref)) or seen.networks.has_reservations(ref)
        if not is_used and ipam.POOL_FINALIZER in pool.metadata.finalizers:
            return Decision((actions.without_finalizer(pool, ipam.POOL_FINALIZER),))
    elif marks := _metadata_patch(seen, pool):
        return Decision((marks,))
    return _status(seen, pool, now, told)


def _metadata_patch(seen: cache.Cache, pool: ipam.IPPool) -> actions.Patch | None:
    """Return the patch that adds the finalizer, and the labels and the owner reference of the pool's Cluster."""
    old, changed = pool.metadata, dict[str, object]()
    if ipam.POOL_FINALIZER not in old.finalizers:
        changed["finalizers"] = [*old.finalizers, ipam.POOL_FINALIZER]
    name = pool.spec.cluster_name
    labels = {meta.CLUSTER_LABEL: name, meta.PROVIDER_LABEL: ipam.PROVIDER} if _LABEL.fullmatch(name) else {}
    if not labels.items() <= old.labels.items():
        changed["labels"] = labels
    cluster = seen.clusters.get(old.namespace, name)
    if cluster:
        owner = meta.OwnerReference(
            api_version=cluster.api_version, kind="Cluster", name=name, uid=cluster.metadata.uid
        )
        others = [
            one
            for one in old.owner_references
            if (one.group, one.kind, one.name) != (cluster.ref.group, "Cluster", name)
        ]
        if owner not in old.owner_references:
            changed["ownerReferences"] = [msgspec.to_builtins(one) for one in (*others, owner)]
    return actions.patch(pool, changed) if changed else None


def _status(seen: cache.Cache, pool: ipam.IPPool, now: datetime.datetime, told: WrittenStatus | None) -> Decision:
    old = told.desired if told and told.stored == pool.status else pool.status
    new = status(seen, pool, old=old, now=now)
    if new == old:
        return Decision()
    change = patches.difference(_plain(pool.status), _plain(new))
    return Decision((actions.patch_status(pool, change), *_events(pool, old, new)), new)


def _plain(given: ipam.PoolStatus) -> dict[str, object]:
    return msgspec.json.decode(msgspec.json.encode(given), type=dict[str, object])


def status(seen: cache.Cache, pool: ipam.IPPool, *, old: ipam.PoolStatus, now: datetime.datetime) -> ipam.PoolStatus:
    """Return the desired status of a pool; ``lastUpdated`` changes only with the allocations."""
    indexes, objects = _addresses_by_claim(seen, pool)
    ahead = {name: text for name, text in pool.spec.pre_allocations.items() if name not in indexes}
    kept = _truncated_maps(
        [indexes, {**ahead, **indexes}, objects], left=MAX_MAP_BYTES - _bytes(pool.spec.pre_allocations)
    )
    found = seen.space_of(pool.ref)
    total, used, free = found.counts() if found else (0, 0, 0)
    waiting = seen.waiting(pool.ref)
    new = ipam.PoolStatus(
        last_updated=old.last_updated,
        indexes=kept[0],
        allocations=kept[1],
        addresses=kept[2],
        total=min(total, MAX_COUNT),
        used=used,
        free=min(free, MAX_COUNT),
        waiting=waiting,
        conditions=old.conditions,
    )
    for one in (_exhausted_condition(found, free), _ready_condition(seen, pool, complete=kept[0] == indexes)):
        new = msgspec.structs.replace(new, conditions=meta.with_condition(new.conditions, one, now=now))
    if not old.last_updated or (old.indexes, old.allocations) != (new.indexes, new.allocations):
        new = msgspec.structs.replace(new, last_updated=meta.stamp(now))
    return new


def _addresses_by_claim(seen: cache.Cache, pool: ipam.IPPool) -> tuple[dict[str, str], dict[str, str]]:
    """Return addresses and object names by claim name; the kind precedes a CAPI claim's name if both kinds have it.

    An invalid address, which CAPI's definition lets through, is skipped: the server would reject the whole status.
    """
    found = (one for one in seen.addresses_in(pool.ref) if isinstance(one, ipam.IPAddress) or _is_address(one))
    listed = sorted(found, key=lambda one: (one.claim, one.ref))
    plain = {one.claim.name for one in listed if isinstance(one, ipam.IPAddress)}
    indexes, objects = {}, {}
    for one in listed:
        mixed = one.claim.kind == "IPAddressClaim" and one.claim.name in plain
        name = f"IPAddressClaim/{one.claim.name}" if mixed else one.claim.name
        indexes[name], objects[name] = one.spec.address, one.metadata.name
    return indexes, objects


def _is_address(one: actions.Address) -> bool:
    return pool_space.parse(one.spec.address) is not None


def _truncated_maps(maps: list[dict[str, str]], *, left: int) -> list[dict[str, str]]:
    """Return the maps, limited to so many bytes: drop the last ones first, and truncate the first."""
    out = list[dict[str, str]]()
    for one in maps:
        size = _bytes(one)
        if size > left:
            one = dict(_truncated(one, left)) if not out else {}
        out.append(one)
        left -= min(size, left)
    return out


def _bytes(whole: Mapping[str, str]) -> int:
    return sum(_size(key, value) for key, value in whole.items())


def _size(key: str, value: str) -> int:
    """Return the size in bytes of ``"key":"value",`` and of ``"f:key":{},``."""
    return 2 * len(key) + len(value) + 14


def _truncated(whole: dict[str, str], left: int) -> Iterator[tuple[str, str]]:
    for key, value in whole.items():
        left -= _size(key, value)
        if left < 0:
            return
        yield key, value


def _exhausted_condition(found: pool_space.PoolSpace | None, free: int) -> meta.Condition:
    if found and not free:
        return meta.Condition(type="Exhausted", status="True", reason="NoFreeAddress", message="no address is free")
    return meta.Condition(type="Exhausted", status="False", reason="HasFreeAddresses")


def _ready_condition(seen: cache.Cache, pool: ipam.IPPool, *, complete: bool) -> meta.Condition:
    name = pool.spec.cluster_name
    text = "too many addresses to list in the status; list IPAddress objects instead"
    reason, message = "Ready", "" if complete else text
    if pool.is_deleting:
        reason, message = "Deleting", "addresses of the pool are still in use"
    elif seen.problem(pool.ref):
        reason, message = "InvalidSpec", seen.problem(pool.ref)
    elif obstacle := seen.networks.unusable_reason(pool.ref):
        reason, message = "NetworkNotReady", obstacle
    elif name and not seen.clusters.get(pool.metadata.namespace, name):
        reason, message = "ClusterNotFound", f"Cluster {name} does not exist yet"
    return meta.Condition(type="Ready", status="True" if reason == "Ready" else "False", reason=reason, message=message)


def _events(pool: ipam.IPPool, old: ipam.PoolStatus, new: ipam.PoolStatus) -> Iterator[actions.Report]:
    """Yield an Event for each condition whose status has changed."""
    before = {one.type: one for one in old.conditions}
    for one in new.conditions:
        was = before.get(one.type, meta.Condition(status="True" if one.type == "Ready" else "False"))
        if was.status != one.status:
            bad = (one.status == "False") == (one.type == "Ready")
            yield actions.report(pool, one.reason, one.message or f"{one.type} is {one.status}", warning=bad)

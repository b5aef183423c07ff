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

LIMIT = 1_000_000
"""Maximum total bytes of the maps in a pool's status: etcd stores no object above 1.5 MB.

The size of an entry includes its entry in ``managedFields``, which repeats its name.
"""

COUNT_LIMIT = (1 << 63) - 1

_LABEL = re.compile("[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""A valid label value; the name of an object may be longer."""


class Told(msgspec.Struct, frozen=True):
    """A status that was written, and the status that the server stored."""

    wanted: ipam.PoolStatus
    answered: ipam.PoolStatus


class Decision(msgspec.Struct, frozen=True):
    """The next actions for a pool; ``wanted`` is the new status if an action writes it (``WrittenStatus``)."""

    steps: tuple[actions.Action, ...] = ()
    wanted: ipam.PoolStatus | None = None


def decide(seen: cache.Index, ref: meta.Ref, *, now: datetime.datetime, told: Told | None = None) -> Decision:
    """Return the next actions for a pool; none while it is paused."""
    pool = seen.pool(ref)
    if pool is None or seen.is_resting(pool):
        return Decision()
    if pool.is_deleting:
        is_used = any(True for _ in seen.addresses_in(ref)) or seen.bonds.keeps(ref)
        if not is_used and ipam.POOL_FINALIZER in pool.metadata.finalizers:
            return Decision((actions.without_finalizer(pool, ipam.POOL_FINALIZER),))
    elif marks := _marks(seen, pool):
        return Decision((marks,))
    return _status(seen, pool, now, told)


def _marks(seen: cache.Index, pool: ipam.IPPool) -> actions.Patch | None:
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


def _status(seen: cache.Index, pool: ipam.IPPool, now: datetime.datetime, told: Told | None) -> Decision:
    old = told.wanted if told and told.answered == pool.status else pool.status
    new = status(seen, pool, old=old, now=now)
    if new == old:
        return Decision()
    change = patches.difference(_plain(pool.status), _plain(new))
    return Decision((actions.patch_status(pool, change), *_reports(pool, old, new)), new)


def _plain(given: ipam.PoolStatus) -> dict[str, object]:
    return msgspec.json.decode(msgspec.json.encode(given), type=dict[str, object])


def status(seen: cache.Index, pool: ipam.IPPool, *, old: ipam.PoolStatus, now: datetime.datetime) -> ipam.PoolStatus:
    """Return the desired status of a pool; ``lastUpdated`` changes only with the allocations."""
    indexes, objects = _maps(seen, pool)
    ahead = {name: text for name, text in pool.spec.pre_allocations.items() if name not in indexes}
    kept = _fitting([indexes, {**ahead, **indexes}, objects], left=LIMIT - _bytes(pool.spec.pre_allocations))
    found = seen.room_of(pool.ref)
    total, used, free = found.counts() if found else (0, 0, 0)
    waiting = seen.waiting(pool.ref)
    new = ipam.PoolStatus(
        last_updated=old.last_updated,
        indexes=kept[0],
        allocations=kept[1],
        addresses=kept[2],
        total=min(total, COUNT_LIMIT),
        used=used,
        free=min(free, COUNT_LIMIT),
        waiting=waiting,
        conditions=old.conditions,
    )
    for one in (_exhausted(found, free), _ready(seen, pool, complete=kept[0] == indexes)):
        new = msgspec.structs.replace(new, conditions=meta.with_condition(new.conditions, one, now=now))
    if not old.last_updated or (old.indexes, old.allocations) != (new.indexes, new.allocations):
        new = msgspec.structs.replace(new, last_updated=meta.stamp(now))
    return new


def _maps(seen: cache.Index, pool: ipam.IPPool) -> tuple[dict[str, str], dict[str, str]]:
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


def _fitting(maps: list[dict[str, str]], *, left: int) -> list[dict[str, str]]:
    """Return the maps, limited to so many bytes: drop the last ones first, and truncate the first."""
    out = list[dict[str, str]]()
    for one in maps:
        size = _bytes(one)
        if size > left:
            one = dict(_cut(one, left)) if not out else {}
        out.append(one)
        left -= min(size, left)
    return out


def _bytes(whole: Mapping[str, str]) -> int:
    return sum(_size(key, value) for key, value in whole.items())


def _size(key: str, value: str) -> int:
    """Return the size in bytes of ``"key":"value",`` and of ``"f:key":{},``."""
    return 2 * len(key) + len(value) + 14


def _cut(whole: dict[str, str], left: int) -> Iterator[tuple[str, str]]:
    for key, value in whole.items():
        left -= _size(key, value)
        if left < 0:
            return
        yield key, value


def _exhausted(found: pool_space.Room | None, free: int) -> meta.Condition:
    if found and not free:
        return meta.Condition(type="Exhausted", status="True", reason="NoFreeAddress", message="no address is free")
    return meta.Condition(type="Exhausted", status="False", reason="HasFreeAddresses")


def _ready(seen: cache.Index, pool: ipam.IPPool, *, complete: bool) -> meta.Condition:
    name = pool.spec.cluster_name
    text = "too many addresses to list in the status; list IPAddress objects instead"
    reason, message = "Ready", "" if complete else text
    if pool.is_deleting:
        reason, message = "Deleting", "addresses of the pool are still in use"
    elif seen.problem(pool.ref):
        reason, message = "InvalidSpec", seen.problem(pool.ref)
    elif obstacle := seen.bonds.obstacle(pool.ref):
        reason, message = "NetworkNotReady", obstacle
    elif name and not seen.clusters.get(pool.metadata.namespace, name):
        reason, message = "ClusterNotFound", f"Cluster {name} does not exist yet"
    return meta.Condition(type="Ready", status="True" if reason == "Ready" else "False", reason=reason, message=message)


def _reports(pool: ipam.IPPool, old: ipam.PoolStatus, new: ipam.PoolStatus) -> Iterator[actions.Report]:
    """Yield an Event for each condition whose status has changed."""
    before = {one.type: one for one in old.conditions}
    for one in new.conditions:
        was = before.get(one.type, meta.Condition(status="True" if one.type == "Ready" else "False"))
        if was.status != one.status:
            bad = (one.status == "False") == (one.type == "Ready")
            yield actions.report(pool, one.reason, one.message or f"{one.type} is {one.status}", warning=bad)

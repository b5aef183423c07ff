"""Reconcile one claim of either kind: decide its next step.

The claim controller calls ``step`` in a loop for a pool, until it returns None. ::

    no address        allocate --> finalizer of the claim --> create the address object
    has an address    owner references of the address --> status of the claim
    deleted, unused   delete the address --> its finalizer --> finalizer of the claim
    none free         status of the claim, with the reason; it waits

If a pool is bound to a cluster's network (``bound_networks``), its addresses are reserved there: before the object is
created, and for an object made by hand before it is written to the claim's status. The reservation is released after
the object is gone.

Each decision is one step. The address of a claim is never read from its status but from the address object that refers
to the claim, so another controller can continue after any step, also after a move to another API server.

Invariants: an address object is created only for an address that no object and no other claim owns, with a name derived
from the address, and only while the finalizer of its pool keeps that from disappearing; a claim is bound to an address
only while the address has no other owner; a bound address is released when the claim is deleted and has no foreign
finalizer, not before.
"""

import datetime
from collections.abc import Callable, Sequence

import msgspec

from gantry.address import ranges
from gantry.kubernetes.api import ipam, meta
from gantry.kubernetes.claims import actions, allocate, cache, cluster_reservations, pool_space, status

GRACE_SECONDS = 300.0
"""Seconds before an address without a claim is removed: a restored backup may bring addresses before their claims.

If the claim was observed and then removed, and the pool exists, there is no grace period (``orphan_addresses``).
"""


class Decision(msgspec.Struct, frozen=True):
    """The next actions for a claim; ``later``: seconds until it is reconciled again, 0 for never."""

    claim: meta.Ref
    steps: tuple[actions.Action, ...] = ()
    later: float = 0.0


def step(
    objects: cache.Cache, pool: meta.Ref, *, now: datetime.datetime, below: Callable[[int], int]
) -> Decision | None:
    """Return the next decision for the claims of a pool, None if there is nothing to do now.

    If it has actions, the claim is busy until the caller has applied them, or one has failed, and calls
    ``Cache.finish``. ``below(n)`` returns a random number from 0 to n - 1.
    """
    ref = objects.next_claim(pool)
    if ref is None:
        return None
    claim, decision = objects.claim(ref), Decision(ref)
    try:
        decision = _reconcile_orphans(objects, ref, now) if claim is None else _decide(objects, claim, now, below)
    finally:
        if not decision.steps:
            objects.finish(ref)
    return decision


def creation_refused(claim: actions.Claim, message: str, *, now: datetime.datetime) -> tuple[actions.Action, ...]:
    """Return the status update of a claim whose address object the server rejected."""
    problem = allocate.Problem(allocate.FAILED, f"Failed to create associated IPAddress object: {message}")
    return status.problem_status(claim, problem, now=now)


def conflict_event(claim: actions.Claim, address: ranges.Address, owner: meta.Ref) -> actions.Report:
    """Return the Event about a claim's address that has another owner in the cluster."""
    text = f"{address} cannot be reserved in the cluster: it is in use by {owner}"
    return actions.report(claim, "AddressConflict", text, warning=True)


def _decide(
    objects: cache.Cache, claim: actions.Claim, now: datetime.datetime, below: Callable[[int], int]
) -> Decision:
    if objects.is_paused(claim):
        return Decision(claim.ref)
    addresses = objects.addresses_of(claim.ref)
    if claim.is_deleting:
        return Decision(claim.ref, _reconcile_deleted(objects, claim, addresses))
    current = _current_address(claim, [address for address in addresses if address.pool == claim.pool])
    for address in addresses:
        if address is not current and _is_managed(address):
            return Decision(claim.ref, _removal(address, current=actions.version(claim)))
        reservation = None if address is current else objects.networks.needed_reservation(address)
        if isinstance(reservation, actions.Reserve):
            return Decision(claim.ref, (reservation,))
    if current is None:
        return Decision(claim.ref, _allocate(objects, claim, now, below))
    return Decision(claim.ref, _bind(objects, claim, current, now))


def _is_managed(address: actions.Address) -> bool:
    """Return whether an IPAM controller created the address, rather than a user by hand."""
    return address.finalizer in address.metadata.finalizers


def _owner_uid(address: actions.Address) -> str:
    """Return the UID of the claim in the owner references of an address, empty if there is none."""
    owners = address.metadata.owner_references
    claim = address.claim
    return next(
        (
            owner.uid
            for owner in owners
            if (owner.group, owner.kind, owner.name) == (claim.group, claim.kind, claim.name)
        ),
        "",
    )


def _has_owner(address: actions.Address) -> bool:
    """Return whether claim or pool is an owner of the address: garbage collectors remove owners that are gone."""
    pool = address.pool
    owners = {(owner.group, owner.kind, owner.name) for owner in address.metadata.owner_references}
    return bool(_owner_uid(address)) or (pool.group, pool.kind, pool.name) in owners


def _current_address(claim: actions.Claim, addresses: Sequence[actions.Address]) -> actions.Address | None:
    """Return the address of a claim among the objects that refer to it: by its status, else by UID, else by name.

    Skip objects with an invalid address, which some definitions let through, and those that are being deleted unless
    the claim is bound to them, because then the address is in use.
    """
    valid = (address for address in addresses if pool_space.parse(address.spec.address))
    usable = [address for address in valid if not address.is_deleting or _is_kept(claim, address)]
    if len(usable) == 1:
        return usable[0]
    return min(
        usable,
        key=lambda address: (
            address.metadata.name != claim.address_name,
            _owner_uid(address) != claim.metadata.uid,
            address.metadata.name,
        ),
        default=None,
    )


def _is_kept(claim: actions.Claim, address: actions.Address) -> bool:
    return _owner_uid(address) == claim.metadata.uid and address.metadata.name == claim.address_name


def _removal(
    address: actions.Address, *, absent: tuple[meta.Ref, ...] = (), current: actions.Version | None = None
) -> tuple[actions.Action, ...]:
    """Return the next step of removing an address object."""
    step: actions.Patch | actions.Delete
    if address.is_deleting:
        step = actions.without_finalizer(address, address.finalizer)
    else:
        step = actions.Delete(address.ref, address.api_version, address.metadata.uid, finalizer=address.finalizer)
    return (msgspec.structs.replace(step, absent=absent, current=current),)


def _reconcile_orphans(objects: cache.Cache, ref: meta.Ref, now: datetime.datetime) -> Decision:
    """Remove addresses whose claim is gone, after a check on the server."""
    seconds = 0.0
    for address in objects.addresses_of(ref):
        pool = objects.pool(address.pool)
        reservation = objects.networks.needed_reservation(address)
        if isinstance(reservation, actions.Reserve) and pool and not objects.is_pool_paused(pool):
            return Decision(ref, (reservation,))
        if not _is_managed(address) or not _has_owner(address) or (pool and objects.is_pool_paused(pool)):
            continue
        created = meta.moment(address.metadata.creation_timestamp) or now
        is_orphan = pool is not None and address.ref in objects.orphan_addresses
        remaining = 0.0 if is_orphan else GRACE_SECONDS - (now - created).total_seconds()
        if remaining <= 0:
            return Decision(ref, _removal(address, absent=(ref,)))
        seconds = max(seconds, remaining)
    return Decision(ref, later=seconds)


def _reconcile_deleted(
    objects: cache.Cache, claim: actions.Claim, addresses: Sequence[actions.Address]
) -> tuple[actions.Action, ...]:
    """Return the next step of releasing what a deleted claim owns; none while it has a foreign finalizer."""
    if set(claim.metadata.finalizers) - {claim.finalizer, *meta.COLLECTOR_FINALIZERS}:
        return ()
    for address in addresses:
        if _is_managed(address):
            is_own = _owner_uid(address) == claim.metadata.uid
            # A new claim of the same name may own the address, which the cache does not show yet.
            return _removal(address, current=None if is_own else actions.version(claim))
    if any(address.is_deleting and _owner_uid(address) == claim.metadata.uid for address in addresses):
        return ()
    if claim.finalizer not in claim.metadata.finalizers or objects.networks.is_pending(claim.pool):
        # Its reservations may not have been read yet and would be orphaned.
        return ()
    return *_stale_reservations(objects, claim), actions.without_finalizer(claim, claim.finalizer)


def _stale_reservations(objects: cache.Cache, claim: actions.Claim) -> tuple[actions.Release, ...]:
    """Return the releases of a claim's reservations without an address object; each checks that on the server."""
    releases = objects.networks.stale_reservations(claim, objects.addresses_of(claim.ref))
    return tuple(
        msgspec.structs.replace(release, unless=possible_objects(objects, release.reservation, claim))
        for release in releases
    )


def possible_objects(
    objects: cache.Cache, reservation: cluster_reservations.Reservation, claim: actions.Claim | None
) -> tuple[meta.Ref, ...]:
    """Return which objects may have a reserved address: by the pool's naming, and by the claim's status."""
    pool = objects.pool(reservation.pool)
    names = {allocate.name_of(pool, reservation.address) if pool else "", claim.address_name if claim else ""} - {""}
    return tuple(
        meta.Ref(reservation.claim.group, "IPAddress", reservation.claim.namespace, name) for name in sorted(names)
    )


def _allocate(
    objects: cache.Cache, claim: actions.Claim, now: datetime.datetime, below: Callable[[int], int]
) -> tuple[actions.Action, ...]:
    """Return the next step of a claim that has no address."""
    if objects.networks.is_pending(claim.pool):
        return ()
    allocation = allocate.pick(objects, claim, below=below)
    if isinstance(allocation, allocate.Problem):
        if releases := _stale_reservations(objects, claim):
            return releases
        if allocation.waits:
            objects.wait(claim, allocation.number)
            if claim.finalizer not in claim.metadata.finalizers:
                # now, while no address is free, to save this step once one is
                return (actions.with_finalizer(claim, claim.finalizer),)
        return status.problem_status(claim, allocation, now=now)
    if claim.finalizer not in claim.metadata.finalizers:
        objects.assume(claim, allocation.address)
        return (actions.with_finalizer(claim, claim.finalizer),)
    pool = objects.pool(claim.pool)
    if pool is None:
        return ()
    objects.assume(claim, allocation.address)
    if ipam.POOL_FINALIZER not in pool.metadata.finalizers:
        # The pool controller adds it at once, and the pool's change requeues the claim.
        return ()
    new = status.address_object(claim, pool, allocation)
    return *objects.networks.reservation(claim.ref, claim.pool, address=allocation.address), actions.Create(
        new, claim.ref
    )


def _bind(
    objects: cache.Cache, claim: actions.Claim, address: actions.Address, now: datetime.datetime
) -> tuple[actions.Action, ...]:
    """Return the next step of binding a claim to its address."""
    if claim.address_name != address.metadata.name and _is_managed(address) and _has_other_owner(objects, address):
        return _removal(address, current=actions.version(claim))
    unreserved = _reserve(objects, claim, address, now)
    if unreserved is not None:
        return unreserved
    if claim.finalizer not in claim.metadata.finalizers:
        return (actions.with_finalizer(claim, claim.finalizer),)
    pool = objects.pool(claim.pool)
    owners = status.owners(address, claim, pool)
    if _is_managed(address) and owners != address.metadata.owner_references and not address.is_deleting:
        references = [msgspec.to_builtins(owner) for owner in owners]
        return (actions.patch(address, {"ownerReferences": references}),)
    status_update = status.bound_status(claim, address, now=now) or _stale_reservations(objects, claim)
    if address.is_deleting:
        text = f"{address.spec.address} is in use by {claim.ref} and is deleted with it"
        return (*status_update, actions.report(address, "InUse", text, warning=True))
    return status_update


def _reserve(
    objects: cache.Cache, claim: actions.Claim, address: actions.Address, now: datetime.datetime
) -> tuple[actions.Action, ...] | None:
    """Return the next step for an address that is not reserved in the network of its pool; None to continue.

    A claim with the address in its status keeps it, even if the cluster has another owner.
    """
    is_in_status = claim.address_name == address.metadata.name
    if objects.networks.is_pending(claim.pool):
        return None if is_in_status else ()
    reservation = objects.networks.needed_reservation(address)
    if isinstance(reservation, actions.Reserve):
        return (reservation,)
    if reservation is None or is_in_status:
        return None
    if releases := _stale_reservations(objects, claim):
        return releases
    return status.problem_status(claim, allocate.Problem(allocate.NOT_READY, reservation), now=now)


def _has_other_owner(objects: cache.Cache, address: actions.Address) -> bool:
    """Return whether the address has another owner."""
    space = objects.space_of(address.pool)
    value = ranges.parse_address(address.spec.address)
    own_owners = {address.ref, address.claim, cluster_reservations.claim_owner(address.claim)}
    return space is not None and bool(space.owners.get(value, set()) - own_owners)

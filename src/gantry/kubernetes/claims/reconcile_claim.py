"""Requests: what is to be done next for one claim, of either kind.

Who calls it: the claim controller: ``step`` in a loop for a pool, until it returns None. ::

    no address        pick --> finalizer on the claim --> create the address
    has an address    owners of the address --> status of the claim
    deleted, unused   delete the address --> its finalizer --> finalizer of the claim
    nothing free      status of the claim, with the reason; it waits

An address of a pool that is bound to a cluster's network is reserved there before its object is created, before a claim
is told one that was made by hand, and given up when the object has gone (``bound_networks``).

Each decision is one step. An address is never taken from status: it is what an object says that names the claim,
so a controller that ends anywhere goes on from there, after a move to another API server too.

Invariants: an address is created for a number that no object and no other claim holds, under a name that its number
makes; a claim is bound to an address only while nobody else holds that number; an address that a claim is bound to is
released when the claim is deleted and no foreign finalizer holds it, not before.
"""

import datetime
from collections.abc import Callable, Sequence

import msgspec

from gantry.address import ranges
from gantry.kubernetes.api import meta
from gantry.kubernetes.claims import actions, allocate, cache, cluster_reservations, pool_space, status

GRACE = 300.0
"""Seconds. An address whose claim is not there is left alone for so long: a restored backup brings addresses first.

One whose claim has been seen to go is not, while its pool is there (``orphan_addresses``).
"""


class Decision(msgspec.Struct, frozen=True):
    """What is to be done for a claim; ``later`` is in how many seconds it has to be looked at again, 0 for never."""

    claim: meta.Ref
    steps: tuple[actions.Action, ...] = ()
    later: float = 0.0


def step(seen: cache.Index, pool: meta.Ref, *, now: datetime.datetime, below: Callable[[int], int]) -> Decision | None:
    """Return the next decision for the claims of a pool, None if there is none to make now.

    If it has steps, the claim is busy until they are done, or one has failed, and ``seen.finished`` is called.
    ``below(n)`` gives a random number from 0 to n - 1.
    """
    ref = seen.next(pool)
    if ref is None:
        return None
    claim, decision = seen.claim(ref), Decision(ref)
    try:
        decision = _orphaned(seen, ref, now) if claim is None else _decided(seen, claim, now, below)
    finally:
        if not decision.steps:
            seen.finished(ref)
    return decision


def refused(claim: actions.Claim, message: str, *, now: datetime.datetime) -> tuple[actions.Action, ...]:
    """Return what tells a claim that the server refused its address object."""
    problem = allocate.Problem(allocate.FAILED, f"Failed to create associated IPAddress object: {message}")
    return status.problem(claim, problem, now=now)


def conflict(claim: actions.Claim, address: ranges.Address, who: meta.Ref) -> actions.Report:
    """Return the Event about an address that a claim has and that the cluster says another has."""
    text = f"{address} cannot be reserved in the cluster: it is held by {who}"
    return actions.report(claim, "AddressConflict", text, warning=True)


def _decided(seen: cache.Index, claim: actions.Claim, now: datetime.datetime, below: Callable[[int], int]) -> Decision:
    if seen.is_paused(claim):
        return Decision(claim.ref)
    held = seen.addresses_of(claim.ref)
    if claim.is_deleting:
        return Decision(claim.ref, _released(seen, claim, held))
    chosen = _chosen(claim, [one for one in held if one.pool == claim.pool])
    for stray in held:
        if stray is not chosen and _is_written(stray):
            return Decision(claim.ref, _removed(stray, current=actions.version(claim)))
        wanted = None if stray is chosen else seen.bonds.wanted(stray)
        if isinstance(wanted, actions.Reserve):
            return Decision(claim.ref, (wanted,))
    if chosen is None:
        return Decision(claim.ref, _served(seen, claim, now, below))
    return Decision(claim.ref, _bound(seen, claim, chosen, now))


def _is_written(address: actions.Address) -> bool:
    """Tell whether the address was made by this program, or one of its kind, rather than by hand."""
    return address.finalizer in address.metadata.finalizers


def _owner(address: actions.Address) -> str:
    """Return the UID of the claim that an address says owns it, empty if it says none."""
    owners = address.metadata.owner_references
    claim = address.claim
    return next(
        (one.uid for one in owners if (one.group, one.kind, one.name) == (claim.group, claim.kind, claim.name)), ""
    )


def _is_owned(address: actions.Address) -> bool:
    """Tell whether an address says that its claim owns it, or its pool: garbage collectors strike out who has gone."""
    pool = address.pool
    owners = {(one.group, one.kind, one.name) for one in address.metadata.owner_references}
    return bool(_owner(address)) or (pool.group, pool.kind, pool.name) in owners


def _chosen(claim: actions.Claim, held: Sequence[actions.Address]) -> actions.Address | None:
    """Return the address of a claim among those that name it: the one it was told, else by UID, else by name.

    What is no address, as some definitions let through, is passed over. One that is being deleted is kept if the
    claim is bound to it: somebody uses it.
    """
    known = (one for one in held if pool_space.parse(one.spec.address))
    own = [one for one in known if not one.is_deleting or _is_kept(claim, one)]
    if len(own) == 1:
        return own[0]
    return min(
        own,
        key=lambda one: (one.metadata.name != claim.address_name, _owner(one) != claim.metadata.uid, one.metadata.name),
        default=None,
    )


def _is_kept(claim: actions.Claim, address: actions.Address) -> bool:
    return _owner(address) == claim.metadata.uid and address.metadata.name == claim.address_name


def _removed(
    address: actions.Address, *, absent: tuple[meta.Ref, ...] = (), current: actions.Version | None = None
) -> tuple[actions.Action, ...]:
    """Return the next step of giving an address back."""
    step: actions.Patch | actions.Delete
    if address.is_deleting:
        step = actions.without_finalizer(address, address.finalizer)
    else:
        step = actions.Delete(address.ref, address.api_version, address.metadata.uid, finalizer=address.finalizer)
    return (msgspec.structs.replace(step, absent=absent, current=current),)


def _orphaned(seen: cache.Index, ref: meta.Ref, now: datetime.datetime) -> Decision:
    """Give addresses back whose claim has gone; whether it has is asked of the server first."""
    later = 0.0
    for address in seen.addresses_of(ref):
        pool = seen.pool(address.pool)
        wanted = seen.bonds.wanted(address)
        if isinstance(wanted, actions.Reserve) and pool and not seen.is_resting(pool):
            return Decision(ref, (wanted,))
        if not _is_written(address) or not _is_owned(address) or (pool and seen.is_resting(pool)):
            continue
        born = meta.moment(address.metadata.creation_timestamp) or now
        is_left = pool is not None and address.ref in seen.survivors
        left = 0.0 if is_left else GRACE - (now - born).total_seconds()
        if left <= 0:
            return Decision(ref, _removed(address, absent=(ref,)))
        later = max(later, left)
    return Decision(ref, later=later)


def _released(seen: cache.Index, claim: actions.Claim, held: Sequence[actions.Address]) -> tuple[actions.Action, ...]:
    """Return the next step of giving everything back that a deleted claim has; none while somebody uses it."""
    if set(claim.metadata.finalizers) - {claim.finalizer, *meta.COLLECTOR}:
        return ()
    for address in held:
        if _is_written(address):
            is_own = _owner(address) == claim.metadata.uid
            # A namesake that was made since may have it, after all.
            return _removed(address, current=None if is_own else actions.version(claim))
    if any(address.is_deleting and _owner(address) == claim.metadata.uid for address in held):
        return ()
    if claim.finalizer not in claim.metadata.finalizers or seen.bonds.is_pending(claim.pool):
        # What it has reserved may not have been read yet, and would be left over.
        return ()
    return *_given_up(seen, claim), actions.without_finalizer(claim, claim.finalizer)


def _given_up(seen: cache.Index, claim: actions.Claim) -> tuple[actions.Release, ...]:
    """Return what gives up the reservations of a claim that no address object of it says; what was seen may be old."""
    strays = seen.bonds.strays(claim, seen.addresses_of(claim.ref))
    return tuple(msgspec.structs.replace(one, unless=unless(seen, one.reservation, claim)) for one in strays)


def unless(
    seen: cache.Index, one: cluster_reservations.Reservation, claim: actions.Claim | None
) -> tuple[meta.Ref, ...]:
    """Return where an address object would be that says a reserved number: what its pool calls it, what was told."""
    pool = seen.pool(one.pool)
    names = {allocate.name_of(pool, one.address) if pool else "", claim.address_name if claim else ""} - {""}
    return tuple(meta.Ref(one.claim.group, "IPAddress", one.claim.namespace, name) for name in sorted(names))


def _served(
    seen: cache.Index, claim: actions.Claim, now: datetime.datetime, below: Callable[[int], int]
) -> tuple[actions.Action, ...]:
    """Return the next step towards an address for a claim that has none."""
    if seen.bonds.is_pending(claim.pool):
        return ()
    found = allocate.pick(seen, claim, below=below)
    if isinstance(found, allocate.Problem):
        if given_up := _given_up(seen, claim):
            return given_up
        if found.waits:
            seen.wait(claim, found.number)
            if claim.finalizer not in claim.metadata.finalizers:
                # now, when nobody waits for it, and not when its turn has come
                return (actions.with_finalizer(claim, claim.finalizer),)
        return status.problem(claim, found, now=now)
    if claim.finalizer not in claim.metadata.finalizers:
        seen.book(claim, found.address)
        return (actions.with_finalizer(claim, claim.finalizer),)
    pool = seen.pool(claim.pool)
    if pool is None:
        return ()
    seen.book(claim, found.address)
    made = status.address(claim, pool, found)
    return *seen.bonds.reserve(claim.ref, claim.pool, address=found.address), actions.Create(made, claim.ref)


def _bound(
    seen: cache.Index, claim: actions.Claim, chosen: actions.Address, now: datetime.datetime
) -> tuple[actions.Action, ...]:
    """Return the next step of binding a claim to the address that is its own."""
    if claim.address_name != chosen.metadata.name and _is_written(chosen) and _rivals(seen, chosen):
        return _removed(chosen, current=actions.version(claim))
    unreserved = _unreserved(seen, claim, chosen, now)
    if unreserved is not None:
        return unreserved
    if claim.finalizer not in claim.metadata.finalizers:
        return (actions.with_finalizer(claim, claim.finalizer),)
    pool = seen.pool(claim.pool)
    owners = status.owners(chosen, claim, pool)
    if _is_written(chosen) and owners != chosen.metadata.owner_references and not chosen.is_deleting:
        listed = [msgspec.to_builtins(one) for one in owners]
        return (actions.patch(chosen, {"ownerReferences": listed}),)
    told = status.bound(claim, chosen, now=now) or _given_up(seen, claim)
    if chosen.is_deleting:
        text = f"{chosen.spec.address} is in use by {claim.ref} and goes when that is deleted"
        return (*told, actions.report(chosen, "InUse", text, warning=True))
    return told


def _unreserved(
    seen: cache.Index, claim: actions.Claim, chosen: actions.Address, now: datetime.datetime
) -> tuple[actions.Action, ...] | None:
    """Return what is to be done about an address that is not reserved in the network of its pool; None: go on.

    Who was told the address already keeps it, whatever the cluster says.
    """
    is_told = claim.address_name == chosen.metadata.name
    if seen.bonds.is_pending(claim.pool):
        return None if is_told else ()
    wanted = seen.bonds.wanted(chosen)
    if isinstance(wanted, actions.Reserve):
        return (wanted,)
    if wanted is None or is_told:
        return None
    if given_up := _given_up(seen, claim):
        return given_up
    return status.problem(claim, allocate.Problem(allocate.NOT_READY, wanted), now=now)


def _rivals(seen: cache.Index, address: actions.Address) -> bool:
    """Tell whether another object says the same number."""
    numbers = seen.room_of(address.pool)
    number = ranges.parse_address(address.spec.address)
    own = {address.ref, address.claim, cluster_reservations.holder(address.claim)}
    return numbers is not None and bool(numbers.holders.get(number, set()) - own)

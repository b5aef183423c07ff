"""Actions: single requests to an API server or a Gantry cluster.

``reconcile_claim`` and ``reconcile_pool`` return actions; the controllers apply them in order, up to the first failure.
Each action may be repeated or lost: the next decision follows from what the server then has.

The controllers put each object that a server answers into the cache (``put``) and remove each 404 (``remove``).
"""

import msgspec

from gantry.kubernetes.api import capi, ipam, meta, schema
from gantry.kubernetes.claims import cluster_reservations, pool_space

Address = ipam.IPAddress | capi.IPAddress
Claim = ipam.IPClaim | capi.IPAddressClaim


class Create(msgspec.Struct, frozen=True):
    """Create an address object for a claim.

    On 409 AlreadyExists, get the object of that name and call ``Cache.handle_collision``. If the server rejects the
    object, apply ``creation_refused``. If the outcome is unknown, call ``Cache.finish`` with ``again`` after a
    back-off: the claim keeps its assumed address.
    """

    address: Address
    claim: meta.Ref


class Version(msgspec.Struct, frozen=True):
    """The version of an object that a decision was based on."""

    ref: meta.Ref
    resource_version: str


class Patch(msgspec.Struct, frozen=True):
    """Merge a JSON body into an object (RFC 7386), or into its status.

    The body contains the object's resource version: after a 409 Conflict, read the object again first.

    Before the request, get the objects in ``absent``, because the cache may be stale. If one exists, call
    ``Cache.handle_existing`` and stop. Thus, of two claims of different kinds that picked the same address at the same
    time, at least one sees the other's address before it is bound to its own. Get ``current`` first too, and do the
    same if its version has changed.
    """

    ref: meta.Ref
    api_version: str
    body: schema.Json
    subresource: str = ""
    absent: tuple[meta.Ref, ...] = ()
    current: Version | None = None


class Delete(msgspec.Struct, frozen=True):
    """Delete the object with this UID (as a precondition).

    ``absent`` and ``current`` are as in ``Patch``. If the answered object still has ``finalizer``, remove it at once,
    based on the answered version; otherwise the next decision does.
    """

    ref: meta.Ref
    api_version: str
    uid: str
    absent: tuple[meta.Ref, ...] = ()
    current: Version | None = None
    finalizer: str = ""


class Reserve(msgspec.Struct, frozen=True):
    """Reserve an address in the cluster that a pool is bound to; an existing reservation is a success.

    Report the result to ``Cache.networks``: ``add_reservation``, or ``refuse_reservation`` with the current owner.
    """

    reservation: cluster_reservations.Reservation


class Release(msgspec.Struct, frozen=True):
    """Release a reservation; a missing one is a success. Report it to ``Cache.networks`` (``remove_reservation``).

    ``ref`` is the claim; ``absent`` and ``current`` are as in ``Patch``. Also get the address objects in ``unless``: if
    one belongs to the claim and has the reserved address, call ``Cache.handle_existing`` and stop.
    """

    ref: meta.Ref
    reservation: cluster_reservations.Reservation
    unless: tuple[meta.Ref, ...] = ()
    absent: tuple[meta.Ref, ...] = ()
    current: Version | None = None

    def is_needed_by(self, resource: meta.Resource) -> bool:
        """Return whether an object shows that the reservation is still needed."""
        if not isinstance(resource, ipam.IPAddress | capi.IPAddress) or resource.claim != self.ref:
            return False
        return pool_space.parse(resource.spec.address) == self.reservation.address


class Report(msgspec.Struct, frozen=True):
    """Write an Event about an object; losing one does no harm."""

    about: meta.Ref
    api_version: str
    uid: str
    warning: bool
    reason: str
    message: str


Action = Create | Patch | Delete | Reserve | Release | Report


def report(about: meta.Resource, reason: str, message: str, *, warning: bool = False) -> Report:
    """Return the Event about an object."""
    return Report(about.ref, about.api_version, about.metadata.uid, warning, reason, message)


def patch(about: meta.Resource, metadata: schema.Json) -> Patch:
    """Return the patch of an object's metadata; it fails if the object has changed."""
    locked = {"resourceVersion": about.metadata.resource_version, **metadata}
    return Patch(about.ref, about.api_version, {"metadata": locked})


def patch_status(about: meta.Resource, status: schema.Json, *, absent: tuple[meta.Ref, ...] = ()) -> Patch:
    """Return the patch of an object's status; it fails if the object has changed."""
    locked = {"resourceVersion": about.metadata.resource_version}
    return Patch(about.ref, about.api_version, {"metadata": locked, "status": status}, "status", absent)


def with_finalizer(about: meta.Resource, finalizer: str) -> Patch:
    """Return the patch that adds a finalizer."""
    return patch(about, {"finalizers": [*about.metadata.finalizers, finalizer]})


def without_finalizer(about: meta.Resource, finalizer: str) -> Patch:
    """Return the patch that removes a finalizer."""
    return patch(about, {"finalizers": [name for name in about.metadata.finalizers if name != finalizer]})


def version(resource: meta.Resource) -> Version:
    """Return the version of an object as observed."""
    return Version(resource.ref, resource.metadata.resource_version)

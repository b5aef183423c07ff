"""Actions: what is to be done to an API server or a cluster, one request each, and how the index is told of answers.

Who makes them: ``reconcile_claim`` and ``pools``; who carries them out: the controllers, in the order given, up to the
first that fails. Each is safe to repeat and safe to lose: what is decided next follows from what the server then has.

The index is told of each object that a server answers (``put``), and of each 404 (``remove``).
"""

import msgspec

from gantry.kubernetes.api import capi, ipam, meta, schema
from gantry.kubernetes.claims import cluster_reservations, pool_space

Address = ipam.IPAddress | capi.IPAddress
Claim = ipam.IPClaim | capi.IPAddressClaim


class Create(msgspec.Struct, frozen=True):
    """Make an address object for a claim.

    If the name is taken (409 AlreadyExists), get the object of that name and call ``cache.collided``. If the server
    refuses the object, carry out ``reconcile_claim.refused``. If nobody knows what became of it, call
    ``cache.finished`` with ``again`` after a while: the claim keeps its number.
    """

    address: Address
    claim: meta.Ref


class Version(msgspec.Struct, frozen=True):
    """An object as it was when something was decided."""

    ref: meta.Ref
    resource_version: str


class Patch(msgspec.Struct, frozen=True):
    """Merge a JSON body into an object (RFC 7386), or into its status.

    The body has the object's resource version: a 409 Conflict means that it must be read again first.

    Get what should be ``absent`` first: what was seen of it may be old. If any is there, call ``cache.met`` and do
    no more. So of two claims of different kinds that picked one number at the same time at least one sees the
    address of the other before it is bound to its own. Get ``current`` first too, and do the same if it has changed.
    """

    ref: meta.Ref
    api_version: str
    body: schema.Json
    subresource: str = ""
    absent: tuple[meta.Ref, ...] = ()
    current: Version | None = None


class Delete(msgspec.Struct, frozen=True):
    """Delete the object with this UID (as a precondition).

    ``absent`` and ``current`` are as in ``Patch``. What keeps it then is ``finalizer``: if the answer still has it, it
    may be taken away at once, in the version that was answered, or else by the next decision.
    """

    ref: meta.Ref
    api_version: str
    uid: str
    absent: tuple[meta.Ref, ...] = ()
    current: Version | None = None
    finalizer: str = ""


class Reserve(msgspec.Struct, frozen=True):
    """Have an address reserved by the cluster that a pool is bound to; that it is so already is a success.

    Tell ``cache.bonds`` of it (``reserved``). If the cluster refuses, tell who has the address (``refused``).
    """

    reservation: cluster_reservations.Reservation


class Release(msgspec.Struct, frozen=True):
    """Have a reservation given up; that there is none is a success. Tell ``cache.bonds`` of it (``released``).

    ``ref`` is the claim that it is for; ``absent`` and ``current`` are as in ``Patch``. Get ``unless`` too: if one of
    these addresses is the claim's and says the number after all, call ``cache.met`` and do no more.
    """

    ref: meta.Ref
    reservation: cluster_reservations.Reservation
    unless: tuple[meta.Ref, ...] = ()
    absent: tuple[meta.Ref, ...] = ()
    current: Version | None = None

    def is_refuted(self, found: meta.Resource) -> bool:
        """Tell whether an object shows that the reservation is needed."""
        if not isinstance(found, ipam.IPAddress | capi.IPAddress) or found.claim != self.ref:
            return False
        return pool_space.parse(found.spec.address) == self.reservation.address


class Report(msgspec.Struct, frozen=True):
    """Write an Event about an object; losing one harms nothing."""

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
    """Return the patch that takes a finalizer away."""
    return patch(about, {"finalizers": [one for one in about.metadata.finalizers if one != finalizer]})


def version(seen: meta.Resource) -> Version:
    """Return which version of an object was seen."""
    return Version(seen.ref, seen.metadata.resource_version)

"""Actions: single requests to an API server or a Gantry cluster.

``reconcile_claim`` and ``reconcile_pool`` return actions; the controllers carry them out in order, up to the first
failure (``carry_out``). Each action may be repeated or lost: the next decision follows from what the server then has.
What a controller has to do for each action is the contract of ``Executor``.
"""

from collections.abc import Iterable
from typing import Protocol, assert_never

import msgspec

from gantry.kubernetes.api import capi, ipam, meta, schema
from gantry.kubernetes.claims import cluster_reservations, pool_space

Address = ipam.IPAddress | capi.IPAddress
Claim = ipam.IPClaim | capi.IPAddressClaim


class Create(msgspec.Struct, frozen=True):
    """Create an address object for a claim."""

    address: Address
    claim: meta.Ref


class Version(msgspec.Struct, frozen=True):
    """The version of an object that a decision was based on."""

    ref: meta.Ref
    resource_version: str


class Patch(msgspec.Struct, frozen=True):
    """Merge a JSON body into an object (RFC 7386), or into its status.

    The body contains the object's resource version. The objects in ``absent`` must not exist on the server, where the
    cache may be behind. Thus, of two claims of different kinds that picked the same address at the same time, at least
    one sees the other's address before it is bound to its own. Nor may the version of ``current`` have changed.
    """

    ref: meta.Ref
    api_version: str
    body: schema.Json
    subresource: str = ""
    absent: tuple[meta.Ref, ...] = ()
    current: Version | None = None


class Delete(msgspec.Struct, frozen=True):
    """Delete the object with this UID (as a precondition).

    ``absent`` and ``current`` are as in ``Patch``. ``finalizer`` is removed too, if the object has it.
    """

    ref: meta.Ref
    api_version: str
    uid: str
    absent: tuple[meta.Ref, ...] = ()
    current: Version | None = None
    finalizer: str = ""


class Reserve(msgspec.Struct, frozen=True):
    """Reserve an address in the cluster that a pool is bound to; an existing reservation is a success."""

    reservation: cluster_reservations.Reservation


class Release(msgspec.Struct, frozen=True):
    """Release a reservation; a missing one is a success.

    ``ref`` is the claim; ``absent`` and ``current`` are as in ``Patch``. None of the address objects in ``unless`` may
    belong to the claim and have the reserved address.
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


class Executor(Protocol):
    """Carries out actions against an API server and a cluster (``controllers.apply``); each method raises if it fails.

    Each object that the server answers is put into the cache at once, and each that it does not have is removed. Before
    a request, it reads the objects that the action's preconditions name. If one is not met, it calls
    ``Cache.handle_existing`` and raises, without the request.
    """

    async def create_address(self, action: Create) -> None:
        """Create an address object.

        If the name exists (409 AlreadyExists), read that object and call ``Cache.handle_collision``. A rejected object
        becomes the claim's error (``reconcile_claim.creation_refused``). If the outcome is unknown, the claim keeps its
        assumed address, and ``Cache.finish`` is called with ``again`` after a back-off.
        """
        ...

    async def change(self, action: Patch | Delete) -> None:
        """Patch or delete an object; after a conflict, read it again.

        If the answer to a deletion still has the finalizer of the action, remove that at once, based on the answered
        version; otherwise the next decision does.
        """
        ...

    async def reserve(self, action: Reserve) -> None:
        """Reserve an address: ``Cache.networks.add_reservation``, or ``refuse_reservation`` with the present owner."""
        ...

    async def release(self, action: Release) -> None:
        """Release a reservation: ``Cache.networks.remove_reservation``."""
        ...

    def report(self, action: Report) -> None:
        """Write an Event, some time."""
        ...


async def carry_out(steps: Iterable[Action], executor: Executor) -> None:
    """Carry out actions in order, up to the first that fails."""
    for action in steps:
        match action:
            case Create():
                await executor.create_address(action)
            case Patch() | Delete():
                await executor.change(action)
            case Reserve():
                await executor.reserve(action)
            case Release():
                await executor.release(action)
            case Report():
                executor.report(action)
            case _:
                assert_never(action)


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

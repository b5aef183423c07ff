"""Cluster sync: keeps the cache up to date with the addresses in use in the networks that pools are bound to.

``controllers`` runs it while it leads; ``apply`` calls it to reserve and release addresses. ::

    read all --> cache --> wait for changes of the cluster --> read again
       ^                        |
       +---- back-off <--- no answer: bound pools wait

A job that the cluster refuses is no reason to wait: only its claim reports it and tries again (``UNAVAILABLE``).

Invariant: the reservations in the cache are those of the cluster's last answer.
"""

import datetime
import logging
from collections.abc import Awaitable, Callable

import msgspec

from gantry import errors
from gantry.kubernetes.api import meta
from gantry.kubernetes.claims import actions, cache, orphan_reservations, reconcile_claim
from gantry.kubernetes.claims import cluster_reservations as ledgers
from gantry.kubernetes.controllers import apply, client, cluster_ports, conflicts, events, rate_limit, reflector
from gantry.runtime import interface

log = logging.getLogger(__name__)

WAIT_SECONDS = 1.0
"""Seconds of one wait for changes of the cluster, and the minimum between two reads."""
INTERVAL_FACTOR = 20
"""Minimum interval between two reads, as a multiple of the last one's duration: large networks are read less often."""
CLEANUP_SECONDS = 30.0
"""Seconds between two checks for orphan reservations."""
UNAVAILABLE = (
    errors.RemoteError,
    errors.ProtocolError,
    errors.NotMasterError,
    errors.StorageError,
    errors.ConfigurationError,
    errors.QueueDrainedError,
    errors.QueueFullError,
)
"""Errors after which the cluster carries out no job at present; any other is the answer to one job."""
_RELEVANT_KINDS = ("network", "instance", "port")


async def identify(server: client.Client) -> str:
    """Return the default name of an API server: the UID of its namespace ``kube-system``, which never changes."""
    hint = "set the name of the API server with --site"
    try:
        body = await server.get("/api/v1/namespaces/kube-system")
    except client.RefusedError as error:
        raise errors.ConfigurationError(
            f"the UID of namespace kube-system cannot be read: {error}", hint=hint
        ) from None
    uid = client.convert(body, _Namespace).metadata.uid
    if not uid:
        raise errors.ConfigurationError("namespace kube-system has no UID", hint=hint)
    return uid


class _Namespace(msgspec.Struct):
    metadata: meta.ObjectMeta = meta.ObjectMeta()


class ClusterSync:
    """Synchronizes the cache with the ports of a cluster while ``run`` runs.

    ``identify`` returns the name of the site if none is configured.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        objects: cache.Cache,
        ports: cluster_ports.ClusterPorts,
        *,
        identify: Callable[[], Awaitable[str]],
        listener: reflector.Listener,
        recorder: events.Recorder,
    ) -> None:
        self._runtime = runtime
        self._cache = objects
        self._ports = ports
        self._identify = identify
        self._listener = listener
        self._recorder = recorder
        self._orphans: orphan_reservations.OrphansSince = {}
        self._conflicts = conflicts.ReservationConflicts(runtime.clock.monotonic)
        self._reserved_keys: set[str] = set()
        self._released_keys: set[str] = set()
        self._is_stale = False
        self._serial = 0
        self._cleaned_at = 0.0
        objects.networks.expect()

    async def run(self, applier: apply.Applier) -> None:
        """Read the cluster, and again after changes, until cancelled."""
        self._cache.networks.expect()
        self._orphans.clear()
        failures = 0
        while True:
            try:
                duration = await self._read()
                failures = 0
                await self._wait(applier, max(WAIT_SECONDS, INTERVAL_FACTOR * duration))
            except errors.GantryError as error:
                self._disconnect(error)
                await self._runtime.clock.sleep(rate_limit.back_off(self._runtime.random, failures))
                failures += 1

    async def reserve(self, action: actions.Reserve) -> None:
        """Reserve an address; ChangedError if it has another owner."""
        reservation = action.reservation
        self._reserved_keys.add(self._ports.key(reservation))
        try:
            await self._ports.reserve(reservation)
        except errors.PrerequisiteError as error:
            self._record_conflict(reservation, error)
            raise apply.ChangedError(f"{reservation.address} was not reserved: {error}") from None
        except errors.GantryError as error:
            raise self._failure(error) from None
        self._conflicts.drop(reservation)
        self._listener.requeue(self._cache.networks.add_reservation(reservation))

    async def release(self, action: actions.Release) -> None:
        """Release a reservation."""
        reservation = action.reservation
        self._released_keys.add(self._ports.key(reservation))
        try:
            await self._ports.release(reservation)
        except errors.GantryError as error:
            raise self._failure(error) from None
        self._listener.requeue(self._cache.networks.remove_reservation(reservation))

    def _failure(self, error: errors.GantryError) -> errors.GantryError:
        """Return the error of a job that was not carried out; disconnect if no job would be."""
        if not isinstance(error, UNAVAILABLE):
            return apply.ClusterRefusedError(f"the cluster refused: {error}")
        self._disconnect(error)
        return error

    def _record_conflict(self, reservation: ledgers.Reservation, error: errors.GantryError) -> None:
        """Record that an address has another owner, which the next read shows."""
        self._is_stale = True
        owner = ledgers.foreign_owner("the cluster:", error.message)
        self._conflicts.add(reservation, owner)
        log.info("%s not reserved for %s: %s", reservation.address, reservation.claim, error)
        claim = self._cache.claim(reservation.claim)
        if claim and claim.address_name:
            self._recorder.add(reconcile_claim.conflict_event(claim, reservation.address, owner))
        self._listener.requeue(self._cache.networks.refuse_reservation(reservation, owner))

    def _disconnect(self, error: errors.GantryError) -> None:
        log.warning("cluster unavailable: %s", error)
        self._listener.requeue(self._cache.networks.disconnect(f"the cluster is unavailable: {error.message}"))

    async def _read(self) -> float:
        """Read networks and reservations; return the duration in seconds."""
        if not self._ports.site:
            self._ports.site = await self._identify()
        started = self._runtime.clock.monotonic()
        self._is_stale = False
        self._serial = await self._ports.serial()
        names = self._cache.networks.names
        networks, reservations = await self._ports.read(names)
        self._reserved_keys = {self._ports.key(reservation) for reservation in reservations}
        self._released_keys.clear()
        self._listener.requeue(
            self._cache.update_networks(names, self._conflicts.with_conflicts(networks), reservations)
        )
        return self._runtime.clock.monotonic() - started

    async def _wait(self, applier: apply.Applier, interval: float) -> None:
        """Return when the cluster must be read again, after ``interval`` seconds unless a network is unread."""
        clock = self._runtime.clock
        next_read = clock.monotonic() + interval
        while not self._cache.networks.is_unread:
            if clock.monotonic() >= next_read and (self._is_stale or self._cache.networks.unreachable):
                return
            await self._release_orphans(applier)
            changes, self._serial = await self._ports.changes(self._serial, wait=WAIT_SECONDS)
            self._is_stale |= self._conflicts.is_due or any(self._is_relevant(change) for change in changes)

    def _is_relevant(self, change: cluster_ports.Change) -> bool:
        """Return whether a change requires a read; our own reservations and releases do not."""
        if change.kind == "port" and change.key in (
            self._released_keys if change.what == "removed" else self._reserved_keys
        ):
            return False
        return change.kind in _RELEVANT_KINDS

    async def _release_orphans(self, applier: apply.Applier) -> None:
        """Release orphan reservations after their grace period."""
        if self._runtime.clock.monotonic() - self._cleaned_at < CLEANUP_SECONDS:
            return
        self._cleaned_at = self._runtime.clock.monotonic()
        now = datetime.datetime.fromtimestamp(self._runtime.clock.now(), datetime.UTC)
        self._orphans = orphan_reservations.find(self._cache, self._orphans, now=now)
        for action in orphan_reservations.releases(self._cache, self._orphans, now=now):
            log.info("releasing %s, reserved for %s, which does not exist", action.reservation.address, action.ref)
            try:
                await applier.apply((action,))
            except errors.GantryError as error:
                log.info("%s: reservation not released: %s", action.ref, error)

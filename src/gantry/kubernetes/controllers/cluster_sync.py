"""Cluster sync: keeps the cache up to date with the addresses in use in the networks that pools are bound to.

``controllers`` runs it while it leads; ``apply`` calls it to reserve and release addresses. ::

    read all --> cache --> wait for changes of the cluster --> read again
       ^                        |
       +---- back-off <--- no answer: bound pools wait

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
_RELEVANT_KINDS = ("network", "instance", "port")


async def identify(server: client.Client) -> str:
    """Return the default name of an API server: the UID of its namespace ``kube-system``, which never changes."""
    hint = "set the name of the API server with --site"
    try:
        found = await server.get("/api/v1/namespaces/kube-system")
    except client.RefusedError as error:
        raise errors.ConfigurationError(
            f"the UID of namespace kube-system cannot be read: {error}", hint=hint
        ) from None
    uid = client.convert(found, _Namespace).metadata.uid
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
        seen: cache.Cache,
        book: cluster_ports.ClusterPorts,
        *,
        identify: Callable[[], Awaitable[str]],
        listener: reflector.Listener,
        recorder: events.Recorder,
    ) -> None:
        self._runtime = runtime
        self._index = seen
        self._ports = book
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
        seen.networks.expect()

    async def run(self, carrying: apply.Applier) -> None:
        """Read the cluster, and again after changes, until cancelled."""
        self._index.networks.expect()
        self._orphans.clear()
        failures = 0
        while True:
            try:
                took = await self._read()
                failures = 0
                await self._wait(carrying, max(WAIT_SECONDS, INTERVAL_FACTOR * took))
            except errors.GantryError as error:
                self._disconnect(error)
                await self._runtime.clock.sleep(rate_limit.back_off(self._runtime.random, failures))
                failures += 1

    async def reserve(self, action: actions.Reserve) -> None:
        """Reserve an address; ChangedError if it has another owner."""
        one = action.reservation
        self._reserved_keys.add(self._ports.key(one))
        try:
            await self._ports.reserve(one)
        except errors.PrerequisiteError as error:
            self._record_conflict(one, error)
            raise apply.ChangedError(f"{one.address} was not reserved: {error}") from None
        except errors.GantryError as error:
            self._disconnect(error)
            raise
        self._conflicts.drop(one)
        self._listener.requeue(self._index.networks.add_reservation(one))

    async def release(self, action: actions.Release) -> None:
        """Release a reservation."""
        one = action.reservation
        self._released_keys.add(self._ports.key(one))
        try:
            await self._ports.release(one)
        except errors.GantryError as error:
            self._disconnect(error)
            raise
        self._listener.requeue(self._index.networks.remove_reservation(one))

    def _record_conflict(self, one: ledgers.Reservation, error: errors.GantryError) -> None:
        """Record that an address has another owner, which the next read shows."""
        self._is_stale = True
        who = ledgers.foreign_owner("the cluster:", error.message)
        self._conflicts.add(one, who)
        log.info("%s not reserved for %s: %s", one.address, one.claim, error)
        claim = self._index.claim(one.claim)
        if claim and claim.address_name:
            self._recorder.add(reconcile_claim.conflict_event(claim, one.address, who))
        self._listener.requeue(self._index.networks.refuse_reservation(one, who))

    def _disconnect(self, error: errors.GantryError) -> None:
        log.warning("cluster unavailable: %s", error)
        self._listener.requeue(self._index.networks.disconnect(f"the cluster is unavailable: {error.message}"))

    async def _read(self) -> float:
        """Read networks and reservations; return the duration in seconds."""
        if not self._ports.site:
            self._ports.site = await self._identify()
        began = self._runtime.clock.monotonic()
        self._is_stale = False
        self._serial = await self._ports.serial()
        names = self._index.networks.names
        networks, reservations = await self._ports.read(names)
        self._reserved_keys = {self._ports.key(one) for one in reservations}
        self._released_keys.clear()
        self._listener.requeue(
            self._index.update_networks(names, self._conflicts.with_conflicts(networks), reservations)
        )
        return self._runtime.clock.monotonic() - began

    async def _wait(self, carrying: apply.Applier, least: float) -> None:
        """Return when the cluster must be read again, after ``least`` seconds unless a network is unread."""
        clock = self._runtime.clock
        due = clock.monotonic() + least
        while not self._index.networks.is_unread:
            if clock.monotonic() >= due and (self._is_stale or self._index.networks.unreachable):
                return
            await self._release_orphans(carrying)
            changed, self._serial = await self._ports.changes(self._serial, wait=WAIT_SECONDS)
            self._is_stale |= self._conflicts.is_due or any(self._is_relevant(one) for one in changed)

    def _is_relevant(self, change: cluster_ports.Change) -> bool:
        """Return whether a change requires a read; our own reservations and releases do not."""
        if change.kind == "port" and change.key in (
            self._released_keys if change.what == "removed" else self._reserved_keys
        ):
            return False
        return change.kind in _RELEVANT_KINDS

    async def _release_orphans(self, carrying: apply.Applier) -> None:
        """Release orphan reservations after their grace period."""
        if self._runtime.clock.monotonic() - self._cleaned_at < CLEANUP_SECONDS:
            return
        self._cleaned_at = self._runtime.clock.monotonic()
        now = datetime.datetime.fromtimestamp(self._runtime.clock.now(), datetime.UTC)
        self._orphans = orphan_reservations.find(self._index, self._orphans, now=now)
        for action in orphan_reservations.releases(self._index, self._orphans, now=now):
            log.info("releasing %s, reserved for %s, which does not exist", action.reservation.address, action.ref)
            try:
                await carrying.apply((action,))
            except errors.GantryError as error:
                log.info("%s: reservation not released: %s", action.ref, error)

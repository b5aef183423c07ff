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

WAIT = 1.0
"""Seconds of one wait for changes of the cluster, and the minimum between two reads."""
SHARE = 20
"""Minimum interval between two reads, as a multiple of the last one's duration: large networks are read less often."""
SWEEP = 30.0
"""Seconds between two checks for orphan reservations."""
_CONCERNED = ("network", "instance", "port")


async def identify(server: client.Client) -> str:
    """Return the default name of an API server: the UID of its namespace ``kube-system``, which never changes."""
    hint = "set the name of the API server with --site"
    try:
        found = await server.get("/api/v1/namespaces/kube-system")
    except client.RefusedError as error:
        raise errors.ConfigurationError(
            f"the UID of namespace kube-system cannot be read: {error}", hint=hint
        ) from None
    uid = client.shaped(found, _Namespace).metadata.uid
    if not uid:
        raise errors.ConfigurationError("namespace kube-system has no UID", hint=hint)
    return uid


class _Namespace(msgspec.Struct):
    metadata: meta.ObjectMeta = meta.ObjectMeta()


class Keeper:
    """Synchronizes the cache with the ports of a cluster while ``run`` runs.

    ``identify`` returns the name of the site if none is configured.
    """

    def __init__(
        self,
        runtime: interface.Runtime,
        seen: cache.Index,
        book: cluster_ports.Ledger,
        *,
        identify: Callable[[], Awaitable[str]],
        listener: reflector.Listener,
        recorder: events.Recorder,
    ) -> None:
        self._runtime = runtime
        self._index = seen
        self._book = book
        self._identify = identify
        self._listener = listener
        self._recorder = recorder
        self._left: orphan_reservations.Known = {}
        self._refusals = conflicts.Refusals(runtime.clock.monotonic)
        self._own: set[str] = set()
        self._given: set[str] = set()
        self._is_old = False
        self._serial = 0
        self._swept = 0.0
        seen.bonds.expect()

    async def run(self, carrying: apply.Carrier) -> None:
        """Read the cluster, and again after changes, until cancelled."""
        self._index.bonds.expect()
        self._left.clear()
        failures = 0
        while True:
            try:
                took = await self._read()
                failures = 0
                await self._wait(carrying, max(WAIT, SHARE * took))
            except errors.GantryError as error:
                self._lose(error)
                await self._runtime.clock.sleep(rate_limit.pause(self._runtime.random, failures))
                failures += 1

    async def reserve(self, action: actions.Reserve) -> None:
        """Reserve an address; ChangedError if it has another owner."""
        one = action.reservation
        self._own.add(self._book.key(one))
        try:
            await self._book.reserve(one)
        except errors.PrerequisiteError as error:
            self._refuse(one, error)
            raise apply.ChangedError(f"{one.address} was not reserved: {error}") from None
        except errors.GantryError as error:
            self._lose(error)
            raise
        self._refusals.drop(one)
        self._listener.touched(self._index.bonds.reserved(one))

    async def release(self, action: actions.Release) -> None:
        """Release a reservation."""
        one = action.reservation
        self._given.add(self._book.key(one))
        try:
            await self._book.release(one)
        except errors.GantryError as error:
            self._lose(error)
            raise
        self._listener.touched(self._index.bonds.released(one))

    def _refuse(self, one: ledgers.Reservation, error: errors.GantryError) -> None:
        """Record that an address has another owner, which the next read shows."""
        self._is_old = True
        who = ledgers.other("the cluster:", error.message)
        self._refusals.add(one, who)
        log.info("%s not reserved for %s: %s", one.address, one.claim, error)
        claim = self._index.claim(one.claim)
        if claim and claim.address_name:
            self._recorder.add(reconcile_claim.conflict(claim, one.address, who))
        self._listener.touched(self._index.bonds.refused(one, who))

    def _lose(self, error: errors.GantryError) -> None:
        log.warning("cluster unavailable: %s", error)
        self._listener.touched(self._index.bonds.lost(f"the cluster is unavailable: {error.message}"))

    async def _read(self) -> float:
        """Read networks and reservations; return the duration in seconds."""
        if not self._book.site:
            self._book.site = await self._identify()
        began = self._runtime.clock.monotonic()
        self._is_old = False
        self._serial = await self._book.serial()
        names = self._index.bonds.names
        networks, reservations = await self._book.read(names)
        self._own = {self._book.key(one) for one in reservations}
        self._given.clear()
        self._listener.touched(self._index.learn(names, self._refusals.complete(networks), reservations))
        return self._runtime.clock.monotonic() - began

    async def _wait(self, carrying: apply.Carrier, least: float) -> None:
        """Return when the cluster must be read again, after ``least`` seconds unless a network is unread."""
        clock = self._runtime.clock
        due = clock.monotonic() + least
        while not self._index.bonds.is_unread:
            if clock.monotonic() >= due and (self._is_old or self._index.bonds.away):
                return
            await self._sweep(carrying)
            changed, self._serial = await self._book.changes(self._serial, wait=WAIT)
            self._is_old |= self._refusals.is_due or any(self._concerns(one) for one in changed)

    def _concerns(self, change: cluster_ports.Change) -> bool:
        """Return whether a change requires a read; our own reservations and releases do not."""
        if change.kind == "port" and change.key in (self._given if change.what == "removed" else self._own):
            return False
        return change.kind in _CONCERNED

    async def _sweep(self, carrying: apply.Carrier) -> None:
        """Release orphan reservations after their grace period."""
        if self._runtime.clock.monotonic() - self._swept < SWEEP:
            return
        self._swept = self._runtime.clock.monotonic()
        now = datetime.datetime.fromtimestamp(self._runtime.clock.now(), datetime.UTC)
        self._left = orphan_reservations.find(self._index, self._left, now=now)
        for action in orphan_reservations.releases(self._index, self._left, now=now):
            log.info("releasing %s, reserved for %s, which does not exist", action.reservation.address, action.ref)
            try:
                await carrying.carry((action,))
            except errors.GantryError as error:
                log.info("%s: reservation not released: %s", action.ref, error)

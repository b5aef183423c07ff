"""Leader election: of several controllers only the holder of a Lease works.

``daemons.kube`` calls it. The Lease (``coordination.k8s.io/v1``) is used as by Kubernetes' own controllers, updated by
compare-and-swap. Clocks of other machines are not trusted: a Lease has expired if it has not changed for its duration
by our own clock. A holder that cannot renew it stops working before that.

After a crash of the leader another one takes over within ``LEASE_SECONDS + 2 * RETRY_SECONDS`` seconds, after a regular
stop at once. Two leaders at a time would only be slower, not wrong, because each write has the resource version that it
changes.
"""

import asyncio
import datetime
import logging
from collections.abc import Awaitable, Callable

import msgspec

from gantry.kubernetes.api import schema
from gantry.kubernetes.controllers import client, metrics
from gantry.runtime import interface

log = logging.getLogger(__name__)

LEASE_SECONDS = 8.0
"""Duration of the Lease in seconds after a renewal."""
RENEW_DEADLINE_SECONDS = 5.0
"""Seconds without a successful renewal after which the leader stops working."""
RETRY_SECONDS = 1.5
"""Seconds between two renewals, and between two attempts to acquire the Lease."""
NAME = "gantry-kube"


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: dict[str, object] = {}
    spec: _Spec = _Spec()


class Election:
    """A candidate for a Lease."""

    def __init__(
        self,
        runtime: interface.Runtime,
        server: client.Client,
        *,
        namespace: str,
        name: str = NAME,
        identity: str = "",
        counts: metrics.Metrics,
    ) -> None:
        """A fixed ``identity`` lets a unique candidate reacquire its Lease after a crash; the default is random."""
        self._runtime = runtime
        self._server = server
        self._counts = counts
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace, self._name = namespace, name
        self._identity = identity or f"{runtime.host}_{runtime.random.uuid()}"
        self._lease = _Lease()
        self._changed_at = runtime.clock.monotonic()
        self._renewed_at = 0.0

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run ``lead`` whenever and as long as we hold the Lease; release it when cancelled."""
        self._counts.set("gantry_kube_leader", 0)
        while True:
            await self._acquire()
            log.info("%s acquired the lease and leads", self._identity)
            self._counts.set("gantry_kube_leader", 1)
            try:
                await self._lead(lead)
            finally:
                self._counts.set("gantry_kube_leader", 0)
            log.warning("%s lost the lease and no longer leads", self._identity)

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        work = asyncio.ensure_future(lead())
        keeping = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait({work, keeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = work.done()
            for task in (work, keeping):
                task.cancel()
            await asyncio.gather(work, keeping, return_exceptions=True)
            if not keeping.cancelled() and keeping.exception() is None:
                log.debug("lost the lease")
            else:
                await self._release()
        if ended:
            work.result()

    async def _acquire(self) -> None:
        """Return when the Lease is acquired."""
        while not await self._try_acquire():
            await self._runtime.clock.sleep(RETRY_SECONDS)

    async def _renew(self) -> None:
        """Renew the Lease; return when it is lost, or could not be renewed for ``RENEW_DEADLINE_SECONDS`` seconds."""
        while True:
            remaining = self._renewed_at + RENEW_DEADLINE_SECONDS - self._runtime.clock.monotonic()
            try:
                async with asyncio.timeout(remaining):
                    await self._runtime.clock.sleep(RETRY_SECONDS)
                    renewed = await self._try_acquire()
            except TimeoutError:
                return
            if not renewed and self._holder not in ("", self._identity):
                return

    async def _try_acquire(self) -> bool:
        """Acquire or renew the Lease if it is free, ours or expired; return whether it succeeded."""
        started = self._runtime.clock.monotonic()
        try:
            if not await self._is_free():
                return False
            body = self._lease_body(self._identity, LEASE_SECONDS)
            if self._lease.metadata:
                answer = await self._send("PUT", f"{self._collection}/{self._name}", body)
            else:
                answer = await self._send("POST", self._collection, body)
            self._lease = client.convert(answer, _Lease)
        except (client.RefusedError, client.UnknownError) as error:
            level = logging.DEBUG if getattr(error, "http_status", 0) == 409 else logging.WARNING
            log.log(level, "lease %s not acquired: %s", self._name, error)
            return False
        self._renewed_at = self._changed_at = started
        return True

    async def _is_free(self) -> bool:
        """Read the Lease; return whether we may acquire it."""
        try:
            body = await self._server.get(f"{self._collection}/{self._name}", timeout=RENEW_DEADLINE_SECONDS / 2)
        except client.RefusedError as error:
            if error.http_status != 404:
                raise
            self._lease = _Lease()
            return True
        lease, now = client.convert(body, _Lease), self._runtime.clock.monotonic()
        if lease != self._lease:
            self._lease, self._changed_at = lease, now
        good_for = lease.spec.lease_duration_seconds or LEASE_SECONDS
        return self._holder in ("", self._identity) or now - self._changed_at >= good_for

    async def _release(self) -> None:
        """Release the Lease, so that another candidate can acquire it at once."""
        try:
            if await self._is_free() and self._holder == self._identity:
                await self._send("PUT", f"{self._collection}/{self._name}", self._lease_body("", 1))
        except (client.RefusedError, client.UnknownError) as error:
            log.info("lease %s not released: %s", self._name, error)

    async def _send(self, method: str, path: str, body: schema.Json) -> schema.Json:
        return await self._server.send(method, path, body, timeout=RENEW_DEADLINE_SECONDS / 2)

    @property
    def _holder(self) -> str:
        return self._lease.spec.holder_identity or ""

    def _lease_body(self, holder: str, hold: float) -> schema.Json:
        """Return the Lease with a new holder, based on the version that was read."""
        now = datetime.datetime.fromtimestamp(self._runtime.clock.now(), datetime.UTC)
        stamp = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        changes = (self._lease.spec.lease_transitions or 0) + (self._holder != holder)
        spec: schema.Json = {
            "holderIdentity": holder,
            "leaseDurationSeconds": int(hold),
            "acquireTime": stamp if holder != self._holder else self._lease.spec.acquire_time,
            "renewTime": stamp,
            "leaseTransitions": changes,
        }
        metadata = self._lease.metadata or {"name": self._name, "namespace": self._namespace}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

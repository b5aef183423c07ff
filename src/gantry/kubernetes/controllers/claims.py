"""Claim controller: reconciles claims, several at a time.

``controllers`` adds pools that have work. One worker decides for the claims of a pool, and each decision is applied by
a task of its own, so that a slow or failing claim does not delay others. After a failure a claim is requeued with
exponential back-off; so is a claim whose decisions are undone again and again.

Invariant: each decision with actions ends with ``Cache.finish``, at the latest when ``run`` ends.
"""

import asyncio
import datetime
import logging

from gantry import errors
from gantry.kubernetes.api import meta
from gantry.kubernetes.claims import actions, cache, reconcile_claim
from gantry.kubernetes.controllers import apply, client, metrics, rate_limit, reflector, workqueue
from gantry.runtime import interface

log = logging.getLogger(__name__)

POOL_WORKERS = 10
"""Pools that are processed at a time."""
YIELD_EVERY = 100
"""Yield to the event loop after this many decisions without I/O."""


class ClaimController:
    """Reconciles claims while ``run`` runs."""

    def __init__(
        self,
        runtime: interface.Runtime,
        objects: cache.Cache,
        applier: apply.Applier,
        *,
        listener: reflector.Listener,
        concurrency: int,
        counts: metrics.Metrics,
    ) -> None:
        self._runtime = runtime
        self._cache = objects
        self._applier = applier
        self._listener = listener
        self._concurrency = concurrency
        self._counts = counts
        self._pools: workqueue.WorkQueue[meta.Ref] = workqueue.WorkQueue(runtime)
        self._failures: dict[meta.Ref, int] = {}
        self._requeue_limit = rate_limit.RequeueLimit(runtime)
        self._in_progress: set[meta.Ref] = set()
        self._postponed: set[meta.Ref] = set()

    def add(self, pool: meta.Ref) -> None:
        """Queue the claims of a pool."""
        waiting = len(self._pools)
        self._pools.add(pool)
        if len(self._pools) != waiting:
            self._counts.set("gantry_kube_queue", len(self._pools))

    async def run(self) -> None:
        """Reconcile until cancelled; claims in progress are requeued then."""
        slots = asyncio.Semaphore(self._concurrency)
        try:
            async with asyncio.TaskGroup() as group:
                await self._pools.run(lambda pool: self._reconcile(pool, group, slots), workers=POOL_WORKERS)
        finally:
            for claim in self._in_progress | self._postponed:
                self._finish(claim, again=True)
            self._postponed.clear()

    async def _reconcile(self, pool: meta.Ref, group: asyncio.TaskGroup, slots: asyncio.Semaphore) -> None:
        """Reconcile the claims of a pool until none has work."""
        idle = 0
        while True:
            # Decide after the wait for a slot, when the cache is more recent.
            await slots.acquire()
            decision = reconcile_claim.step(self._cache, pool, now=self._now, below=self._runtime.random.below)
            if decision and decision.steps:
                self._in_progress.add(decision.claim)
                group.create_task(self._run_decision(decision, slots))
                continue
            slots.release()
            if decision is None:
                return
            if decision.later and decision.claim not in self._postponed:
                self._postponed.add(decision.claim)
                group.create_task(self._requeue_later(decision))
            idle += 1
            if idle % YIELD_EVERY == 0:
                await self._runtime.clock.sleep(0)

    async def _run_decision(self, decision: reconcile_claim.Decision, slots: asyncio.Semaphore) -> None:
        try:
            wait = await self._apply(decision)
        finally:
            slots.release()
        if wait is not None:
            await self._runtime.clock.sleep(wait)
        self._finish(decision.claim, again=wait is not None)

    async def _requeue_later(self, decision: reconcile_claim.Decision) -> None:
        await self._runtime.clock.sleep(decision.later)
        self._postponed.discard(decision.claim)
        self._finish(decision.claim, again=True)

    def _finish(self, claim: meta.Ref, *, again: bool) -> None:
        self._in_progress.discard(claim)
        self._listener.requeue(self._cache.finish(claim, again=again))

    async def _apply(self, decision: reconcile_claim.Decision) -> float | None:
        """Apply a decision; return after how many seconds to requeue the claim, None for not at all."""
        claim = decision.claim
        least, result = 0.0, "changed"
        try:
            await self._applier.apply(decision.steps)
        except apply.ForeignError as error:
            log.info("%s: %s", claim, error)
            self._counts.count("gantry_kube_decisions_total", result="foreign")
            return None
        except apply.ChangedError as error:
            log.debug("%s: %s", claim, error)
        except client.RefusedError as error:
            least, result = error.retry_after, "refused"
            await self._report_refusal(decision, error)
        except apply.ClusterRefusedError as error:
            log.warning("%s: %s", claim, error)
            result = "refused"
            cached = self._cache.claim(claim)
            if cached and not cached.address_name:
                await self._report(claim, error.message)
        except errors.GantryError as error:
            log.warning("%s: %s", claim, error)
            result = "unknown"
        else:
            self._failures.pop(claim, None)
            self._counts.count("gantry_kube_decisions_total", result="done")
            return self._requeue_limit.delay(claim) or None
        self._counts.count("gantry_kube_decisions_total", result=result)
        failures = self._failures.pop(claim, 0)
        if self._cache.claim(claim):
            self._failures[claim] = failures + 1
        return max(least, rate_limit.back_off(self._runtime.random, failures))

    async def _report_refusal(self, decision: reconcile_claim.Decision, error: client.RefusedError) -> None:
        """Write to the claim's status that the server rejected its address object, if a retry will not help."""
        if error.http_status in (404, 409):
            log.info("%s: %s", decision.claim, error)
            return
        log.warning("%s: %s", decision.claim, error)
        is_final = 400 <= error.http_status < 500 and error.http_status not in (401, 408, 429)
        if is_final and isinstance(decision.steps[0], actions.Create):
            await self._report(decision.claim, error.message)

    async def _report(self, ref: meta.Ref, message: str) -> None:
        """Write to a claim's status why it has no address object."""
        claim = self._cache.claim(ref)
        if claim is None or claim.is_deleting:
            return
        try:
            await self._applier.apply(reconcile_claim.creation_refused(claim, message, now=self._now))
        except errors.GantryError as failure:
            log.info("%s: status not updated: %s", ref, failure)

    @property
    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._runtime.clock.now(), datetime.UTC)

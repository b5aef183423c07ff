"""Pool controller: writes metadata and status of pools, one status update for many claims.

``controllers`` adds pools that have work.
"""

import datetime

from gantry.kubernetes.api import ipam, meta
from gantry.kubernetes.claims import cache, reconcile_pool
from gantry.kubernetes.controllers import apply, workqueue
from gantry.runtime import interface

STATUS_DELAY_SECONDS = 1.0
"""Seconds from a change of a pool to its status update."""
DELAY_FACTOR = 50
"""Delay of a status update as a multiple of the last one's duration: large pools are written less often."""
WORKERS = 4
"""Pools that are processed at a time."""


class PoolController:
    """Reconciles pools while ``run`` runs."""

    def __init__(self, runtime: interface.Runtime, objects: cache.Cache, applier: apply.Applier) -> None:
        self._runtime = runtime
        self._cache = objects
        self._applier = applier
        self._pools: workqueue.WorkQueue[meta.Ref] = workqueue.WorkQueue(runtime)
        self._written_status: dict[meta.Ref, reconcile_pool.WrittenStatus] = {}
        self._durations: dict[meta.Ref, float] = {}
        # Those that get their finalizer at once, and their first status after the usual delay.
        self._new_pools: set[meta.Ref] = set()

    def add(self, pool: meta.Ref) -> None:
        """Queue a pool; with a delay, unless it lacks the finalizer, without which claims get no address."""
        if self._needs_finalizer(pool) and pool not in self._new_pools:
            self._new_pools.add(pool)
            self._pools.add(pool)
        elif pool not in self._pools:
            self._pools.add(pool, after=max(STATUS_DELAY_SECONDS, DELAY_FACTOR * self._durations.get(pool, 0.0)))

    def _needs_finalizer(self, ref: meta.Ref) -> bool:
        pool = self._cache.pool(ref)
        return pool is not None and not pool.is_deleting and ipam.POOL_FINALIZER not in pool.metadata.finalizers

    async def run(self) -> None:
        """Reconcile until cancelled."""
        self._written_status.clear()
        await self._pools.run(self._reconcile, workers=WORKERS)

    async def _reconcile(self, pool: meta.Ref) -> None:
        """Reconcile a pool, step by step; the work queue retries after errors."""
        while True:
            started = self._runtime.clock.monotonic()
            now = datetime.datetime.fromtimestamp(self._runtime.clock.now(), datetime.UTC)
            decision = reconcile_pool.decide(self._cache, pool, now=now, written=self._written_status.get(pool))
            if not decision.steps:
                break
            await self._applier.apply(decision.steps)
            if pool in self._new_pools:
                # Its claims can continue; one status for all of them follows after the usual delay.
                self._new_pools.discard(pool)
                self.add(pool)
                break
            self._durations[pool] = self._runtime.clock.monotonic() - started
            current = self._cache.pool(pool)
            if decision.new_status and current:
                self._written_status[pool] = reconcile_pool.WrittenStatus(decision.new_status, current.status)
                # Later changes wait for the next run, or a busy pool would never be finished.
                self.add(pool)
                break
        if self._cache.pool(pool) is None:
            self._written_status.pop(pool, None)
            self._durations.pop(pool, None)
            self._new_pools.discard(pool)

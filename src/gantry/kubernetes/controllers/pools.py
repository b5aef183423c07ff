"""The pool controller: finalizer, labels, owner and status of pools, written once for many claims.

Who calls it: ``controllers``, which adds pools that have work.
"""

import datetime

from gantry.kubernetes.api import meta
from gantry.kubernetes.claims import cache, reconcile_pool
from gantry.kubernetes.controllers import apply, workqueue
from gantry.runtime import interface

DELAY = 1.0
"""Seconds from a change of a pool to its status."""
SHARE = 50
"""A status waits so many times as long as the last one took to make: that of a large pool is written less often."""
WORKERS = 4
"""How many pools are worked on at once."""


class PoolController:
    """Writes what pools should say while ``run`` runs."""

    def __init__(self, runtime: interface.Runtime, seen: cache.Index, carrying: apply.Carrier) -> None:
        self._runtime = runtime
        self._index = seen
        self._carrier = carrying
        self._pools: workqueue.Queue[meta.Ref] = workqueue.Queue(runtime)
        self._told: dict[meta.Ref, reconcile_pool.Told] = {}
        self._took: dict[meta.Ref, float] = {}

    def add(self, pool: meta.Ref) -> None:
        """Look at a pool in a moment."""
        if pool not in self._pools:
            self._pools.add(pool, after=max(DELAY, SHARE * self._took.get(pool, 0.0)))

    async def run(self) -> None:
        """Write until cancelled."""
        self._told.clear()
        await self._pools.run(self._describe, workers=WORKERS)

    async def _describe(self, pool: meta.Ref) -> None:
        """Do what is to be done for a pool, step by step; errors are the queue's, which tries again."""
        while True:
            began = self._runtime.clock.monotonic()
            now = datetime.datetime.fromtimestamp(self._runtime.clock.now(), datetime.UTC)
            decision = reconcile_pool.decide(self._index, pool, now=now, told=self._told.get(pool))
            if not decision.steps:
                break
            await self._carrier.carry(decision.steps)
            self._took[pool] = self._runtime.clock.monotonic() - began
            found = self._index.pool(pool)
            if decision.wanted and found:
                self._told[pool] = reconcile_pool.Told(decision.wanted, found.status)
                # What has changed meanwhile waits: while claims come and go there would be no end of it.
                self.add(pool)
                break
        if self._index.pool(pool) is None:
            self._told.pop(pool, None)
            self._took.pop(pool, None)

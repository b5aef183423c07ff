"""Tells all nodes how far changes are acknowledged, so that they can witness it when a master is confirmed.

Each call of the master says it (``rpc.client``). But a change of which only the candidates hear, such as a tag, leads
to no call to the other nodes: so after a change was acknowledged, each node gets a call. It is the smallest that is
fenced, because a node believes only a master whose epoch is proven, and with such calls the proof comes (``proofs``).
These calls begin at least ``INTERVAL_SECONDS``, and ``SECONDS_PER_NODE`` for each node, after those before them, which
bounds their rate, whatever the number of changes and nodes. An idle cluster makes none.
"""

import asyncio
import contextlib
from collections.abc import Callable

from gantry import errors
from gantry.rpc import calls, client, targets
from gantry.rpc.calls import reach
from gantry.runtime import interface
from gantry.state.candidates import replication
from gantry.state.journal import record
from gantry.state.objects import snapshot

INTERVAL_SECONDS = 2.0
SECONDS_PER_NODE = 0.03
TIMEOUT_SECONDS = 2.0
"""For an answer: a node that is silent hears of it by a later call."""


class Witnesses:
    """All nodes of a cluster, which get to know what ``candidates`` have agreed on."""

    def __init__(
        self,
        clock: interface.Clock,
        nodes: client.Client,
        candidates: replication.Candidates,
        state: Callable[[], snapshot.Snapshot],
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        self._candidates = candidates
        self._state = state
        self._news = asyncio.Event()

    def follow(self, journal_record: record.Record, before: snapshot.Snapshot) -> None:
        """Note that a record was acknowledged."""
        del journal_record, before
        self._news.set()

    async def keep(self) -> None:
        """Tell the nodes when there is news; runs until cancelled."""
        reported = reach.UNKNOWN
        while True:
            if self._candidates.agreed == reported:
                await self._news.wait()
            self._news.clear()
            reported = self._candidates.agreed
            state = self._state()
            nodes = sorted(state.nodes.values(), key=lambda node: node.name)
            reachable = [state.target(node) for node in nodes if node.takes_part]
            # A silent node does not delay the next report to the others.
            pause = self._clock.sleep(max(INTERVAL_SECONDS, SECONDS_PER_NODE * len(reachable)))
            await asyncio.gather(pause, *map(self._tell, reachable))

    async def _tell(self, target: targets.Target) -> None:
        with contextlib.suppress(errors.GantryError, TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._nodes.attempt(target, calls.InstanceList(hypervisors=()))

"""Carries what follows from the state to the nodes: ssconf files to all, the journal to the master candidates.

An observer of the store. A change that ssconf shows wakes one task, which sends the newest values to every node that
is online; changes that come meanwhile are sent together afterwards. A node that cannot be reached is logged once, and
tried again every ``PAUSE`` seconds until it has the values; ``gnt-cluster verify`` shows that it lags.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from gantry.model import cluster
from gantry.rpc import calls, client
from gantry.state import replication, snapshot, ssconf

log = logging.getLogger(__name__)

PAUSE = 30.0


class Distribution:
    """Follows the state and keeps nodes and candidates up to date."""

    def __init__(
        self,
        nodes: client.Client,
        candidates: replication.Candidates,
        state: Callable[[], snapshot.Snapshot],
        *,
        epoch: Callable[[], int],
    ) -> None:
        self._nodes = nodes
        self._candidates = candidates
        self._state = state
        self._epoch = epoch
        self._wanted = asyncio.Event()
        self._lagging: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; everything is sent once."""
        self._set_candidates(self._state())
        self._wanted.set()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End; what is not sent yet is left to the next start."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def follow(self, before: snapshot.Snapshot, after: snapshot.Snapshot, changes: Sequence[snapshot.Change]) -> None:
        """Observe a change of the state."""
        if not changes or any(change.kind in ("nodes", "cluster") for change in changes):
            self._set_candidates(after)
        if not changes or ssconf.affects(before, after, changes):
            self._wanted.set()

    def _set_candidates(self, state: snapshot.Snapshot) -> None:
        owner = state.the_cluster
        chosen = [node for node in _by_name(state) if node.role(owner) is cluster.Role.CANDIDATE]
        self._candidates.set_targets([state.target(node) for node in chosen])

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PAUSE if self._lagging else None):
                    await self._wanted.wait()
            everybody = self._wanted.is_set()
            self._wanted.clear()
            state = self._state()
            online = [node for node in _by_name(state) if not node.offline]
            where = [state.target(node) for node in online if everybody or node.uuid in self._lagging]
            answers = await self._nodes.fan_out(
                where, calls.WriteSsconf(values=ssconf.values(state), epoch=self._epoch())
            )
            for answer in answers:
                if answer.error and answer.target.uuid not in self._lagging:
                    log.warning("ssconf files were not written: %s", answer.error)
            self._lagging = {answer.target.uuid for answer in answers if answer.error}


def _by_name(state: snapshot.Snapshot) -> list[cluster.Node]:
    """Return the nodes in an order that is the same in every run; that of the snapshot's maps is not."""
    return sorted(state.nodes.values(), key=lambda node: node.name)

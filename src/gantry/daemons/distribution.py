"""Distribution of the state to nodes: ssconf files to all nodes, the journal to the master candidates.

``Distribution`` observes the store. A change that affects ssconf wakes a task, which sends the current values to every
online node; changes during that time are sent together afterwards. An unreachable node is logged once, and retried
every ``RETRY_SECONDS`` until it has the values; ``gnt-cluster verify`` reports that it is behind.

Instances and networks change much more often than nodes, and ssconf has only lists of their names. A change of only
these lists is delayed by ``DELAY_SECONDS_PER_NODE``, so that several changes are sent together: this bounds the rate of
messages, whatever the number of changes and nodes. Writing lists of tens of thousands of names takes time, so such a
change is delayed by ``DELAY_FACTOR`` times the time of the last write.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from gantry.model import cluster
from gantry.operations.cluster import redist_conf
from gantry.rpc import client
from gantry.state import replication, snapshot, ssconf

log = logging.getLogger(__name__)

RETRY_SECONDS = 30.0
DELAY_SECONDS_PER_NODE = 0.03
DELAY_FACTOR = 100
MAX_DELAY_SECONDS = 2.0
"""Maximum delay of a change of names due to the time of writing the lists."""

_FREQUENT = ("instances", "networks")


class Distribution:
    """Follows the state and keeps nodes and candidates up to date."""

    def __init__(
        self,
        nodes: client.Client,
        candidates: replication.Candidates,
        state: Callable[[], snapshot.Snapshot],
    ) -> None:
        self._nodes = nodes
        self._candidates = candidates
        self._state = state
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()
        self._sent: dict[str, str] = {}
        self._lagging: set[str] = set()
        self._write_seconds = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start; all values are sent once."""
        self._set_candidates(self._state())
        self._wake()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop; the next start sends all values again."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def follow(self, before: snapshot.Snapshot, after: snapshot.Snapshot, changes: Sequence[snapshot.Change]) -> None:
        """Observe a change of the state."""
        if not changes or any(change.kind in ("nodes", "cluster") for change in changes):
            self._set_candidates(after)
        if not changes or ssconf.affects(before, after, [change for change in changes if change.kind not in _FREQUENT]):
            self._wake()
        elif ssconf.affects(before, after, changes):
            self._changed.set()

    def _wake(self) -> None:
        self._changed.set()
        self._urgent.set()

    def _set_candidates(self, state: snapshot.Snapshot) -> None:
        owner = state.the_cluster
        candidates = [node for node in _by_name(state) if node.role(owner) is cluster.Role.CANDIDATE]
        self._candidates.set_targets([state.target(node) for node in candidates])

    async def _run(self) -> None:
        while True:
            await _wait(self._changed, RETRY_SECONDS if self._lagging else None)
            all_nodes = self._changed.is_set()
            if all_nodes:
                list_delay = min(DELAY_FACTOR * self._write_seconds, MAX_DELAY_SECONDS)
                await _wait(self._urgent, max(DELAY_SECONDS_PER_NODE * len(self._state().nodes), list_delay))
            self._changed.clear()
            self._urgent.clear()
            state = self._state()
            online = [node for node in _by_name(state) if not node.offline]
            receivers = [state.target(node) for node in online if all_nodes or node.uuid in self._lagging]
            start = asyncio.get_running_loop().time()
            values = ssconf.values(state)
            self._write_seconds = asyncio.get_running_loop().time() - start
            failed = await redist_conf.spread(self._nodes, receivers, values, before=self._sent)
            if all_nodes:
                self._sent = values
            for target, error in failed.items():
                if target.uuid not in self._lagging:
                    log.warning("could not write ssconf files, will retry: %s", error)
            self._lagging = {target.uuid for target in failed}


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    """Wait for the event, at most the given seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _by_name(state: snapshot.Snapshot) -> list[cluster.Node]:
    """Return the nodes sorted by name; the order of the snapshot's maps differs between runs."""
    return sorted(state.nodes.values(), key=lambda node: node.name)

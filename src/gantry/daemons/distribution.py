"""Carries what follows from the state to the nodes: ssconf files to all, the journal to the master candidates.

An observer of the store. A change that ssconf shows wakes one task, which brings the newest values to every node that
is online; changes that come meanwhile are sent together afterwards. A node that cannot be reached is logged once, and
tried again every ``PAUSE`` seconds until it has the values; ``gnt-cluster verify`` shows that it lags.

Instances and networks come and go much more often than nodes, and all that the files show of them is a list of names.
So a change of that alone waits ``SHARE`` seconds for each node, for others to go with it: the messages for it have a
bound, whatever the number of instances and networks made and of nodes. Lists of tens of thousands take their time: then
such a change waits ``REST`` times as long as it took to write them last.
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

PAUSE = 30.0
SHARE = 0.03
REST = 100
LONGEST = 2.0
"""Seconds that a change of names waits at most for the time that their lists take."""

_OFTEN = ("instances", "networks")


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
        self._took = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; everything is sent once."""
        self._set_candidates(self._state())
        self._wake()
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
        if not changes or ssconf.affects(before, after, [one for one in changes if one.kind not in _OFTEN]):
            self._wake()
        elif ssconf.affects(before, after, changes):
            self._changed.set()

    def _wake(self) -> None:
        self._changed.set()
        self._urgent.set()

    def _set_candidates(self, state: snapshot.Snapshot) -> None:
        owner = state.the_cluster
        chosen = [node for node in _by_name(state) if node.role(owner) is cluster.Role.CANDIDATE]
        self._candidates.set_targets([state.target(node) for node in chosen])

    async def _run(self) -> None:
        while True:
            await _wait(self._changed, PAUSE if self._lagging else None)
            everybody = self._changed.is_set()
            if everybody:
                await _wait(self._urgent, max(SHARE * len(self._state().nodes), min(REST * self._took, LONGEST)))
            self._changed.clear()
            self._urgent.clear()
            state = self._state()
            online = [node for node in _by_name(state) if not node.offline]
            where = [state.target(node) for node in online if everybody or node.uuid in self._lagging]
            begun = asyncio.get_running_loop().time()
            values = ssconf.values(state)
            self._took = asyncio.get_running_loop().time() - begun
            failed = await redist_conf.spread(self._nodes, where, values, before=self._sent)
            if everybody:
                self._sent = values
            for target, error in failed.items():
                if target.uuid not in self._lagging:
                    log.warning("ssconf files were not written: %s", error)
            self._lagging = {target.uuid for target in failed}


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    """Return when the event is there, or after some seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _by_name(state: snapshot.Snapshot) -> list[cluster.Node]:
    """Return the nodes in an order that is the same in every run; that of the snapshot's maps is not."""
    return sorted(state.nodes.values(), key=lambda node: node.name)

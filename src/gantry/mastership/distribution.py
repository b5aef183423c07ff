"""Distribution of the state to nodes: ssconf files to all nodes, the journal to the master candidates.

The candidates are those of the current state: a change of them has to reach them before it can be acknowledged. Nodes
get acknowledged values alone, because they act on them: a node that took the candidates of a change which is then lost
would refuse the next master.

An acknowledged change that affects ssconf wakes a task, which sends the acknowledged values to every online node;
changes during that time are sent together afterwards. A node that is unreachable or needs more than
``PROMPT_SECONDS`` is logged once. From then on another task sends it the values every ``RETRY_SECONDS``, until it has
the current ones, so the other nodes do not wait for it; ``gnt-cluster verify`` reports that it is behind.

Instances and networks change much more often than nodes, and ssconf has only lists of their names. A change of only
these lists is delayed by ``DELAY_SECONDS_PER_NODE``, so that several changes are sent together: this bounds the rate of
messages, whatever the number of changes and nodes. Writing lists of tens of thousands of names takes time, so such a
change is delayed by ``DELAY_FACTOR`` times the time of the last write.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from gantry import errors
from gantry.model import cluster
from gantry.operations.cluster import ssconf_files
from gantry.rpc import calls, client, liveness, targets
from gantry.state.candidates import replication
from gantry.state.journal import record
from gantry.state.objects import snapshot, ssconf

Result = TypeVar("Result")

log = logging.getLogger(__name__)

RETRY_SECONDS = 30.0
PROMPT_SECONDS = 5.0
"""For a message to a node, before the other nodes no longer wait for it."""
DELAY_SECONDS_PER_NODE = 0.03
DELAY_FACTOR = 100
MAX_DELAY_SECONDS = 2.0
"""Maximum delay of a change of names due to the time of writing the lists."""

_FREQUENT = ("instances", "networks")


class Distribution:
    """Follows the state and keeps nodes and candidates up to date; ``acknowledged`` returns the acknowledged state."""

    def __init__(
        self,
        nodes: client.Client,
        candidates: replication.Candidates,
        acknowledged: Callable[[], snapshot.Snapshot],
    ) -> None:
        self._nodes = nodes
        self._candidates = candidates
        self._acknowledged = acknowledged
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()
        self._sent: dict[str, str] = {}
        self._lagging: set[str] = set()
        self._write_seconds = 0.0
        self._distributed = asyncio.Event()
        self._catching_up: dict[targets.Target, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, current: snapshot.Snapshot) -> None:
        """Start with the candidates of the current state; all values are sent once."""
        self._set_candidates(current)
        self._wake()
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._retry())]

    async def close(self) -> None:
        """Stop; the next start sends all values again."""
        tasks = [*self._tasks, *self._catching_up.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def observe(self, _: snapshot.Snapshot, after: snapshot.Snapshot, changes: Sequence[snapshot.Change]) -> None:
        """Observe a change of the current state: replicate to its candidates."""
        if not changes or any(change.kind in ("nodes", "cluster") for change in changes):
            self._set_candidates(after)

    def follow(self, journal_record: record.Record, before: snapshot.Snapshot) -> None:
        """Follow a record that is acknowledged: send the nodes what it changes."""
        after, changes = self._acknowledged(), journal_record.changes
        if ssconf.affects(before, after, [change for change in changes if change.kind not in _FREQUENT]):
            self._wake()
        elif ssconf.affects(before, after, changes):
            self._changed.set()

    def _wake(self) -> None:
        self._changed.set()
        self._urgent.set()

    def _set_candidates(self, state: snapshot.Snapshot) -> None:
        the_cluster = state.the_cluster
        candidates = [node for node in _by_name(state) if node.role(the_cluster) is cluster.Role.CANDIDATE]
        self._candidates.set_targets(
            [state.target(node) for node in candidates], policy=state.replication_policy, serial=state.serial
        )

    async def _run(self) -> None:
        prompt = _Prompt(self._nodes)
        while True:
            await self._changed.wait()
            list_delay = min(DELAY_FACTOR * self._write_seconds, MAX_DELAY_SECONDS)
            await _wait(self._urgent, max(DELAY_SECONDS_PER_NODE * len(self._acknowledged().nodes), list_delay))
            self._changed.clear()
            self._urgent.clear()
            state = self._acknowledged()
            receivers = [target for target in _online(state) if target.uuid not in self._lagging]
            start = asyncio.get_running_loop().time()
            values = ssconf.values(state)
            self._write_seconds = asyncio.get_running_loop().time() - start
            before, self._sent = self._sent, values
            self._distributed.set()
            failed = await ssconf_files.spread(prompt, receivers, values, before=before)
            for error in failed.values():
                log.warning("could not write ssconf files, will retry: %s", error)
            self._lagging |= {target.uuid for target in failed}

    async def _retry(self) -> None:
        """Send the values to lagging nodes, regularly and after a change; no node waits for another one."""
        while True:
            await _wait(self._distributed, RETRY_SECONDS)
            self._distributed.clear()
            receivers = [target for target in _online(self._acknowledged()) if target.uuid in self._lagging]
            self._lagging &= {target.uuid for target in receivers}
            for target in receivers:
                if target not in self._catching_up:
                    task = self._catching_up[target] = asyncio.create_task(self._catch_up(target))
                    task.add_done_callback(functools.partial(self._caught_up, target))

    def _caught_up(self, target: targets.Target, _: asyncio.Task[None]) -> None:
        del self._catching_up[target]

    async def _catch_up(self, target: targets.Target) -> None:
        """Send a lagging node the values until it has the current ones or fails."""
        sent: dict[str, str] = {}
        while sent != self._sent:
            sent = self._sent
            if await ssconf_files.spread(self._nodes, [target], sent):
                return
        self._lagging.discard(target.uuid)


class _Prompt(liveness.Relay):
    """Calls nodes, but waits for none of them longer than ``PROMPT_SECONDS``."""

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        """Call one node; RemoteError if it does not answer in time."""
        try:
            async with asyncio.timeout(PROMPT_SECONDS):
                return await self._nodes.call(target, call)
        except TimeoutError:
            raise errors.RemoteError(
                f"node {target.name} did not answer {call.procedure()} within {PROMPT_SECONDS:g} s"
            ) from None


def _online(state: snapshot.Snapshot) -> list[targets.Target]:
    """Return the nodes that can be called; one that joins may not have its certificate yet, and gets its files then."""
    return [state.target(node) for node in _by_name(state) if node.takes_part]


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, at most the given seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _by_name(state: snapshot.Snapshot) -> list[cluster.Node]:
    """Return the nodes sorted by name; the order of the snapshot's maps differs between runs."""
    return sorted(state.nodes.values(), key=lambda node: node.name)

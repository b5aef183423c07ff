"""Copies of the state on the master candidates: every frame goes to each of them, and a commit waits for a majority.

``transaction`` publishes a frame that is on its own disk, then waits until a majority of candidates and master has the
frame, at most ``timeout`` seconds. One task per candidate (``candidate``) follows the chain of frames. So a slow
candidate costs a bounded amount of memory and time: after one timeout, commits no longer wait for it until it has
caught up. The log has a warning when a candidate falls behind, and an error when more than half of them have
(contracts/cluster-design.md#life-of-a-job).
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from gantry import errors
from gantry.rpc import targets
from gantry.runtime import interface
from gantry.state import candidate, copies
from gantry.state.journal import Position

logger = logging.getLogger(__name__)

FAREWELL = 1.0
"""Seconds that a stopping daemon waits for candidates to receive frames that are under way."""

TIMEOUT = 5.0
"""Seconds that a commit waits for the candidates."""


class Candidates:
    """All candidates of one master; see the module's docstring."""

    def __init__(self, runtime: interface.Runtime, caller: candidate.Caller, *, timeout: float = TIMEOUT) -> None:
        self.runtime = runtime
        self.clock = runtime.clock
        self.caller = caller
        self.chain = candidate.Chain()
        self.refusal: errors.WrongStateError | None = None
        # Whether there is a newer master, and not only a promise to a node that may never become master.
        self.replaced = False
        self.refused = asyncio.Event()
        self.copy: Callable[[], Awaitable[copies.Copy]]
        self.journal = ""
        self.checkpoint: copies.Copy | None = None
        self.transfers = candidate.Transfers()
        # The epoch that nodes promised to this master: they refuse even old frames with a lower epoch.
        self.promised = 0
        self._timeout = timeout
        self._candidates: dict[str, candidate.Candidate] = {}
        self._progress = candidate.Signal()

    def start(self, position: Position, copy: Callable[[], Awaitable[copies.Copy]], *, journal: str) -> None:
        """Begin at the end of the journal in the folder ``journal``; ``copy`` returns the whole durable state.

        ``transaction`` calls this.
        """
        self.chain.head = position
        self.copy = copy
        self.journal = journal

    def refresh(self, checkpoint: copies.Copy) -> None:
        """Bring a checkpoint that ends a segment of the journal to the candidates, to one after another."""
        self.checkpoint = checkpoint
        self.chain.news.notify()

    def set_targets(self, candidates: Sequence[targets.Target]) -> None:
        """Set the candidates, without the master itself; only for an opened store."""
        targets_by_uuid = {target.uuid: target for target in candidates}
        for uuid, member in list(self._candidates.items()):
            if targets_by_uuid.get(uuid) != member.target:
                member.task.cancel()
                del self._candidates[uuid]
        for uuid, target in targets_by_uuid.items():
            if uuid not in self._candidates:
                self._candidates[uuid] = candidate.Candidate(self, target)
        self._progress.notify()

    def lagging(self) -> list[str]:
        """Return the names of the candidates that the log reported as lagging, in order."""
        return sorted(member.target.name for member in self._candidates.values() if member.lost)

    def publish(self, line: bytes, position: Position, *, begins_segment: bool = False) -> None:
        """Send a frame to all, in the background; ``position`` is its end. It may begin a segment of the journal."""
        behind = any(not self._has_newest(member) for member in self._candidates.values())
        sent = candidate.Sent(line, self.chain.head.digest, position, begins_segment)
        self.chain.add(sent, backlog=candidate.BACKLOG if behind else 0)

    async def acknowledged(self) -> None:
        """Return when a majority of candidates and master holds the newest frame, or no candidate keeps up.

        Raises WrongStateError if a candidate follows a newer master: then no change of this master is valid any more.
        """
        try:
            if not self._settled():
                async with asyncio.timeout(self._timeout):
                    while not self._settled():
                        await self._progress.wait()
        except TimeoutError:
            for member in self._candidates.values():
                if not self._has_newest(member):
                    self.lose(member, f"no answer within {self._timeout:g} s")
        if self.refusal is not None:
            raise self.refusal

    async def settle(self) -> None:
        """Return when all candidates that keep up hold the newest frame: the next master may be any of them."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                while self.refusal is None and any(
                    not self._has_newest(member) and not member.lost for member in self._candidates.values()
                ):
                    await self._progress.wait()

    def _settled(self) -> bool:
        behind = [member for member in self._candidates.values() if not self._has_newest(member)]
        holders = len(self._candidates) + 1 - len(behind)
        majority = 2 * holders > len(self._candidates) + 1
        return self.refusal is not None or majority or all(member.lost for member in behind)

    def _has_newest(self, member: candidate.Candidate) -> bool:
        return member.digest == self.chain.head.digest

    def lose(self, member: candidate.Candidate, reason: str) -> None:
        """Note that a candidate does not keep up; commits ignore it until it has the newest frame again."""
        if member.lost:
            return
        member.lost = True
        logger.warning("master candidate %s does not hold the newest changes: %s", member.target.name, reason)
        lost = self.lagging()
        if 2 * len(lost) > len(self._candidates):
            logger.error(
                "more than half of the master candidates do not hold the newest changes (%s): "
                "if this node is lost now, these changes are lost",
                ", ".join(lost),
            )
        self._progress.notify()

    def moved(self, member: candidate.Candidate) -> None:
        """Note that the end of a candidate's copy has changed."""
        if member.lost and self._has_newest(member):
            member.lost = False
            logger.info("master candidate %s holds the newest changes again", member.target.name)
        self._progress.notify()

    def refuse(self, error: errors.FencedError) -> None:
        """Note that a node has seen a higher epoch (there is a newer master) or promised it (there may be soon)."""
        promised = isinstance(error, errors.PromisedError)
        self.replaced = self.replaced or not promised
        if self.refusal is not None:
            return
        self.refusal = errors.WrongStateError(
            f"this node {'has to be confirmed again' if promised else 'is not the master any more'}: {error.message}",
            hint="nothing can be changed here; gnt-cluster getmaster says which node is the master",
        )
        self.refused.set()
        logger.error("%s", self.refusal)
        self._progress.notify()

    async def close(self) -> None:
        """End the tasks."""
        tasks = [member.task for member in self._candidates.values()]
        self._candidates.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

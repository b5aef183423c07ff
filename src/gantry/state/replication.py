"""Copies of the state on the master candidates: every frame goes to each of them, and a commit waits for a majority.

``transaction`` publishes a frame that is on its own disk, then waits until a majority of candidates and master has the
frame, at most ``timeout`` seconds. One task per candidate follows the chain of frames by its hashes: a candidate whose
replica ends at hash H gets the frame that follows H; if that frame is no longer in memory, or H is not in our history,
the candidate gets the whole state (CheckpointStore) and continues from there. So a slow candidate costs a bounded
amount of memory and time: after one timeout, commits no longer wait for it until it has caught up. The log has a
warning when a candidate falls behind, and an error when more than half of them have
(contracts/cluster-design.md#life-of-a-job).

The duties of a candidate. Its folder is laid out like the master's (``config.data``, ``journal/``, ``queue/``), so
that ``transaction.Store.open`` can open it as it is:

- Its copy ends with the last frame of the newest segment that begins after the serial of ``config.data``; where there
  is none, with that serial, the one of ``journal`` in ``config.data``. Serial, digest (SHA-256 of the frame's line) and
  epoch are read from there at the start; bytes after the last valid line are cut off. No copy at all is serial 0,
  digest "" and epoch 0.
- JournalAppend: an ``epoch`` below the copy's is refused with FencedError. Where ``previous`` is not the copy's
  digest, nothing is written. Else checksum and length of the line are checked, the line is appended verbatim to the
  newest segment and synced before the answer; the copy's serial and epoch are then those of the frame's last record.
  After a CheckpointStore with serial S the first frame begins the segment S + 1.
- CheckpointStore: a lower epoch is refused likewise. Part 0 removes the old copy, ``config.data`` first; the last
  part writes ``config.data``, after a sync: a copy without it is not valid, so old and new never mix. A part that does
  not follow the previous part is refused, and the whole transfer begins again.
- The answer is always the end of the copy after the call.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from gantry import errors
from gantry.rpc import calls, targets
from gantry.runtime import interface
from gantry.state import copies, journal

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

FAREWELL = 1.0
"""Seconds that a stopping daemon waits for candidates to receive frames that are under way."""

TIMEOUT = 5.0
"""Seconds that a commit waits for the candidates."""

BACKLOG = 16 << 20
"""Bytes of frames that are kept for slow candidates."""

REFRESH = 64 << 20
"""Bytes of frames after which a candidate gets the whole state, so that its journal stays short."""

FRAME = 16 << 20
"""Bytes of the longest frame that is sent in one call; for longer frames a candidate gets the whole state, in parts."""

FIRST_BACK_OFF_SECONDS, LONGEST_BACK_OFF_SECONDS = 1.0, 30.0


class Caller(Protocol):
    """What calls nodes (``rpc.client.Client``)."""

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        """Call one node; raises its error, or RemoteError when it does not answer."""
        ...


class NoCaller:
    """The caller of a cluster without candidates."""

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        """Fail: there is no network."""
        raise errors.RemoteError(f"node {target.name} cannot be called from here")


@dataclass(frozen=True, slots=True)
class _Sent:
    """A frame under way; ``position`` is the end of a copy that has the frame."""

    line: bytes
    previous: str
    position: journal.Position


class _Signal:
    """Wakes all tasks that wait at the moment."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()


class _Chain:
    """The newest frames, each by the hash of its predecessor; ``head`` is the end of the newest."""

    def __init__(self) -> None:
        self.head = journal.Position()
        self.news = _Signal()
        self._after: dict[str, _Sent] = {}
        self._size = 0

    def add(self, sent: _Sent, *, backlog: int) -> None:
        self._after[sent.previous] = sent
        self._size += len(sent.line)
        self.head = sent.position
        while self._size > backlog and len(self._after) > 1:
            self._size -= len(self._after.pop(next(iter(self._after))).line)
        self.news.notify()

    def after(self, digest: str) -> _Sent | None:
        return self._after.get(digest)


class _Candidate:
    """One candidate, and the task that keeps its copy up with the chain."""

    def __init__(self, owner: "Candidates", target: targets.Target) -> None:
        self._owner = owner
        self.target = target
        # The hash at the end of its copy; None if unknown.
        self.digest: str | None = None
        self.lost = False
        self._appended = 0
        self._back_off_seconds = FIRST_BACK_OFF_SECONDS
        self.task = asyncio.create_task(self._run(), name=f"candidate {target.name}")

    async def _run(self) -> None:
        while self._owner.refusal is None:
            try:
                await self._advance()
            except errors.GantryError as error:
                self.digest = None
                self._owner.lose(self, str(error))
                await self._owner.clock.sleep(self._back_off_seconds)
                self._back_off_seconds = min(2 * self._back_off_seconds, LONGEST_BACK_OFF_SECONDS)

    async def _advance(self) -> None:
        chain = self._owner.chain
        if self.digest is None:
            await self._adopt(calls.CandidateStatus())
        elif self.digest == chain.head.digest and self._appended < REFRESH:
            await chain.news.wait()
        elif (sent := chain.after(self.digest)) is not None and len(sent.line) <= FRAME:
            await self._append(sent)
        elif sent is not None and not self.lost:
            # The whole state includes the frame once that is durable, which must not wait for this candidate.
            raise errors.RemoteError(f"record {sent.position.serial} is too long for a message")
        else:
            await self._send_all()

    async def _append(self, sent: _Sent) -> None:
        line = sent.line.decode()
        epoch = max(sent.position.epoch, self._owner.promised)
        await self._adopt(calls.JournalAppend(epoch=epoch, previous=sent.previous, frame=line))
        if self.digest != sent.position.digest:
            raise errors.RemoteError(f"node {self.target.name} did not take record {sent.position.serial}")
        self._appended += len(sent.line)
        self._back_off_seconds = FIRST_BACK_OFF_SECONDS

    async def _send_all(self) -> None:
        copy = await self._owner.copy()
        logger.info("master candidate %s gets the whole state, serial %d", self.target.name, copy.position.serial)
        for part in copy.parts():
            await self._adopt(msgspec.structs.replace(part, epoch=max(part.epoch, self._owner.promised)))
        if self.digest != copy.position.digest:
            raise errors.RemoteError(f"node {self.target.name} did not take the state of {copy.position.serial}")
        self._appended = 0
        self._back_off_seconds = FIRST_BACK_OFF_SECONDS

    async def _adopt(self, call: calls.Call[calls.CandidateState]) -> None:
        try:
            state = await self._owner.caller.call(self.target, call)
        except errors.FencedError as error:
            self._owner.refuse(error)
            raise
        self.digest = state.digest
        self._owner.moved(self)


class Candidates:
    """All candidates of one master; see the module's docstring."""

    def __init__(self, runtime: interface.Runtime, caller: Caller, *, timeout: float = TIMEOUT) -> None:
        self.clock = runtime.clock
        self.caller = caller
        self.chain = _Chain()
        self.refusal: errors.WrongStateError | None = None
        # Whether there is a newer master, and not only a promise to a node that may never become master.
        self.replaced = False
        self.refused = asyncio.Event()
        self.copy: Callable[[], Awaitable[copies.Copy]]
        # The epoch that nodes promised to this master: they refuse even old frames with a lower epoch.
        self.promised = 0
        self._timeout = timeout
        self._candidates: dict[str, _Candidate] = {}
        self._progress = _Signal()

    def start(self, position: journal.Position, copy: Callable[[], Awaitable[copies.Copy]]) -> None:
        """Begin at the end of the journal; ``copy`` returns the whole durable state (``transaction`` calls this)."""
        self.chain.head = position
        self.copy = copy

    def set_targets(self, candidates: Sequence[targets.Target]) -> None:
        """Set the candidates, without the master itself; only for an opened store."""
        targets_by_uuid = {target.uuid: target for target in candidates}
        for uuid, candidate in list(self._candidates.items()):
            if targets_by_uuid.get(uuid) != candidate.target:
                candidate.task.cancel()
                del self._candidates[uuid]
        for uuid, target in targets_by_uuid.items():
            if uuid not in self._candidates:
                self._candidates[uuid] = _Candidate(self, target)
        self._progress.notify()

    def lagging(self) -> list[str]:
        """Return the names of the candidates that the log reported as lagging, in order."""
        return sorted(candidate.target.name for candidate in self._candidates.values() if candidate.lost)

    def publish(self, line: bytes, position: journal.Position) -> None:
        """Send a frame to all, in the background; ``position`` is its end."""
        behind = any(not self._has_newest(candidate) for candidate in self._candidates.values())
        sent = _Sent(line, self.chain.head.digest, position)
        self.chain.add(sent, backlog=BACKLOG if behind else 0)

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
            for candidate in self._candidates.values():
                if not self._has_newest(candidate):
                    self.lose(candidate, f"no answer within {self._timeout:g} s")
        if self.refusal is not None:
            raise self.refusal

    async def settle(self) -> None:
        """Return when all candidates that keep up hold the newest frame: the next master may be any of them."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                while self.refusal is None and any(
                    not self._has_newest(candidate) and not candidate.lost for candidate in self._candidates.values()
                ):
                    await self._progress.wait()

    def _settled(self) -> bool:
        behind = [candidate for candidate in self._candidates.values() if not self._has_newest(candidate)]
        holders = len(self._candidates) + 1 - len(behind)
        majority = 2 * holders > len(self._candidates) + 1
        return self.refusal is not None or majority or all(candidate.lost for candidate in behind)

    def _has_newest(self, candidate: _Candidate) -> bool:
        return candidate.digest == self.chain.head.digest

    def lose(self, candidate: _Candidate, reason: str) -> None:
        """Note that a candidate does not keep up; commits ignore it until it has the newest frame again."""
        if candidate.lost:
            return
        candidate.lost = True
        logger.warning("master candidate %s does not hold the newest changes: %s", candidate.target.name, reason)
        lost = self.lagging()
        if 2 * len(lost) > len(self._candidates):
            logger.error(
                "more than half of the master candidates do not hold the newest changes (%s): "
                "if this node is lost now, these changes are lost",
                ", ".join(lost),
            )
        self._progress.notify()

    def moved(self, candidate: _Candidate) -> None:
        """Note that the end of a candidate's copy has changed."""
        if candidate.lost and self._has_newest(candidate):
            candidate.lost = False
            logger.info("master candidate %s holds the newest changes again", candidate.target.name)
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
        tasks = [candidate.task for candidate in self._candidates.values()]
        self._candidates.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

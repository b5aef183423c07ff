"""A master candidate, as the master sees it: a task follows the chain of frames by its hashes and sends what it lacks.

``replication`` has a ``Candidate`` for each master candidate. A candidate whose replica ends at hash H gets the frame
that follows H; if that frame is no longer in memory, or H is not in our history, the candidate gets the whole state
(CheckpointStore) and continues from there.

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
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from gantry import errors
from gantry.rpc import calls, targets
from gantry.runtime import interface
from gantry.state import copies, journal

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

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
class Sent:
    """A frame under way; ``position`` is the end of a copy that has the frame."""

    line: bytes
    previous: str
    position: journal.Position


class Signal:
    """Wakes all tasks that wait at the moment."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wake all waiting tasks."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Return at the next ``notify``."""
        await self._event.wait()


class Chain:
    """The newest frames, each by the hash of its predecessor; ``head`` is the end of the newest."""

    def __init__(self) -> None:
        self.head = journal.Position()
        self.news = Signal()
        self._after: dict[str, Sent] = {}
        self._size = 0

    def add(self, sent: Sent, *, backlog: int) -> None:
        """Add the newest frame; older frames are dropped while all frames together have more than ``backlog`` bytes."""
        self._after[sent.previous] = sent
        self._size += len(sent.line)
        self.head = sent.position
        while self._size > backlog and len(self._after) > 1:
            self._size -= len(self._after.pop(next(iter(self._after))).line)
        self.news.notify()

    def after(self, digest: str) -> Sent | None:
        """Return the frame that follows a chain hash; None if it is not in memory."""
        return self._after.get(digest)


class Owner(Protocol):
    """The set of all candidates (``replication.Candidates``)."""

    clock: interface.Clock
    caller: Caller
    chain: Chain
    copy: Callable[[], Awaitable[copies.Copy]]
    promised: int
    refusal: errors.WrongStateError | None

    def lose(self, candidate: "Candidate", reason: str) -> None:
        """Note that a candidate does not keep up."""
        ...

    def moved(self, candidate: "Candidate") -> None:
        """Note that the end of a candidate's copy has changed."""
        ...

    def refuse(self, error: errors.FencedError) -> None:
        """Note that a node has seen or promised a higher epoch."""
        ...


class Candidate:
    """One candidate, and the task that keeps its copy up with the chain."""

    def __init__(self, owner: Owner, target: targets.Target) -> None:
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

    async def _append(self, sent: Sent) -> None:
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

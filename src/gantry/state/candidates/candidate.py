"""A master candidate, as the master sees it: a task follows the chain of frames by its hashes and sends what it lacks.

``replication`` has a ``Candidate`` for each master candidate. A candidate whose replica ends at hash H gets the frames
that follow H, from memory or from the journal on disk (``journal.backlog``). If H is not in our journal, the candidate
has frames of a former master: it gets the frames that follow the last common one (``journal.divergence``), and cuts its
own off for them. If that is not possible, or H is too far back, the candidate gets the whole state (CheckpointStore)
and continues from there.

A candidate that keeps up gets each checkpoint that the master writes, so that its journal since the checkpoint stays
short. That takes nothing away: the candidate appends and acknowledges frames meanwhile, by calls beside those of the
checkpoint, and keeps its older sections as history. One candidate is refreshed after another.

The duties of a candidate. Its folder is laid out like the master's (``config.data``, ``journal/``, ``queue/``), so
that ``store.transaction.Store.open`` can open it as it is:

- Its copy ends with the last frame of the sections that begin after the serial of ``config.data``; where there is none,
  with that serial, the one of ``journal`` in ``config.data``. Serial, digest (SHA-256 of the frame's line) and
  epoch are read from there at the start; bytes after the last valid line are cut off. No copy at all is serial 0,
  digest "" and epoch 0.
- JournalAppend: an ``epoch`` below the copy's is refused with FencedError. Where ``previous`` is not the copy's
  digest, nothing is written. Else checksum and length of each line are checked, the lines are appended verbatim to the
  newest section, or begin one if the call says so, and are synced before the answer; the copy's serial and epoch are
  then those of the last record. After a checkpoint with serial S the first frame begins the section S + 1. Where
  ``replaces`` is the copy's digest, the frames after ``previous`` are cut off first, unless they have the epoch of the
  call, or the checkpoint includes them; what the copy reached is recorded before that, for votes.
- CheckpointStore: a lower epoch is refused likewise. The parts are kept beside the copy, which stays as it is until the
  last part; what happens then leaves one valid copy at each moment, or none, but never a mixture. A checkpoint that
  does not replace the copy must be where a section of it ends. A part that does not follow the previous part is
  refused, and the whole transfer begins again.
- The answer is always the end of the copy after the call.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from gantry import errors
from gantry.rpc import calls, targets
from gantry.runtime import interface
from gantry.state.candidates import copies
from gantry.state.journal import backlog, divergence, journal

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

BACKLOG = 16 << 20
"""Bytes of frames that are kept for slow candidates."""

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
    """A frame under way; ``position`` is the end of a copy that has it, ``begins`` says that it begins a section."""

    line: bytes
    previous: str
    position: journal.Position
    begins: bool = False


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


class Transfers:
    """The transfers of whole states: replacements at once, refreshes one after another and after the replacements."""

    def __init__(self) -> None:
        self._replacing = 0
        self._refreshing = False
        self._ended = Signal()

    @contextlib.contextmanager
    def replacement(self) -> Iterator[None]:
        """Keep refreshes waiting: a candidate whose copy is replaced acknowledges nothing until then."""
        self._replacing += 1
        try:
            yield
        finally:
            self._replacing -= 1
            self._ended.notify()

    @contextlib.asynccontextmanager
    async def refresh(self) -> AsyncIterator[None]:
        """Wait until no other transfer runs."""
        while self._replacing or self._refreshing:
            await self._ended.wait()
        self._refreshing = True
        try:
            yield
        finally:
            self._refreshing = False
            self._ended.notify()


class Owner(Protocol):
    """The set of all candidates (``replication.Candidates``)."""

    runtime: interface.Runtime
    clock: interface.Clock
    caller: Caller
    chain: Chain
    copy: Callable[[], Awaitable[copies.Copy]]
    journal: str
    checkpoint: copies.Copy | None
    transfers: Transfers
    granted_epoch: int
    refusal: errors.WrongStateError | None

    def lose(self, candidate: "Candidate", reason: str) -> None:
        """Note that a candidate does not keep up."""
        ...

    def moved(self, candidate: "Candidate") -> None:
        """Note that the end of a candidate's copy has changed."""
        ...

    def refuse(self, error: errors.FencedError) -> None:
        """Note that a node has seen or granted a higher epoch."""
        ...

    def refuse_stranger(self, uuid: str, error: errors.UnknownCallerError) -> None:
        """Note that a candidate does not know this master."""
        ...


class Candidate:
    """One candidate, and the task that keeps its copy up with the chain."""

    def __init__(self, owner: Owner, target: targets.Target) -> None:
        self._owner = owner
        self.target = target
        # The hash at the end of its copy, None if unknown, and the serial and the epoch there.
        self.digest: str | None = None
        self.serial = self.epoch = 0
        # Whether its copy ended with a frame of the journal here when it answered last.
        self.follows = False
        self.lost = False
        self._refreshed = 0
        self._refresh: asyncio.Task[None] | None = None
        self._answers = asyncio.Event()
        self._back_off_seconds = FIRST_BACK_OFF_SECONDS
        self.task = asyncio.create_task(self._run(), name=f"candidate {target.name}")

    async def _run(self) -> None:
        try:
            while self._owner.refusal is None:
                try:
                    await self._advance()
                except (errors.GantryError, OSError) as error:
                    # An OSError is of the journal here, such as a section that is pruned while it is read.
                    self.digest = None
                    self._owner.lose(self, str(error))
                    await self._wait()
        finally:
            await self._end_refresh()

    async def _wait(self) -> None:
        """Wait for the back-off, or until the candidate answers another call."""
        self._answers.clear()
        try:
            async with asyncio.timeout(self._back_off_seconds):
                await self._answers.wait()
        except TimeoutError:
            self._back_off_seconds = min(2 * self._back_off_seconds, LONGEST_BACK_OFF_SECONDS)

    def retry(self) -> None:
        """Note that the candidate answers: what it lacks is sent at once."""
        self._answers.set()

    async def _advance(self) -> None:
        chain = self._owner.chain
        if self.digest is None:
            await self._adopt(calls.CandidateStatus())
            self.follows = False
            return
        sent = chain.after(self.digest)
        if sent is not None or self.digest == chain.head.digest:
            self.follows = True
            self._begin_refresh()
        if self.digest == chain.head.digest:
            await chain.news.wait()
        elif sent is not None and len(sent.line) <= FRAME:
            await self._append(self._gathered(sent))
        elif sent is not None and not self.lost:
            # The whole state includes the frame once that is durable, which must not wait for this candidate.
            raise errors.RemoteError(f"record {sent.position.serial} is too long for a message")
        elif sent is not None or not (await self._catch_up() or await self._rejoin()):
            await self._replace()

    def _gathered(self, sent: Sent) -> backlog.Lines:
        """Return a frame with those in memory that follow it in its section, up to a bounded size."""
        lines, last = [sent.line], sent
        size = len(sent.line)
        while (after := self._owner.chain.after(last.position.digest)) is not None:
            size += len(after.line)
            if after.begins or size > backlog.BATCH:
                break
            lines.append(after.line)
            last = after
        return backlog.Lines(b"".join(lines), sent.previous, last.position, sent.begins)

    async def _append(self, lines: backlog.Lines, *, replaces: str = "") -> bool:
        """Send frames; return False if the candidate does not cut off the frames up to the hash ``replaces`` for them.

        Raises RemoteError if it does not append them for another reason.
        """
        await self._adopt(
            calls.JournalAppend(
                epoch=max(lines.end.epoch, self._owner.granted_epoch),
                previous=lines.previous,
                frame=lines.lines.decode(),
                begins_section=lines.begins,
                replaces=replaces,
            )
        )
        if replaces and self.digest == replaces:
            return False
        if self.digest != lines.end.digest:
            raise errors.RemoteError(f"node {self.target.name} did not take record {lines.end.serial}")
        self.follows = True
        self._back_off_seconds = FIRST_BACK_OFF_SECONDS
        return True

    async def _catch_up(self, *, after: journal.Position | None = None) -> bool:
        """Send frames from the journal on disk; return False if nothing there follows the candidate's copy.

        With ``after``, an earlier frame of the copy, the candidate first cuts off what it has after that frame; return
        False if it does not.
        """
        owner, replaces = self._owner, (self.digest or "") if after else ""
        start = after or journal.Position(self.serial, self.digest or "")
        batches = backlog.read(
            owner.runtime.disk,
            owner.journal,
            serial=start.serial,
            digest=start.digest,
            until=lambda: owner.chain.head,
        )
        count = 0
        while (lines := await owner.runtime.block(lambda: next(batches, None))) is not None:
            if len(lines.lines) > FRAME:
                return False
            if not count:
                logger.info("master candidate %s gets the records after %d", self.target.name, start.serial)
            if not await self._append(lines, replaces=replaces):
                return False
            replaces = ""
            count += 1
        return count > 0

    async def _rejoin(self) -> bool:
        """Let the candidate replace frames that the journal here lacks; return False if it gets the whole state."""
        owner = self._owner
        common = await divergence.last_common(
            owner.runtime, owner.journal, serial=self.serial, digest=self.digest or "", fetch=self._fetch
        )
        if common is None:
            return False
        if common.digest == owner.chain.head.digest:
            # Nothing follows yet: this master is about to write its first record.
            await owner.chain.news.wait()
            return True
        logger.info(
            "master candidate %s has records after %d that are not in the journal here", self.target.name, common.serial
        )
        return await self._catch_up(after=common)

    async def _fetch(self, call: calls.JournalFetch) -> tuple[str, ...]:
        try:
            return await self._call(call)
        except (errors.StorageError, errors.InternalError) as error:
            # The whole state takes the place of a journal that cannot be read.
            logger.warning("the journal of master candidate %s: %s", self.target.name, error)
            return ()

    async def _replace(self) -> None:
        """Send the whole state, which takes the place of the candidate's copy."""
        await self._end_refresh()
        with self._owner.transfers.replacement():
            copy = await self._owner.copy()
            logger.info("master candidate %s gets the whole state, serial %d", self.target.name, copy.position.serial)
            parts = copy.parts(replace=True)
            while (part := await self._owner.runtime.block(lambda: next(parts, None))) is not None:
                await self._adopt(self._with_epoch(part))
        if self.digest != copy.position.digest:
            raise errors.RemoteError(f"node {self.target.name} did not take the state of {copy.position.serial}")
        self._refreshed = max(self._refreshed, copy.position.serial)
        self._back_off_seconds = FIRST_BACK_OFF_SECONDS

    def _begin_refresh(self) -> None:
        """Begin to send the newest checkpoint, if this candidate has not been sent it."""
        checkpoint = self._owner.checkpoint
        if checkpoint is None or checkpoint.position.serial <= self._refreshed or self._refresh is not None:
            return
        self._refreshed = checkpoint.position.serial
        self._refresh = asyncio.create_task(self._send_checkpoint(checkpoint), name=f"refresh {self.target.name}")

    async def _send_checkpoint(self, checkpoint: copies.Copy) -> None:
        """Send a checkpoint beside the frames; a failure leaves the candidate as it is, until the next checkpoint."""
        try:
            async with self._owner.transfers.refresh():
                parts = checkpoint.parts(replace=False)
                while (part := await self._owner.runtime.block(lambda: next(parts, None))) is not None:
                    await self._call(self._with_epoch(part))
        except errors.GantryError as error:
            logger.warning("master candidate %s keeps its old checkpoint: %s", self.target.name, error)
        finally:
            self._refresh = None

    async def _end_refresh(self) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
            await asyncio.gather(self._refresh, return_exceptions=True)

    def _with_epoch(self, part: calls.CheckpointStore) -> calls.CheckpointStore:
        return msgspec.structs.replace(
            part, epoch=max(part.epoch, self._owner.chain.head.epoch, self._owner.granted_epoch)
        )

    async def _adopt(self, call: calls.Call[calls.CandidateState]) -> None:
        state = await self._call(call)
        self.digest, self.serial, self.epoch = state.digest, state.serial, state.epoch
        self._owner.moved(self)

    async def _call(self, call: calls.Call[Result]) -> Result:
        try:
            return await self._owner.caller.call(self.target, call)
        except errors.FencedError as error:
            self._owner.refuse(error)
            raise
        except errors.UnknownCallerError as error:
            self._owner.refuse_stranger(self.target.uuid, error)
            raise

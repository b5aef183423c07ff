"""History: what the kept journal says about the past, read while the daemon continues to write it.

``records`` walks the kept sections (``journal``), oldest or newest record first, with one section in memory at a time
(64 MiB or 20,000 records, ``store.transaction.Limits``). ``History``, which the front ends call, chooses the records
that a question needs: ``owners`` folds them into who had which address, ``origin`` finds since when something is true.

Cost: linear in the bytes of the journal for every question; there is no index, and nothing is kept between questions.
Only ``origins``, about what exists now, usually reads a single section. A question about one address, CIDR, MAC address
or owner decodes only the records that contain its text or the UUID of an owner that once had it: a search in memory
finds them, a tenth of the work of decoding all. It reads the journal to its end also for a moment long ago, because the
answer has the end of what was true then, and clocks of masters may differ, so that times of sections prove nothing.
The walk runs in a thread, only one at a time, because the journal's own syncs need the same threads. It delays the
event loop for at most the time to decode a frame, or 5 ms, the interval in which Python switches threads.

Only durable records are read. Sections are removed between two walks, never during one.
"""

import asyncio
import bisect
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence

import msgspec

from gantry import errors
from gantry.address import ranges
from gantry.lib_files import frame, journal_names
from gantry.model import network
from gantry.runtime import interface, paths, retention
from gantry.state.journal import journal, origin, owners, record
from gantry.state.objects import snapshot as states

CHECKED = 256 << 20
"""Bytes of the journal that a check reads, which takes a few seconds."""

Contains = Callable[[bytes], bool]
"""Returns whether the text of a record, or of several, contains what a question is about."""

OWNERS = 100
"""The maximum number of owners whose records are searched for by their UUIDs; for more, all records are decoded."""

ALLOCATIONS = frozenset({"instances", "ports", "networks"})
"""The kinds of objects that determine the owners of addresses; jobs, most of a journal, are skipped."""

_OWNED = frozenset({"instances", "ports"})
_OF_NETWORKS = b'"networks",'
"""A text in each record that puts or deletes a network."""


class Start(msgspec.Struct, frozen=True):
    """The first kept record: its serial and its time, in seconds since the epoch; 0 and None if there is none."""

    serial: int = 0
    time: float | None = None


class Check(msgspec.Struct, frozen=True):
    """The result of a check of the journal, which began at record ``first``; ``oldest`` is the first kept record."""

    first: int = 0
    oldest: int = 0
    problem: str = ""


def records(
    disk: interface.Disk,
    folder: str,
    *,
    after: int = 0,
    kinds: Container[str] | None = None,
    newest_first: bool = False,
    contains: Contains | None = None,
) -> Iterator[record.Record]:
    """Yield the kept records with a serial above ``after``, with their changes of some kinds or of all.

    With ``contains`` these are the first record of the journal, and those whose text contains what it searches for.
    Checksums and the chain of what is read are checked; ConfigurationError names file and offset of damage. The
    journal ends before a frame that is just being written.
    """
    firsts = journal.sections(disk, folder)
    chosen = firsts[max(bisect.bisect_right(firsts, after + 1) - 1, 0) :]
    neighbour: frame.Frame | None = None
    for first in reversed(chosen) if newest_first else chosen:
        path = journal_names.path(folder, first)
        frames = _frames(disk, path, is_last=first == firsts[-1])
        for journal_frame in reversed(list(frames)) if newest_first else frames:
            if neighbour is not None:
                _check_chain(path, *((journal_frame, neighbour) if newest_first else (neighbour, journal_frame)))
            neighbour = journal_frame
            raws: Sequence[msgspec.Raw] = journal_frame.records
            if contains is not None and journal_frame.offset:
                raws = [raw for raw in raws if contains(bytes(raw))] if contains(journal_frame.line) else ()
            frame_records = [_decode(path, journal_frame, raw, kinds) for raw in raws]
            if not journal_frame.offset and (not frame_records or frame_records[0].serial != first):
                raise journal.damaged(path, f"it does not begin with record {first}", offset=0)
            yield from (
                journal_record
                for journal_record in (reversed(frame_records) if newest_first else frame_records)
                if journal_record.serial > after
            )


def check(disk: interface.Disk, folder: str, *, most: int) -> Check:
    """Check the newest sections (``History.check``)."""
    firsts = journal.sections(disk, folder)
    size, start = 0, 0
    for first in reversed(firsts):
        size += disk.status(journal_names.path(folder, first)).size
        start = first
        if size >= most:
            break
    try:
        deque(records(disk, folder, after=start - 1, kinds=()), maxlen=0)
    except errors.ConfigurationError as error:
        return Check(start, firsts[0], str(error))
    return Check(start, firsts[0] if firsts else 0)


def start(disk: interface.Disk, folder: str) -> Start:
    """Return the first kept record."""
    for first_record in records(disk, folder, kinds=()):
        return Start(first_record.serial, first_record.time)
    return Start()


def _frames(disk: interface.Disk, path: str, *, is_last: bool) -> Iterator[frame.Frame]:
    try:
        yield from frame.scan(disk.read(path))
    except frame.DamageError as error:
        if not (is_last and isinstance(error, frame.TornError)):
            raise journal.damaged(path, error.what, offset=error.offset) from None


def _check_chain(path: str, older: frame.Frame, newer: frame.Frame) -> None:
    if newer.previous != older.digest:
        what = "two frames that follow each other do not fit together (chain hash)"
        raise journal.damaged(path, what, offset=newer.offset)


def _decode(path: str, journal_frame: frame.Frame, raw: msgspec.Raw, kinds: Container[str] | None) -> record.Record:
    try:
        return record.decode(raw, kinds=kinds)
    except errors.ConfigurationError as error:
        raise journal.damaged(path, error.message, offset=journal_frame.offset) from None


def about(disk: interface.Disk, folder: str, needles: Sequence[bytes]) -> Contains | None:
    """Return what the records contain that say which owners had a property, and of networks; None if all may.

    An owner with the property has one of the ``needles`` in the record that gives it. The UUIDs of these owners are in
    all of their records, also in those that take the property from them.
    """
    if not needles:
        return None
    has_needle = _any_of(needles)
    uuids: set[str] = set()
    for journal_record in records(disk, folder, kinds=_OWNED, contains=has_needle):
        for change in journal_record.changes:
            if isinstance(change, states.Put) and has_needle(_ENCODER.encode(change.value)):
                uuids.add(change.key)
        if len(uuids) > OWNERS:
            return None
    return _any_of([_OF_NETWORKS, *map(_ENCODER.encode, uuids)])


def _any_of(needles: Sequence[bytes]) -> Contains:
    return lambda text: any(needle in text for needle in needles)


_ENCODER = msgspec.json.Encoder()
_PAST = msgspec.json.Decoder(owners.Past)
_CHECK = msgspec.json.Decoder(Check)
_START = msgspec.json.Decoder(Start)
_ORIGINS = msgspec.json.Decoder(list[origin.Origin])


class History:
    """The past of a running store; ``safe`` returns the durable state."""

    def __init__(self, runtime: interface.Runtime, where: paths.Paths, safe: Callable[[], states.Snapshot]) -> None:
        self._runtime = runtime
        self._folder = where.journal
        self._safe = safe
        self._turn = asyncio.Lock()
        # The first section and the first record in it: the record is read again only after a removal.
        self._start: tuple[int, Start] = (0, Start())

    def records(
        self, *, after: int = 0, kinds: Container[str] | None = None, newest_first: bool = False
    ) -> Iterator[record.Record]:
        """Yield the kept records with a serial above ``after``, for work that is passed to ``walk`` (``records``)."""
        return records(self._runtime.disk, self._folder, after=after, kinds=kinds, newest_first=newest_first)

    async def walk(self, work: Callable[[], bytes]) -> bytes:
        """Run work on records in a thread, one at a time."""
        async with self._turn:
            return await self._runtime.compute(work)

    def _about(self, needles: Sequence[bytes]) -> Iterator[record.Record]:
        disk, folder = self._runtime.disk, self._folder
        return records(disk, folder, kinds=ALLOCATIONS, contains=about(disk, folder, needles))

    async def prune(self, keep: retention.Retention, *, before: int) -> int:
        """Remove the oldest sections beyond the limits; see ``journal.prune``."""
        async with self._turn:
            now = self._runtime.clock.now()
            return await journal.prune(self._runtime.disk, self._folder, keep, before=before, now=now)

    async def start(self) -> Start:
        """Return the first kept record; before it, nothing is known."""
        disk, folder = self._runtime.disk, self._folder
        first = next(iter(journal.sections(disk, folder)), 0)
        if first != self._start[0]:
            self._start = first, _START.decode(await self.walk(lambda: _ENCODER.encode(start(disk, folder))))
        return self._start[1]

    async def check(self, *, most: int = CHECKED) -> Check:
        """Read the newest sections, ``most`` bytes or a little more, and check every byte and the chain."""
        encoded_check = await self.walk(lambda: _ENCODER.encode(check(self._runtime.disk, self._folder, most=most)))
        return _CHECK.decode(encoded_check)

    async def addresses(self, name: str, *, address: str = "", moment: float | None = None, limit: int) -> owners.Past:
        """Return the owners of the addresses of a network, by its name or UUID; the network may be deleted.

        Raises InvalidError for an invalid address, NotFoundError for a network that never existed.
        """
        now = self._safe()
        question = owners.Question(
            name=name,
            networks=_present(now, name),
            limit=limit,
            address=str(ranges.parse_address(address)) if address else "",
            moment=moment,
        )

        def work() -> bytes:
            needles = [_ENCODER.encode(question.address)] if question.address else []
            return _ENCODER.encode(owners.holdings(self._about(needles), question, now=now))

        return _PAST.decode(await self.walk(work))

    async def everywhere(
        self,
        matches: owners.Matches,
        *,
        shows: Callable[[network.Network], bool],
        needles: Sequence[bytes] = (),
        moment: float | None = None,
        limit: int,
    ) -> owners.Past:
        """Return the owners of the allocations that match, in all networks, deleted ones too, and outside of them.

        ``nets`` of the answer has the networks at the moment for which ``shows`` returns true. An owner with an
        allocation that matches contains one of the ``needles`` as JSON; without any, all records are decoded.
        """
        now = self._safe()
        question = owners.Question(
            name="", networks=frozenset(now.networks), limit=limit, moment=moment, matches=matches
        )

        def work() -> bytes:
            past = owners.holdings(self._about(needles), question, now=now)
            return _ENCODER.encode(msgspec.structs.replace(past, nets=tuple(filter(shows, past.nets))))

        return _PAST.decode(await self.walk(work))

    async def origins(self, searches: Sequence[origin.Search]) -> list[origin.Origin]:
        """Return since when each present object has a property, and by which job."""

        def work() -> bytes:
            return _ENCODER.encode([origin.find(self._runtime.disk, self._folder, search) for search in searches])

        return _ORIGINS.decode(await self.walk(work))


def _present(now: states.Snapshot, name: str) -> frozenset[str]:
    try:
        return frozenset({now.resolve("networks", name)})
    except errors.NotFoundError:
        return frozenset()

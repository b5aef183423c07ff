"""History: what the journal still tells of the past, read while the daemon goes on writing it.

``records`` walks the kept segments (``journal``), oldest or newest record first, with one segment in memory at a time
(64 MiB or 20,000 records, ``transaction.Limits``). ``holdings`` folds records into who had which address of a network,
from when to when, by which jobs: it looks at each instance and port before and after, so that one record tells what was
given and what came back. ``History`` is what doors ask.

Cost: linear in the bytes of the journal, whatever the question; nothing is indexed, nothing is kept between two
questions. The walk is a thread beside the event loop, and there is only one at a time, because the threads are those
that the journal's own syncs need. The loop waits for it no longer than a frame takes to be decoded, or 5 ms, which is
how often threads take turns.

What the journal does not begin with is not made up: an address that somebody had before the first kept record has no
beginning, and who went without one is not known. Only records that are safe are looked at.
"""

import asyncio
import bisect
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from gantry import errors
from gantry.address import ranges
from gantry.model import instance, network
from gantry.runtime import interface, paths
from gantry.state import frame, journal, record
from gantry.state import snapshot as states

CHECKED = 256 << 20
"""Bytes of the journal that a check looks at, a few seconds' work."""

Place = tuple[str, str]
"""UUID of a network, and an address in its canonical spelling."""

ALLOCATIONS = frozenset({"instances", "ports", "networks"})
"""The kinds that say who has an address; jobs, most of a journal, are passed over."""


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """An address that an instance or a port has or had.

    UUIDs of network and holder, and the holder's last name meanwhile; ``noun`` says what it is, and a port without a
    name goes by its UUID. Times are seconds since the epoch: ``start`` is None when it began before the first kept
    record, ``end`` while it lasts. ``given`` and ``freed`` are the causes of both.
    """

    address: str
    network: str
    instance: str
    uuid: str
    start: float | None
    noun: str = "instance"
    end: float | None = None
    given: record.Cause = record.Cause()
    freed: record.Cause = record.Cause()

    def held_at(self, moment: float) -> bool:
        """Tell whether it was held at a moment."""
        return (self.start is None or self.start <= moment) and (self.end is None or moment < self.end)


class Past(msgspec.Struct, frozen=True):
    """The answer to a question: holdings, the oldest first, and the time of the first record that is kept.

    ``net`` is the network as it was at the moment of the question, None if there was none or no moment.
    """

    holdings: tuple[Holding, ...]
    since: float | None
    net: network.Network | None = None


@dataclass(frozen=True)
class Question:
    """Whose addresses: of the networks ``networks``, and of those no longer there that were called ``name``.

    ``address`` is a canonical spelling, empty for all; ``moment`` leaves only what was held then. Of more than
    ``limit`` holdings those are given that ended last.
    """

    name: str
    networks: frozenset[str]
    limit: int
    address: str = ""
    moment: float | None = None


class Check(msgspec.Struct, frozen=True):
    """What a look over the journal found: it began at record ``first`` of those kept since ``oldest``."""

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
) -> Iterator[record.Record]:
    """Yield the kept records with a serial above ``after``, with their changes of some kinds or of all.

    Checksums and the chain of what is read are checked; ConfigurationError names file and offset of damage. A frame
    that is just being written is where the journal ends.
    """
    firsts = journal.segments(disk, folder)
    chosen = firsts[max(bisect.bisect_right(firsts, after + 1) - 1, 0) :]
    neighbour: frame.Frame | None = None
    for first in reversed(chosen) if newest_first else chosen:
        path = journal.segment_path(folder, first)
        frames = _frames(disk, path, is_last=first == firsts[-1])
        for one in reversed(list(frames)) if newest_first else frames:
            if neighbour is not None:
                _check_chain(path, *((one, neighbour) if newest_first else (neighbour, one)))
            neighbour = one
            found = [_decode(path, one, raw, kinds) for raw in one.records]
            if not one.offset and (not found or found[0].serial != first):
                raise journal.damaged(path, f"it does not begin with record {first}", offset=0)
            yield from (each for each in (reversed(found) if newest_first else found) if each.serial > after)


def check(disk: interface.Disk, folder: str, *, most: int) -> Check:
    """Check the newest segments (``History.check``)."""
    firsts = journal.segments(disk, folder)
    size, start = 0, 0
    for first in reversed(firsts):
        size += disk.status(journal.segment_path(folder, first)).size
        start = first
        if size >= most:
            break
    try:
        deque(records(disk, folder, after=start - 1, kinds=()), maxlen=0)
    except errors.ConfigurationError as error:
        return Check(start, firsts[0], str(error))
    return Check(start, firsts[0] if firsts else 0)


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


def _decode(path: str, one: frame.Frame, raw: msgspec.Raw, kinds: Container[str] | None) -> record.Record:
    try:
        return record.decode(raw, kinds=kinds)
    except errors.ConfigurationError as error:
        raise journal.damaged(path, error.message, offset=one.offset) from None


def holdings(found: Iterable[record.Record], question: Question, *, now: states.Snapshot) -> Past:
    """Fold records, the oldest first, up to the one that made ``now``; NotFoundError when no network is meant."""
    fold = _Fold(question, now)
    for one in found:
        if one.serial > now.serial:
            break
        fold.follow(one)
    return Past(fold.finish(), fold.since, next(iter(fold.then.values()), None))


@dataclass
class _Fold:
    """The state of a fold: ``networks`` are those meant, ``then`` what they were at the moment of the question.

    ``places`` is what somebody has of them, ``current`` who has a place; ``is_whole`` tells of a journal that begins
    with the cluster.
    """

    question: Question
    now: states.Snapshot
    since: float | None = None
    networks: set[str] = field(default_factory=set)
    then: dict[str, network.Network] = field(default_factory=dict)
    is_whole: bool = True
    places: dict[str, frozenset[Place]] = field(default_factory=dict)
    current: dict[Place, Holding] = field(default_factory=dict)
    ended: deque[Holding] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.networks = set(self.question.networks)
        self.ended = deque(maxlen=self.question.limit)

    def follow(self, one: record.Record) -> None:
        """Take a record in: in it addresses come back before others take them, as in ``Snapshot.apply``."""
        if self.since is None:
            self.since, self.is_whole = one.time, one.serial == 1
        moved: list[tuple[str, states.Holder | None]] = []
        for change in one.changes:
            value = change.value if isinstance(change, states.Put) else None
            if change.kind == "networks":
                self._meet(change.key, value if isinstance(value, network.Network) else None, one.time)
            elif change.kind in ("instances", "ports"):
                moved.append((change.key, value if isinstance(value, instance.Instance | network.Port) else None))
        for uuid, holder in moved:
            for place in self.places.get(uuid, frozenset()) - self._places(holder):
                self._end(place, one)
        for uuid, holder in moved:
            if holder is not None:
                self._begin(holder, one)
            else:
                self.places.pop(uuid, None)

    def _meet(self, uuid: str, net: network.Network | None, time: float) -> None:
        if net and self.question.name in (net.name, uuid) and uuid not in self.now.networks:
            self.networks.add(uuid)
        if self.question.moment is None or time > self.question.moment:
            return
        if net and uuid in self.networks:
            self.then[uuid] = net
        else:
            self.then.pop(uuid, None)

    def _places(self, holder: states.Holder | None) -> frozenset[Place]:
        wanted = self.question.address
        return frozenset(
            (place.network, place.ip)
            for place in (holder.allocations() if holder else ())
            if place.network in self.networks and wanted in ("", place.ip)
        )

    def _begin(self, holder: states.Holder, one: record.Record) -> None:
        places = self._places(holder)
        # serial_no counts changes: who is met at a later one was there before the first record
        was_there = not self.is_whole and holder.uuid not in self.places and holder.serial_no > 1
        for place in places:
            known = self.current.get(place)
            if known is None:
                known = _holding(holder, place, start=None if was_there else one.time)
                known = known if was_there else msgspec.structs.replace(known, given=one.cause)
            self.current[place] = msgspec.structs.replace(known, instance=holder.name or holder.uuid)
        self.places[holder.uuid] = places

    def _end(self, place: Place, one: record.Record) -> None:
        ended = msgspec.structs.replace(self.current.pop(place), end=one.time, freed=one.cause)
        if self._is_asked_for(ended):
            self.ended.append(ended)

    def _is_asked_for(self, one: Holding) -> bool:
        return self.question.moment is None or one.held_at(self.question.moment)

    def finish(self) -> tuple[Holding, ...]:
        """Return what is asked for, the oldest first."""
        if not self.networks:
            raise errors.NotFoundError(
                f"no such network: {self.question.name}", hint="the journal knows of none that was called so either"
            )
        there: list[states.Holder] = [*self.now.instances.values(), *self.now.ports.values()]
        for holder in () if self.is_whole else there:
            if holder.uuid not in self.places:
                self.current |= {place: _holding(holder, place, start=None) for place in self._places(holder)}
        lasting = filter(self._is_asked_for, self.current.values())
        kept = [*self.ended, *sorted(lasting, key=_age)][-self.question.limit :]
        return tuple(sorted(kept, key=_age))


def _holding(holder: states.Holder, place: Place, *, start: float | None) -> Holding:
    noun = "port" if isinstance(holder, network.Port) else "instance"
    name = holder.name or holder.uuid
    return Holding(address=place[1], network=place[0], instance=name, uuid=holder.uuid, start=start, noun=noun)


def _age(one: Holding) -> tuple[float, ranges.Address]:
    return one.start or 0.0, ranges.parse_address(one.address)


_ENCODER = msgspec.json.Encoder()
_PAST = msgspec.json.Decoder(Past)
_CHECK = msgspec.json.Decoder(Check)


class History:
    """The past of a running store; ``safe`` returns the newest state that is safe."""

    def __init__(self, runtime: interface.Runtime, where: paths.Paths, safe: Callable[[], states.Snapshot]) -> None:
        self._runtime = runtime
        self._folder = where.journal
        self._safe = safe
        self._turn = asyncio.Lock()

    def records(self, *, after: int = 0) -> Iterator[record.Record]:
        """Yield the kept records with a serial above ``after``, for work that is given to ``walk``."""
        return records(self._runtime.disk, self._folder, after=after)

    async def walk(self, work: Callable[[], bytes]) -> bytes:
        """Do work on records beside the event loop, one at a time."""
        async with self._turn:
            return await self._runtime.compute(work)

    async def check(self, *, most: int = CHECKED) -> Check:
        """Read the newest segments, ``most`` bytes or a little more, and check every byte and the chain."""
        found = await self.walk(lambda: _ENCODER.encode(check(self._runtime.disk, self._folder, most=most)))
        return _CHECK.decode(found)

    async def addresses(self, name: str, *, address: str = "", moment: float | None = None, limit: int) -> Past:
        """Return who had which address of a network, by its name or UUID, also of one that is gone.

        Raises InvalidError for what is no address, NotFoundError for a network that there never was.
        """
        now = self._safe()
        question = Question(
            name=name,
            networks=_present(now, name),
            limit=limit,
            address=str(ranges.parse_address(address)) if address else "",
            moment=moment,
        )

        def work() -> bytes:
            found = records(self._runtime.disk, self._folder, kinds=ALLOCATIONS)
            return _ENCODER.encode(holdings(found, question, now=now))

        return _PAST.decode(await self.walk(work))


def _present(now: states.Snapshot, name: str) -> frozenset[str]:
    try:
        return frozenset({now.resolve("networks", name)})
    except errors.NotFoundError:
        return frozenset()

"""History: what the kept journal says about the past, read while the daemon continues to write it.

``records`` walks the kept sections (``journal``), oldest or newest record first, with one section in memory at a time
(64 MiB or 20,000 records, ``store.transaction.Limits``). ``holdings`` folds records into who had which address of a
network, from when to when, by which jobs: it compares each instance and port before and after a record, which shows
what the record allocated and released. The front ends call ``History``.

Cost: linear in the bytes of the journal for every question; there is no index, and nothing is kept between questions.
Only ``origins``, about what exists now, usually reads a single section. A question about one address, CIDR, MAC address
or owner decodes only the records that contain its text or the UUID of an owner that once had it: a search in memory
finds them, a tenth of the work of decoding all. It reads the journal to its end also for a moment long ago, because the
answer has the end of what was true then, and clocks of masters may differ, so that times of sections prove nothing.
The walk runs in a thread, only one at a time, because the journal's own syncs need the same threads. It delays the
event loop for at most the time to decode a frame, or 5 ms, the interval in which Python switches threads.

Facts from before the first kept record are not guessed: an address that had an owner by then has no start time, and
earlier owners are unknown. Only durable records are read. Sections are removed between two walks, never during one.
"""

import asyncio
import bisect
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from gantry import errors
from gantry.address import ranges
from gantry.lib_files import frame, journal_names
from gantry.model import instance, network
from gantry.runtime import interface, paths, retention
from gantry.state.journal import journal, origin, record
from gantry.state.objects import snapshot as states

CHECKED = 256 << 20
"""Bytes of the journal that a check reads, which takes a few seconds."""

NetworkAddress = tuple[str, str]
"""UUID of a network, and an address in its canonical spelling."""

Matches = Callable[[states.Owner, network.Allocation], bool]
"""Returns whether a question is about an allocation of an owner."""

Contains = Callable[[bytes], bool]
"""Returns whether the text of a record, or of several, contains what a question is about."""

OWNERS = 100
"""The maximum number of owners whose records are searched for by their UUIDs; for more, all records are decoded."""

ALLOCATIONS = frozenset({"instances", "ports", "networks"})
"""The kinds of objects that determine the owners of addresses; jobs, most of a journal, are skipped."""

_OWNED = frozenset({"instances", "ports"})
_OF_NETWORKS = b'"networks",'
"""A text in each record that puts or deletes a network."""


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """An address that an instance or a port has or had.

    UUIDs of network and owner, and the last name of the owner in that time; ``noun`` is ``instance`` or ``port``, and a
    port without a name has its UUID as name. Times are seconds since the epoch: ``start`` is None if the holding began
    before the first kept record, ``end`` is None while it lasts. ``given`` and ``freed`` are the causes of both.
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
        """Return whether the owner had the address at a moment."""
        return (self.start is None or self.start <= moment) and (self.end is None or moment < self.end)


class Past(msgspec.Struct, frozen=True):
    """The answer to a question: holdings, the oldest first, and the time of the first record that is kept.

    ``net`` is the network as it was at the moment of the question, None if there was none or no moment. A question
    about all networks has the names of those of the holdings by UUID in ``names``, and all at the moment in ``nets``.
    """

    holdings: tuple[Holding, ...]
    since: float | None
    net: network.Network | None = None
    names: dict[str, str] = {}
    nets: tuple[network.Network, ...] = ()


@dataclass(frozen=True)
class Question:
    """A question about the addresses of ``networks``, and of deleted networks that had the name ``name``.

    ``address`` is in canonical spelling, empty for all; with ``moment`` only holdings of that moment match. Of more
    than ``limit`` holdings those that ended last are returned.

    With ``matches`` the question is about all networks, and addresses outside of networks, but only about the
    allocations for which ``matches`` returns true.
    """

    name: str
    networks: frozenset[str]
    limit: int
    address: str = ""
    moment: float | None = None
    matches: Matches | None = None


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
    return _any_of([_OF_NETWORKS, *map(_ENCODER.encode, sorted(uuids))])


def _any_of(needles: Sequence[bytes]) -> Contains:
    return lambda text: any(needle in text for needle in needles)


def holdings(journal_records: Iterable[record.Record], question: Question, *, now: states.Snapshot) -> Past:
    """Fold records, the oldest first, up to the one that made ``now``; NotFoundError if no network matches."""
    fold = _Fold(question, now)
    for journal_record in journal_records:
        if journal_record.serial > now.serial:
            break
        fold.follow(journal_record)
    return fold.finish()


@dataclass
class _Fold:
    """The state of a fold: ``networks`` are the matching ones, ``then`` the same at the moment of the question.

    ``seen`` are the networks that a record puts or deletes, ``addresses`` the addresses of each owner by UUID,
    ``current`` the holding of each address; ``is_whole`` means that the journal begins with the cluster's creation.
    """

    question: Question
    now: states.Snapshot
    since: float | None = None
    networks: set[str] = field(default_factory=set)
    then: dict[str, network.Network] = field(default_factory=dict)
    is_whole: bool = False
    seen: set[str] = field(default_factory=set)
    addresses: dict[str, frozenset[NetworkAddress]] = field(default_factory=dict)
    current: dict[NetworkAddress, Holding] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    ended: deque[Holding] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.networks = set(self.question.networks)
        self.ended = deque(maxlen=self.question.limit)

    def follow(self, journal_record: record.Record) -> None:
        """Apply a record: it releases addresses before it allocates them, as ``Snapshot.apply`` does."""
        if self.since is None:
            self.since, self.is_whole = journal_record.time, journal_record.serial == 1
        moved: list[tuple[str, states.Owner | None]] = []
        for change in journal_record.changes:
            value = change.value if isinstance(change, states.Put) else None
            if change.kind == "networks":
                self._meet(change.key, value if isinstance(value, network.Network) else None, journal_record.time)
            elif change.kind in ("instances", "ports"):
                moved.append((change.key, value if isinstance(value, instance.Instance | network.Port) else None))
        for uuid, owner in moved:
            for address in self.addresses.get(uuid, frozenset()) - self._addresses_of(owner):
                self._end(address, journal_record)
        for uuid, owner in moved:
            if owner is not None:
                self._begin(owner, journal_record)
            else:
                self.addresses.pop(uuid, None)

    def _meet(self, uuid: str, net: network.Network | None, time: float) -> None:
        self.seen.add(uuid)
        if net and self.question.matches:
            self.networks.add(uuid)
            self.names[uuid] = net.name
        if net and self.question.name in (net.name, uuid) and uuid not in self.now.networks:
            self.networks.add(uuid)
        if self.question.moment is None or time > self.question.moment:
            return
        if net and uuid in self.networks:
            self.then[uuid] = net
        else:
            self.then.pop(uuid, None)

    def _addresses_of(self, owner: states.Owner | None) -> frozenset[NetworkAddress]:
        requested_address, matches = self.question.address, self.question.matches
        if matches is not None:
            allocations = owner.allocations() if owner else ()
            return frozenset((each.network, each.ip) for each in allocations if owner and matches(owner, each))
        return frozenset(
            (allocation.network, allocation.ip)
            for allocation in (owner.allocations() if owner else ())
            if allocation.network in self.networks and requested_address in ("", allocation.ip)
        )

    def _begin(self, owner: states.Owner, journal_record: record.Record) -> None:
        addresses = self._addresses_of(owner)
        # serial_no counts changes: an owner first seen with a higher one existed before the first kept record.
        was_there = not self.is_whole and owner.uuid not in self.addresses and owner.serial_no > 1
        for address in addresses:
            known = self.current.get(address)
            if known is None:
                known = _holding(owner, address, start=None if was_there else journal_record.time)
                known = known if was_there else msgspec.structs.replace(known, given=journal_record.cause)
            self.current[address] = msgspec.structs.replace(known, instance=owner.name or owner.uuid)
        self.addresses[owner.uuid] = addresses

    def _end(self, address: NetworkAddress, journal_record: record.Record) -> None:
        ended = msgspec.structs.replace(self.current.pop(address), end=journal_record.time, freed=journal_record.cause)
        if self._matches(ended):
            self.ended.append(ended)

    def _matches(self, holding: Holding) -> bool:
        return self.question.moment is None or holding.held_at(self.question.moment)

    def finish(self) -> Past:
        """Return the matching holdings, the oldest first; nothing is known of a moment before the first record."""
        if not self.networks and self.question.matches is None:
            raise errors.NotFoundError(
                f"no such network: {self.question.name}", hint="the journal has no deleted network of that name either"
            )
        moment = self.question.moment
        if moment is not None and self.since is not None and moment < self.since:
            return Past((), self.since)
        there: list[states.Owner] = [*self.now.instances.values(), *self.now.ports.values()]
        for owner in () if self.is_whole else there:
            if owner.uuid not in self.addresses:
                self.current |= {address: _holding(owner, address, start=None) for address in self._addresses_of(owner)}
        lasting = filter(self._matches, self.current.values())
        kept = [*self.ended, *sorted(lasting, key=_age)][-self.question.limit :]
        past = Past(tuple(sorted(kept, key=_age)), self.since, self._network_then())
        if self.question.matches is None:
            return past
        self.names |= {uuid: net.name for uuid, net in self.now.networks.items()}
        names = {each.network: self.names[each.network] for each in kept if each.network in self.names}
        return msgspec.structs.replace(past, net=None, names=names, nets=tuple(self.then.values()))

    def _network_then(self) -> network.Network | None:
        """Return the network at the moment; one that no record changes has been as it is since before the records."""
        if self.question.moment is not None and not self.is_whole:
            unchanged = (self.networks - self.seen) & set(self.now.networks)
            self.then |= {uuid: self.now.networks[uuid] for uuid in sorted(unchanged)}
        return next(iter(self.then.values()), None)


def _holding(owner: states.Owner, address: NetworkAddress, *, start: float | None) -> Holding:
    noun = "port" if isinstance(owner, network.Port) else "instance"
    name = owner.name or owner.uuid
    return Holding(address=address[1], network=address[0], instance=name, uuid=owner.uuid, start=start, noun=noun)


def _age(holding: Holding) -> tuple[float, ranges.Address]:
    return holding.start or 0.0, ranges.parse_address(holding.address)


_ENCODER = msgspec.json.Encoder()
_PAST = msgspec.json.Decoder(Past)
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

    def records(self, *, after: int = 0) -> Iterator[record.Record]:
        """Yield the kept records with a serial above ``after``, for work that is passed to ``walk``."""
        return records(self._runtime.disk, self._folder, after=after)

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

    async def addresses(self, name: str, *, address: str = "", moment: float | None = None, limit: int) -> Past:
        """Return the owners of the addresses of a network, by its name or UUID; the network may be deleted.

        Raises InvalidError for an invalid address, NotFoundError for a network that never existed.
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
            needles = [_ENCODER.encode(question.address)] if question.address else []
            return _ENCODER.encode(holdings(self._about(needles), question, now=now))

        return _PAST.decode(await self.walk(work))

    async def everywhere(
        self,
        matches: Matches,
        *,
        shows: Callable[[network.Network], bool],
        needles: Sequence[bytes] = (),
        moment: float | None = None,
        limit: int,
    ) -> Past:
        """Return the owners of the allocations that match, in all networks, deleted ones too, and outside of them.

        ``nets`` of the answer has the networks at the moment for which ``shows`` returns true. An owner with an
        allocation that matches contains one of the ``needles`` as JSON; without any, all records are decoded.
        """
        now = self._safe()
        question = Question(name="", networks=frozenset(now.networks), limit=limit, moment=moment, matches=matches)

        def work() -> bytes:
            past = holdings(self._about(needles), question, now=now)
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

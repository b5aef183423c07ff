"""Events: a summary of every record of the journal, for queries about the past and for clients that follow changes.

``Events`` keeps the newest in memory as they become durable (``Store.follow``); older events are read from the journal
(``journal.history``). The front ends call it: ``past`` for past events, ``after`` for a stream that a client can resume
with the serial of the last event it saw. Events have the serials of their records: without gaps, in order, each
reported once.
"""

import asyncio
import datetime
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from gantry import errors
from gantry.model import base, job
from gantry.state.journal import history, record
from gantry.state.objects import kinds
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

KEPT = 2000
"""How many events are kept in memory."""

KINDS = {kind.event: kind.collection for kind in kinds.KINDS.values() if kind.event}
"""The kind of an object in events, and the collection of the object. Collections without such a kind have no events."""

KIND_OF = {collection: kind for kind, collection in KINDS.items()}
"""The kind in events of the objects of a collection."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """An object that was ``added``, ``changed`` or ``removed``; of a job it is the status, or ``archived``.

    ``key`` is the UUID or the number; ``name`` is empty where the journal no longer has it.
    """

    kind: str
    key: str
    name: str
    what: str


class Event(msgspec.Struct, frozen=True):
    """The summary of a record; ``time`` is in seconds since the epoch."""

    serial: int
    time: float
    cause: record.Cause
    changes: tuple[Change, ...]


_EVENTS = msgspec.json.Decoder(list[Event])


@dataclass(frozen=True)
class Question:
    """A filter for events: kind and name (or key) of the changed object, first serial, earliest time."""

    kind: str = ""
    name: str = ""
    serial: int = 0
    time: float = 0.0

    def matches(self, event: Event) -> bool:
        """Return whether an event passes the filter."""
        if event.serial < self.serial or event.time < self.time:
            return False
        if not self.kind and not self.name:
            return True
        return any(
            self.kind in ("", change.kind) and self.name in ("", change.name, change.key) for change in event.changes
        )


def shorten(
    journal_record: record.Record, before: states.Snapshot | None = None, names: dict[str, str] | None = None
) -> Event:
    """Return the event of a record; names of removed objects come from the state before the record, or from ``names``.

    The names of stored objects are added to ``names``.
    """
    known = {} if names is None else names
    changes = []
    for change in journal_record.changes:
        kind = KIND_OF.get(change.kind, "")
        if not kind:
            continue
        if isinstance(change, states.Put):
            name, what = _put(change.value)
            known[change.key] = name
        else:
            old = before.get(change.kind, change.key) if before else None
            name = _put(old)[0] if old else known.pop(change.key, change.key if kind == "job" else "")
            what = "archived" if kind == "job" else "removed"
        changes.append(Change(kind, change.key, name, what))
    # Whoever may read may follow events, but may not learn from which addresses users come.
    cause = msgspec.structs.replace(journal_record.cause, submitter=None, right="")
    return Event(journal_record.serial, journal_record.time, cause, tuple(changes))


def _put(value: states.Stored) -> tuple[str, str]:
    if isinstance(value, job.Job):
        return str(value.id), value.status.value
    assert isinstance(value, base.Entity)
    return value.name, "added" if value.serial_no == 1 else "changed"


def _pruned(serial: int, first: Event) -> errors.PrunedError:
    when = datetime.datetime.fromtimestamp(first.time, datetime.UTC)
    return errors.PrunedError(
        f"the events after serial {serial} are not kept any more: the journal begins with serial {first.serial}, "
        f"{when:%Y-%m-%dT%H:%M:%SZ}",
        hint=f"read the present state, then follow the events after serial {first.serial - 1} or a later one",
    )


def _shortened(journal_records: Iterable[record.Record], *, last: int) -> Iterator[Event]:
    """Yield the events of records up to the serial ``last``, with the names that earlier records contain."""
    names: dict[str, str] = {}
    for journal_record in itertools.takewhile(lambda journal_record: journal_record.serial <= last, journal_records):
        yield shorten(journal_record, names=names)


class Events:
    """The events of a running store."""

    def __init__(self, store: transaction.Store, past: history.History) -> None:
        self._store = store
        self._history = past
        self._newest: deque[Event] = deque(maxlen=KEPT)
        self._news = asyncio.Event()
        store.follow(self._follow)

    @property
    def serial(self) -> int:
        """Return the serial of the newest event."""
        return self._store.durable_serial

    def _follow(self, journal_record: record.Record, before: states.Snapshot) -> None:
        self._newest.append(shorten(journal_record, before))
        self._news.set()
        self._news = asyncio.Event()

    async def after(self, serial: int, *, limit: int, timeout: float) -> list[Event]:
        """Return at most ``limit`` events after a serial, the oldest first; wait while there are none.

        The list is empty if there is no event within ``timeout`` seconds. After serial 0 it begins with the first event
        that is kept. Raises PrunedError if events after another serial are not kept any more, ConfigurationError for a
        damaged journal.
        """
        try:
            async with asyncio.timeout(timeout):
                while self.serial <= serial:
                    await self._news.wait()
        except TimeoutError:
            return []
        if self._newest and self._newest[0].serial <= serial + 1:
            skipped = serial + 1 - self._newest[0].serial
            return list(itertools.islice(self._newest, skipped, skipped + limit))
        last = self.serial

        def work() -> bytes:
            shortened = _shortened(self._history.records(after=serial), last=last)
            kept_events = list(itertools.islice(shortened, limit))
            if serial and kept_events and kept_events[0].serial > serial + 1:
                raise _pruned(serial, kept_events[0])
            return msgspec.json.encode(kept_events)

        return _EVENTS.decode(await self._history.walk(work))

    async def start(self) -> history.Start:
        """Return serial and time of the first record that is kept."""
        return await self._history.start()

    async def past(self, question: Question, *, limit: int) -> list[Event]:
        """Return the last ``limit`` events that pass the filter, the oldest first; may read the whole journal.

        The names of removed objects come from older records, so a filter by name reads those too.
        """
        last = self.serial
        start = 0 if question.name else max(question.serial - 1, 0)

        def work() -> bytes:
            shortened = _shortened(self._history.records(after=start), last=last)
            return msgspec.json.encode(list(deque(filter(question.matches, shortened), maxlen=limit)))

        return _EVENTS.decode(await self._history.walk(work))

"""Events: every record of the journal in short, for those who look back and those who follow.

``Events`` keeps the newest in memory as they become safe (``Store.follow``); what is older is read from the journal
(``history``). The doors ask it: ``past`` for what happened, ``after`` for a stream that anybody resumes who knows the
serial of the last event seen. Events have the serials of their records: without gaps, in order, each told once.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from gantry.model import base, job
from gantry.state import history, kinds, record, transaction
from gantry.state import snapshot as states

KEPT = 2000
"""How many events are kept in memory."""

KINDS = {kind.event: kind.collection for kind in kinds.KINDS.values() if kind.event}
"""The kind of an object in events, and the collection of the object. Collections without such a kind have no events."""

_CALLED = {collection: kind for kind, collection in KINDS.items()}


class Change(msgspec.Struct, frozen=True, gc=False):
    """An object that was ``added``, ``changed`` or ``removed``; of a job it is the status, or ``archived``.

    ``key`` is the UUID or the number; ``name`` is empty where the journal does not tell it any more.
    """

    kind: str
    key: str
    name: str
    what: str


class Event(msgspec.Struct, frozen=True):
    """A record in short; ``time`` is in seconds since the epoch."""

    serial: int
    time: float
    cause: record.Cause
    changes: tuple[Change, ...]


_EVENTS = msgspec.json.Decoder(list[Event])


@dataclass(frozen=True)
class Question:
    """Which events: those that change an object of a kind, of a name (or key), from a serial or a time on."""

    kind: str = ""
    name: str = ""
    serial: int = 0
    time: float = 0.0

    def chosen(self, one: Event) -> bool:
        """Tell whether an event is asked for."""
        if one.serial < self.serial or one.time < self.time:
            return False
        if not self.kind and not self.name:
            return True
        return any(
            self.kind in ("", change.kind) and self.name in ("", change.name, change.key) for change in one.changes
        )


def shorten(one: record.Record, before: states.Snapshot | None = None, names: dict[str, str] | None = None) -> Event:
    """Return a record in short; names of what is removed are found in the state before it, or in ``names``.

    ``names`` learns the names of what is put.
    """
    known = {} if names is None else names
    changes = []
    for change in one.changes:
        kind = _CALLED.get(change.kind, "")
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
    return Event(one.serial, one.time, one.cause, tuple(changes))


def _put(value: states.Stored) -> tuple[str, str]:
    if isinstance(value, job.Job):
        return str(value.id), value.status.value
    assert isinstance(value, base.Entity)
    return value.name, "added" if value.serial_no == 1 else "changed"


def _shortened(found: Iterable[record.Record], *, last: int) -> Iterator[Event]:
    """Shorten records up to the serial ``last``, each with the names that those before it tell."""
    names: dict[str, str] = {}
    for one in itertools.takewhile(lambda one: one.serial <= last, found):
        yield shorten(one, names=names)


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

    def _follow(self, one: record.Record, before: states.Snapshot) -> None:
        self._newest.append(shorten(one, before))
        self._news.set()
        self._news = asyncio.Event()

    async def after(self, serial: int, *, limit: int, timeout: float) -> list[Event]:
        """Return at most ``limit`` events after a serial, the oldest first; wait while there are none.

        The list is empty when ``timeout`` seconds passed without. ConfigurationError when the journal is damaged.
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
            found = _shortened(self._history.records(after=serial), last=last)
            return msgspec.json.encode(list(itertools.islice(found, limit)))

        return _EVENTS.decode(await self._history.walk(work))

    async def past(self, question: Question, *, limit: int) -> list[Event]:
        """Return the last ``limit`` events that are asked for, the oldest first; reads all of the journal if need be.

        The names of what was removed come from older records, so those are read too where a name is asked for.
        """
        last = self.serial
        start = 0 if question.name else max(question.serial - 1, 0)

        def work() -> bytes:
            found = _shortened(self._history.records(after=start), last=last)
            return msgspec.json.encode(list(deque(filter(question.chosen, found), maxlen=limit)))

        return _EVENTS.decode(await self._history.walk(work))

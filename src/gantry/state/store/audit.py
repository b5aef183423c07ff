"""The audit: who did what, from where and by which right, and what changed; read from the journal on demand.

An entry is a job, with its submitter, what it was to do, how it ended, and the changes of the state that it made; or a
record without a job, such as that of a console that somebody opened, or of a master's confirmation. The records of the
queue itself, and the archiving of jobs, are no entries. What the entries are made of is chained by hashes
(``journal.history``), so whoever edits it is noticed by every reading of it, and by ``gnt-cluster verify``.

``Audit``, which the front ends call, reads the kept journal twice, one section in memory at a time: forwards for the
entries that match, then backwards from them for the objects as they were before. Cost: linear in the bytes of the
journal, as for every question about the past; memory for the entries of the answer and the jobs that run at a time.
"""

import itertools
import operator
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from gantry.model import access, base, confidential, job, opcodes
from gantry.state.files import export
from gantry.state.journal import history, record
from gantry.state.objects import snapshot as states
from gantry.state.store import events, transaction

ENTRY_LIMIT = 10_000
"""The maximum number of entries in an answer."""

FIELD_LIMIT = 200
"""Fields of a change in an answer; the number of those beyond it is in ``more_fields``."""

LIST_LIMIT = 50
"""A list of more values than this is only counted: a network may have a million external reservations."""

_BOOKKEEPING = frozenset({"serial_no", "mtime", "ctime", "uuid"})
"""Fields that say nothing about what a person changed."""

_NOBODYS = ("jobs", "webhookpositions")
"""The collections whose changes nobody made: the progress of a job, and of the delivery of webhooks."""

UUID_LENGTH = 36
_REFERRED = ("nodes", "networks", "nodegroups", "instances")
"""The collections whose objects are named by their UUIDs in fields of others."""

Name = Callable[[str], str]

_SERIAL = operator.attrgetter("serial")
_WORD = re.compile(r"[^\s,]+")

_ENCODER = msgspec.json.Encoder()


class Field(msgspec.Struct, frozen=True):
    """A field of an object before and after a change, as JSON data without secrets; None where it does not exist."""

    path: str
    before: object
    after: object


class Change(msgspec.Struct, frozen=True):
    """An object that was ``added``, ``changed`` or ``removed``, and of a changed one the fields that differ.

    ``fields`` is None where the journal no longer has the object as it was before.
    """

    kind: str
    key: str
    name: str
    what: str
    fields: tuple[Field, ...] | None = ()
    more_fields: int = 0


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody did. ``serial`` and ``time`` are those of its first kept record, ``time`` in seconds since 1970.

    ``user`` came through ``door``, from the address ``peer``, with the API token ``token`` if there is one. No user is
    the cluster itself, no address the master's machine. ``named`` is the user whom a front end names in the reason of a
    job, such as a user of Neutron. ``what`` is the job's summary, or what was done without a job; ``status`` is that of
    the job, empty without one. ``ops`` are the opcodes, without secrets.
    """

    serial: int
    time: float
    job: int = 0
    user: str = ""
    door: str = ""
    peer: str = ""
    token: str = ""
    named: str = ""
    right: str = ""
    what: str = ""
    status: str = ""
    reason: str = ""
    changes: tuple[Change, ...] = ()
    ops: tuple[Mapping[str, object], ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """Entries, the oldest first, and the first record that is kept."""

    entries: tuple[Entry, ...]
    since: history.Start


_ENTRIES = msgspec.json.Decoder(tuple[Entry, ...])


@dataclass(frozen=True)
class Question:
    """A filter: the user, any of an object's names and keys, and the time, in seconds since 1970, until the end."""

    user: str = ""
    objects: frozenset[str] = frozenset()
    since: float = 0.0
    until: float = float("inf")


@dataclass
class _StoredChange:
    """A change that a record made; ``before`` is filled in by the walk backwards."""

    serial: int
    kind: str
    key: str
    after: states.Stored | None
    before: states.Stored | None = None
    has_before: bool = False

    @property
    def is_added(self) -> bool:
        return isinstance(self.after, base.Entity) and self.after.serial_no == 1


@dataclass
class _Draft:
    """An entry in the making."""

    serial: int
    time: float
    cause: record.Cause
    of_job: job.Job | None = None
    changes: list[_StoredChange] = field(default_factory=list)


class Audit:
    """The audit of a running store."""

    def __init__(self, store: transaction.Store, past: history.History) -> None:
        self._store = store
        self._history = past

    async def entries(self, question: Question, *, limit: int) -> Answer:
        """Return the last ``limit`` entries that pass the filter; ConfigurationError for a damaged journal."""
        last, name_of = self._store.durable_serial, _names_in(self._store.durable)

        def work() -> bytes:
            drafts = sorted(deque(_matching(self._until(last), question), maxlen=limit), key=_SERIAL)
            kinds = {change.kind for draft in drafts for change in draft.changes}
            _look_back(drafts, self._history.records(kinds=kinds, newest_first=True))
            return _ENCODER.encode([_entry(draft, name_of) for draft in drafts])

        entries = _ENTRIES.decode(await self._history.walk(work))
        return Answer(entries, await self._history.start())

    def _until(self, last: int) -> Iterator[record.Record]:
        return itertools.takewhile(lambda each: each.serial <= last, self._history.records())


def names(state: states.Snapshot, text: str) -> frozenset[str]:
    """Return a name or UUID with the UUIDs and the name of the present objects that have it."""
    texts = {text}
    for kind in states.KINDS.values():
        if kind.unique_names and (uuid := state.names.get((kind.collection, text))):
            texts.add(uuid)
        entity = None if kind.single else state.get(kind.collection, text)
        if isinstance(entity, base.Entity):
            texts.add(entity.name)
    return frozenset(texts)


def _matching(journal_records: Iterator[record.Record], question: Question) -> Iterator[_Draft]:
    """Yield what passes the filter, in the order of its end; jobs that have not ended come last."""
    running: dict[int, _Draft] = {}
    for journal_record in journal_records:
        own: _Draft | None = None
        for change in journal_record.changes:
            if change.kind in _NOBODYS:
                continue
            if own is None:
                own = _draft_of(running, journal_record)
            value = change.value if isinstance(change, states.Put) else None
            own.changes.append(_StoredChange(journal_record.serial, change.kind, change.key, value))
        if not journal_record.cause.job and (own or not journal_record.changes):
            draft = own or _new_draft(journal_record)
            if _passes(draft, question):
                yield draft
        for change in journal_record.changes:
            value = change.value if isinstance(change, states.Put) else None
            if not isinstance(value, job.Job):
                continue
            draft = running.setdefault(value.id, _new_draft(journal_record))
            draft.of_job = value
            if value.status in job.FINAL:
                del running[value.id]
                if _passes(draft, question):
                    yield draft
    yield from (draft for draft in running.values() if _passes(draft, question))


def _draft_of(running: dict[int, _Draft], journal_record: record.Record) -> _Draft:
    number = journal_record.cause.job
    draft = _new_draft(journal_record)
    return running.setdefault(number, draft) if number else draft


def _new_draft(journal_record: record.Record) -> _Draft:
    return _Draft(journal_record.serial, journal_record.time, journal_record.cause)


def _passes(draft: _Draft, question: Question) -> bool:
    if not question.since <= draft.time <= question.until:
        return False
    if question.user and question.user not in _users(draft):
        return False
    return not question.objects or not question.objects.isdisjoint(_names(draft))


def _submitter(draft: _Draft) -> access.Subject | None:
    return draft.of_job.submitter if draft.of_job else draft.cause.submitter


def _named(draft: _Draft) -> str:
    """Return the user whom the reason of a job names, if its submitter may do everything: it is the client's word."""
    entry = draft.of_job
    if entry is None or not (entry.submitter is None or entry.submitter.is_admin):
        return ""
    reason = entry.ops[0].input.reason
    return reason[0][0] if reason else ""


def _users(draft: _Draft) -> Iterator[str]:
    if submitter := _submitter(draft):
        yield submitter.user
    if named := _named(draft):
        # After the front end: the names of an OpenID provider have a colon.
        yield from (named, named.split(":", 2)[-1])


def _names(draft: _Draft) -> Iterator[str]:
    """Yield the names and keys of what an entry is about."""
    for change in draft.changes:
        yield change.key
        if isinstance(change.after, base.Entity):
            yield change.after.name
    for step in draft.of_job.ops if draft.of_job else ():
        described: object = getattr(step.input, step.input.DESCRIBES) if step.input.DESCRIBES else ()
        yield from map(str, described) if isinstance(described, list | tuple) else (str(described),)
    if draft.of_job is None:
        yield from _WORD.findall(draft.cause.reason)


def _look_back(drafts: Sequence[_Draft], journal_records: Iterator[record.Record]) -> None:
    """Fill in what the changed and removed objects were before, from the records, the newest first."""
    awaited: dict[tuple[str, str], list[_StoredChange]] = {}
    for draft in drafts:
        for change in draft.changes:
            if not change.is_added:
                awaited.setdefault((change.kind, change.key), []).append(change)
    for each in awaited.values():
        each.sort(key=_SERIAL)
    for journal_record in journal_records:
        if not awaited:
            return
        for earlier in reversed(journal_record.changes):
            key = earlier.kind, earlier.key
            value = earlier.value if isinstance(earlier, states.Put) else None
            while (changes := awaited.get(key)) and changes[-1].serial > journal_record.serial:
                changes[-1].before, changes[-1].has_before = value, True
                changes.pop()
                if not changes:
                    del awaited[key]


def _names_in(state: states.Snapshot) -> Name:
    """Return what replaces the UUID of a present object by its name, as that of the node of an instance."""

    def name_of(text: str) -> str:
        entities = (state.get(collection, text) for collection in _REFERRED) if len(text) == UUID_LENGTH else ()
        return next((entity.name for entity in entities if isinstance(entity, base.Entity)), text)

    return name_of


def _entry(draft: _Draft, name_of: Name) -> Entry:
    submitter, entry = _submitter(draft), draft.of_job
    return Entry(
        serial=draft.serial,
        time=draft.time,
        job=entry.id if entry else draft.cause.job,
        user=submitter.user if submitter else "",
        door=submitter.door if submitter else "",
        peer=submitter.peer if submitter else "",
        token=submitter.token.name if submitter and submitter.token else "",
        named=_named(draft),
        right=", ".join(dict.fromkeys(step.right for step in entry.ops if step.right)) if entry else draft.cause.right,
        what=", ".join(step.input.summary for step in entry.ops) if entry else draft.cause.reason,
        status=entry.status.value if entry else "",
        reason="; ".join(text for _, text, _ in entry.ops[0].input.reason if text) if entry else "",
        changes=tuple(_change(change, name_of) for change in draft.changes),
        ops=tuple(opcodes.encode(confidential.public(step.input)) for step in entry.ops) if entry else (),
    )


def _change(change: _StoredChange, name_of: Name) -> Change:
    named = change.after or change.before
    name = named.name if isinstance(named, base.Entity) else ""
    kind = events.KIND_OF.get(change.kind, change.kind)
    if change.is_added or change.after is None:
        return Change(kind, change.key, name, "added" if change.after else "removed")
    if not change.has_before or change.before is None:
        return Change(kind, change.key, name, "changed", None)
    fields = differences(change.before, change.after, name_of)
    return Change(kind, change.key, name, "changed", tuple(fields[:FIELD_LIMIT]), max(len(fields) - FIELD_LIMIT, 0))


def differences(before: states.Stored, after: states.Stored, name_of: Name = str) -> list[Field]:
    """Return the fields in which two states of an object differ, by path; secrets are blanked.

    The items of a list that have UUIDs, as NICs and disks, are compared by them, and named by their index. ``name_of``
    returns the name of the object with a UUID, or the text itself.
    """
    old_data, new_data = msgspec.to_builtins(before), msgspec.to_builtins(after)
    old, new = dict(_leaves(old_data)), dict(_leaves(new_data))
    indexes = {**_indexes(old_data), **_indexes(new_data)}
    return [
        Field(
            ".".join(indexes.get(part) or name_of(part) for part in path),
            _public(path, old.get(path), name_of),
            _public(path, new.get(path), name_of),
        )
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path) and path[0] not in _BOOKKEEPING
    ]


def _leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    if isinstance(value, dict) and (value or not path):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    elif isinstance(value, list | tuple) and value and all(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, item.get("uuid") or str(index)))
    else:
        yield path, value


def _indexes(value: object) -> dict[str, str]:
    """Return the index of each item of a list by its UUID."""
    indexes: dict[str, str] = {}
    if isinstance(value, dict):
        for inner in value.values():
            indexes |= _indexes(inner)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if isinstance(item, dict) and item.get("uuid"):
                indexes[item["uuid"]] = str(index)
            indexes |= _indexes(item)
    return indexes


def _public(path: tuple[str, ...], value: object, name_of: Name) -> object:
    if value and any(map(export.SECRET.search, path)):
        return export.BLANK
    if path[-1] == confidential.DATABASE and isinstance(value, str):
        return confidential.database(value)
    if isinstance(value, list | tuple):
        is_long = len(value) > LIST_LIMIT
        return (
            f"{len(value)} values" if is_long else [name_of(each) if isinstance(each, str) else each for each in value]
        )
    return name_of(value) if isinstance(value, str) else value

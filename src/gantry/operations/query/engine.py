"""Answers queries: picks the rows, asks nodes when a field needs it, filters, and makes the cells.

Called by the doors. ``Source`` is what a query may look at: the newest snapshot, the queue's jobs (whose logs are
ahead of the snapshot), the locks, the address ledger and the nodes. Nothing is locked (design section 5).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gantry import errors
from gantry.ipam import embedded
from gantry.model import base as entities
from gantry.model import cluster, fields, job
from gantry.operations import base
from gantry.operations.query import cells, filters, group, instance, network, node
from gantry.operations.query import job as jobs
from gantry.rpc import calls
from gantry.state import snapshot as states

T = TypeVar("T")
LockRow = tuple[str, str | None, list[str] | None, list[tuple[str, list[str]]]]
"""Name, mode, owners, and who waits: mode and owners."""

_COMMON: dict[str, cells.Getter[entities.Entity]] = {
    "ctime": lambda _, entity: entity.ctime,
    "mtime": lambda _, entity: entity.mtime,
    "uuid": lambda _, entity: entity.uuid,
    "serial_no": lambda _, entity: entity.serial_no,
    "tags": lambda _, entity: list(entity.tags),
}

_LOCK: dict[str, cells.Getter[LockRow]] = {
    "name": lambda _, row: row[0],
    "mode": lambda _, row: row[1],
    "owner": lambda _, row: row[2],
    "pending": lambda _, row: [list(entry) for entry in row[3]],
}

GETTERS: dict[str, Mapping[str, Callable[..., cells.Cell]]] = {
    "node": {**_COMMON, **node.GETTERS},
    "instance": {**_COMMON, **instance.GETTERS},
    "group": {**_COMMON, **group.GETTERS},
    "network": {**_COMMON, **network.GETTERS},
    "job": jobs.GETTERS,
    "lock": _LOCK,
}

COLLECTIONS = {"node": "nodes", "instance": "instances", "group": "nodegroups", "network": "networks"}
NAME_FIELDS = {"job": "id"}


@dataclass(frozen=True)
class Source:
    """What queries look at."""

    snapshot: Callable[[], states.Snapshot]
    ledger: embedded.Ledger
    nodes: base.Nodes
    jobs: Callable[[], Mapping[int, job.Job]]
    archived_job: Callable[[int], job.Job | None]
    locks: Callable[[], Iterable[LockRow]]


@dataclass(frozen=True)
class Result:
    """Field descriptions, and a row of ``(status, value)`` for each object."""

    fields: list[fields.Field]
    rows: list[list[tuple[int, object]]]


def context(source: Source, live: cells.Live = cells.NOTHING_LIVE) -> cells.Context:
    """Return what getters see of the newest state."""
    return cells.Context(source.snapshot(), source.ledger, live)


async def query(source: Source, what: str, names: Sequence[str], *, filter_: object = None) -> Result:
    """Answer a query (contract: query language); raises InvalidError, FilterError, NotFoundError."""
    known = _getters(what)
    predicate = filters.compile_filter(filter_)
    shown = fields.lookup(what, names)
    looked_at = fields.lookup(what, sorted(filters.fields_of(filter_)))
    unknown = [field.name for field in looked_at if field.kind is fields.Kind.UNKNOWN]
    if unknown:
        raise errors.InvalidError(f"filter looks at unknown fields of {what}: {', '.join(unknown)}")
    state = source.snapshot()
    wanted = filters.names_of(filter_, NAME_FIELDS.get(what, "name"))
    objects = _objects(source, state, what, wanted=wanted)
    live = cells.NOTHING_LIVE
    if any(field.live for field in (*shown, *looked_at)):
        live = await _ask(source, state, what, objects)
    sight = cells.Context(state, source.ledger, live)
    rows = []
    for one in objects:
        if wanted is None and not predicate(_row(known, sight, one)):
            continue
        rows.append([_cell(known, field, sight, one) for field in shown])
    return Result(shown, rows)


def query_fields(what: str, names: Sequence[str] | None) -> list[fields.Field]:
    """Describe the fields of a resource, all or those named."""
    _getters(what)
    return fields.lookup(what, names) if names is not None else list(fields.REGISTRY[what].values())


async def table(source: Source, what: str, names: Sequence[str | int], columns: Sequence[str]) -> list[list[object]]:
    """Answer the older form of a query: plain values, None where there is none, an unknown field refused."""
    unknown = [field.name for field in fields.lookup(what, columns) if field.kind is fields.Kind.UNKNOWN]
    if unknown:
        raise errors.InvalidError(f"unknown output fields of {what}: {', '.join(unknown)}")
    name_field = NAME_FIELDS.get(what, "name")
    filter_ = ["|", *(["=", name_field, name] for name in names)] if names else None
    result = await query(source, what, columns, filter_=filter_)
    return [[value for _, value in row] for row in result.rows]


def _getters(what: str) -> Mapping[str, Callable[..., cells.Cell]]:
    if what not in GETTERS:
        raise errors.InvalidError(f"no such resource to query: {what}", hint=f"there are {', '.join(sorted(GETTERS))}")
    return GETTERS[what]


def _row(known: Mapping[str, Callable[..., cells.Cell]], context: cells.Context, one: object) -> filters.Lookup:
    return lambda name: known[fields.canonical(name)](context, one)


def _cell(
    known: Mapping[str, Callable[..., cells.Cell]], field: fields.Field, context: cells.Context, one: object
) -> tuple[int, object]:
    if field.kind is fields.Kind.UNKNOWN:
        return int(fields.ResultStatus.UNKNOWN), None
    cell = known[fields.canonical(field.name)](context, one)
    if isinstance(cell, cells.Missing):
        return int(cell.value), None
    return int(fields.ResultStatus.NORMAL), cell


def _objects(source: Source, state: states.Snapshot, what: str, *, wanted: list[str | int] | None) -> Sequence[object]:
    if what == "lock":
        return sorted(source.locks())
    if what == "job":
        return _jobs(source, wanted)
    kind = COLLECTIONS[what]
    if wanted is not None:
        return [state.collection(kind)[state.resolve(kind, str(name))] for name in wanted]
    return sorted(state.collection(kind).values(), key=_nice_name)


def _jobs(source: Source, wanted: list[str | int] | None) -> list[object]:
    live = source.jobs()
    if wanted is None:
        return [live[number] for number in sorted(live)]
    found = []
    for name in wanted:
        number = int(name) if str(name).isdecimal() else 0
        one = live.get(number) or source.archived_job(number)
        if one is None:
            raise errors.NotFoundError(f"no such job: {name}", hint="gnt-job list shows those there are")
        found.append(one)
    return list(found)


def _nice_name(one: object) -> list[tuple[int, int, str]]:
    """Return the natural order of names: ``node2`` before ``node10``."""
    name = one.name if isinstance(one, entities.Entity) else ""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


async def _ask(source: Source, state: states.Snapshot, what: str, objects: Sequence[object]) -> cells.Live:
    """Ask the nodes that the rows depend on for what the live fields need."""
    if what == "node":
        some = [one for one in objects if isinstance(one, cluster.Node) and one.vm_capable]
        answers = await source.nodes.fan_out([state.target(one) for one in some], calls.NodeInfo())
        return cells.Live(nodes={answer.target.uuid: answer for answer in answers})
    asked = [one for one in state.nodes.values() if one.vm_capable and one.uuid in state.on_node]
    hypervisors = state.the_cluster.enabled_hypervisors
    lists = await source.nodes.fan_out(
        [state.target(one) for one in asked], calls.InstanceList(hypervisors=hypervisors)
    )
    running = {vm.name: (answer.target.uuid, vm) for answer in lists for vm in answer.value or ()}
    silent = {
        answer.target.uuid: cells.Missing.OFFLINE if answer.offline else cells.Missing.NO_DATA
        for answer in lists
        if answer.value is None
    }
    return cells.Live(running=running, silent=silent)

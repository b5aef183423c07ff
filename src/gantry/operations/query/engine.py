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

_NORMAL = int(fields.ResultStatus.NORMAL)
_UNKNOWN = (int(fields.ResultStatus.UNKNOWN), None)

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
    archived_numbers: Callable[[], Iterable[int]]
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
    wanted = filters.names_of(filter_, NAME_FIELDS.get(what, "name")) if what != "lock" else None
    objects = _objects(source, state, what, wanted=wanted)
    if what == "job" and wanted is None and any(field.name == "archived" for field in (*shown, *looked_at)):
        objects = [*_archived(source), *objects]
    live = cells.NOTHING_LIVE
    if any(field.live for field in (*shown, *looked_at)):
        live = await _ask(source, state, what, objects)
    sight = cells.Context(state, source.ledger, live)
    if wanted is None and filter_ is not None:
        objects = [one for one in objects if predicate(_row(known, sight, one))]
    getters = [known.get(fields.canonical(field.name)) for field in shown]
    return Result(shown, [[_cell(getter, sight, one) for getter in getters] for one in objects])


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
    return [[cell[1] for cell in row] for row in result.rows]


def _getters(what: str) -> Mapping[str, Callable[..., cells.Cell]]:
    if what not in GETTERS:
        raise errors.InvalidError(f"no such resource to query: {what}", hint=f"there are {', '.join(sorted(GETTERS))}")
    return GETTERS[what]


def _row(known: Mapping[str, Callable[..., cells.Cell]], context: cells.Context, one: object) -> filters.Lookup:
    return lambda name: known[fields.canonical(name)](context, one)


def _cell(getter: Callable[..., cells.Cell] | None, context: cells.Context, one: object) -> tuple[int, object]:
    if getter is None:
        return _UNKNOWN
    cell = getter(context, one)
    if isinstance(cell, cells.Missing):
        return int(cell.value), None
    return _NORMAL, cell


def _objects(source: Source, state: states.Snapshot, what: str, *, wanted: list[str | int] | None) -> Sequence[object]:
    if what == "lock":
        return sorted(source.locks(), key=lambda row: row[0])
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


def _archived(source: Source) -> list[job.Job]:
    """Return the jobs of the archive, which only the field ``archived`` makes anybody read."""
    found = [source.archived_job(number) for number in sorted(source.archived_numbers())]
    return [one for one in found if one is not None]


def _nice_name(one: object) -> tuple[list[tuple[int, int, str]], str]:
    """Return the natural order of names: ``node2`` before ``node10``; what is left equal goes by the name itself."""
    name = one.name if isinstance(one, entities.Entity) else ""
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]
    return parts, name


async def _ask(source: Source, state: states.Snapshot, what: str, objects: Sequence[object]) -> cells.Live:
    """Ask the nodes that the rows depend on for what the live fields need."""
    if what == "node":
        some = [one for one in objects if isinstance(one, cluster.Node) and one.vm_capable]
        answers = await source.nodes.fan_out([state.target(one) for one in some], calls.NodeInfo())
        return cells.Live(nodes={answer.target.uuid: answer for answer in answers})
    nodes = sorted(state.nodes.values(), key=_nice_name)
    asked = [one for one in nodes if one.vm_capable and one.uuid in state.on_node]
    hypervisors = state.the_cluster.enabled_hypervisors
    lists = await source.nodes.fan_out(
        [state.target(one) for one in asked], calls.InstanceList(hypervisors=hypervisors)
    )
    # Of an instance that runs twice the one in the wrong place is shown.
    running: dict[str, tuple[str, calls.RunningInstance]] = {}
    for answer in lists:
        for vm in answer.value or ():
            if vm.name not in running or not _is_at_home(state, vm.name, answer.target.uuid):
                running[vm.name] = (answer.target.uuid, vm)
    silent = {
        answer.target.uuid: cells.Missing.OFFLINE if answer.offline else cells.Missing.NO_DATA
        for answer in lists
        if answer.value is None
    }
    return cells.Live(running=running, silent=silent)


def _is_at_home(state: states.Snapshot, name: str, node_uuid: str) -> bool:
    uuid = state.names.get(("instances", name))
    return uuid is not None and state.instances[uuid].primary_node == node_uuid

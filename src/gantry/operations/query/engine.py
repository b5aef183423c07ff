"""Answers queries: picks the rows, asks nodes when a field needs it, filters, and makes the cells.

Called by the doors. ``Source`` is what a query may look at: the newest snapshot, the queue's jobs (whose logs are
ahead of the snapshot), the locks, the address ledger and the nodes. Nothing is locked
(explanation/architecture.md#deciding-and-doing).
"""

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gantry import errors
from gantry.ipam import embedded
from gantry.model import base as entities
from gantry.model import cluster, fields, job
from gantry.model import instance as instances
from gantry.operations import base, fill
from gantry.operations.disk_planning import disk_spec
from gantry.operations.query import cells, export, filters, group, instance, lookup, network, node, port, segmentrange
from gantry.operations.query import job as jobs
from gantry.rpc import calls
from gantry.state import kinds
from gantry.state import snapshot as states

T = TypeVar("T")
LockRow = tuple[str, str | None, list[str] | None, list[tuple[str, list[str]]], list[tuple[str, list[tuple[str, str]]]]]
"""Name, mode, owners, who is in line: mode and owners, and who is kept waiting: for whom, and why."""

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
    "waits": lambda _, row: [list(entry) for entry in row[4]],
}

GETTERS: dict[str, Mapping[str, Callable[..., cells.Cell]]] = {
    "node": {**_COMMON, **node.GETTERS},
    "instance": {**_COMMON, **instance.GETTERS},
    "group": {**_COMMON, **group.GETTERS},
    "network": {**_COMMON, **network.GETTERS},
    "port": port.PORT,
    "subnet": port.SUBNET,
    "subnetpool": port.SUBNET_POOL,
    "segmentrange": {**_COMMON, **segmentrange.GETTERS},
    "job": jobs.GETTERS,
    "lock": _LOCK,
    "export": export.GETTERS,
}

_NORMAL = int(fields.ResultStatus.NORMAL)
_UNKNOWN = (int(fields.ResultStatus.UNKNOWN), None)

COLLECTIONS = {
    "node": "nodes",
    "instance": "instances",
    "group": "nodegroups",
    "network": "networks",
    "segmentrange": "segmentranges",
    "subnetpool": "subnetpools",
}
_UNNAMED = {"lock", "port", "subnet"}
"""Resources that nobody asks for by name."""

NAME_FIELDS = {"job": "id", "export": "node"}
ORDERS: dict[str, Callable[[object], tuple[object, ...]]] = {"segmentrange": segmentrange.order}
"""The order of what is not sorted by name."""


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


@dataclass(frozen=True)
class _Chosen:
    """The objects that a query is about, and what their cells are made with."""

    fields: list[fields.Field]
    known: Mapping[str, Callable[..., cells.Cell]]
    sight: cells.Context
    objects: Sequence[object]


def context(source: Source, live: cells.Live = cells.NOTHING_LIVE) -> cells.Context:
    """Return what getters see of the newest state."""
    return cells.Context(source.snapshot(), source.ledger, live)


async def query(source: Source, what: str, names: Sequence[str], *, filter_: object = None) -> Result:
    """Answer a query (contracts/query.md#filters); raises InvalidError, FilterError, NotFoundError."""
    chosen = await _choose(source, what, names, filter_=filter_)
    getters = [chosen.known.get(fields.canonical(field.name)) for field in chosen.fields]
    rows = [[_cell(getter, chosen.sight, one) for getter in getters] for one in chosen.objects]
    return Result(chosen.fields, rows)


async def _choose(source: Source, what: str, names: Sequence[str], *, filter_: object) -> _Chosen:
    known = _getters(what)
    predicate = filters.compile_filter(filter_)
    shown = fields.lookup(what, names)
    looked_at = fields.lookup(what, sorted(filters.fields_of(filter_)))
    unknown = [field.name for field in looked_at if field.kind is fields.Kind.UNKNOWN]
    if unknown:
        raise errors.InvalidError(f"filter looks at unknown fields of {what}: {', '.join(unknown)}")
    state = source.snapshot()
    wanted = filters.names_of(filter_, NAME_FIELDS.get(what, "name")) if what not in _UNNAMED else None
    uuids = filters.names_of(filter_, "uuid") if lookup.has_uuids(what) else None
    objects = (
        await export.objects(source.nodes, state, wanted)
        if what == "export"
        else lookup.by_uuid(state, what, uuids)
        if uuids
        else _objects(source, state, what, wanted=wanted, filter_=filter_)
    )
    if what == "job" and wanted is None and any(field.name == "archived" for field in (*shown, *looked_at)):
        objects = [*_archived(source), *objects]
    live = cells.NOTHING_LIVE
    if what != "export" and any(field.live for field in (*shown, *looked_at)):
        live = await _ask(source, state, what, objects)
        if any(field.name == "console" for field in (*shown, *looked_at)):
            live = replace(live, consoles=await _consoles(source, state, live, objects))
    sight = cells.Context(state, source.ledger, live)
    if not wanted and not uuids and filter_ is not None:
        objects = [one for one in objects if predicate(_row(known, sight, one))]
    return _Chosen(shown, known, sight, objects)


def query_fields(what: str, names: Sequence[str] | None) -> list[fields.Field]:
    """Describe the fields of a resource, all or those named."""
    _getters(what)
    return fields.lookup(what, names) if names is not None else list(fields.REGISTRY[what].values())


async def table(source: Source, what: str, names: Sequence[str | int], columns: Sequence[str]) -> list[list[object]]:
    """Answer the older form of a query: plain values, None where there is none, an unknown field refused."""
    getters = _known(what, columns)
    name_field = NAME_FIELDS.get(what, "name")
    filter_ = ["|", *(["=", name_field, name] for name in names)] if names else None
    chosen = await _choose(source, what, columns, filter_=filter_)
    return _values(getters, chosen.sight, chosen.objects)


def jobs_by_number(source: Source, numbers: Sequence[int], columns: Sequence[str]) -> list[list[object] | None]:
    """Return what ``table`` does for jobs, but None for one that does not exist."""
    getters, sight = _known("job", columns), context(source)
    found = {number: one for number in numbers if (one := _job(source, number))}
    rows = dict(zip(found, _values(getters, sight, found.values()), strict=True))
    return [rows.get(number) for number in numbers]


def _known(what: str, columns: Sequence[str]) -> Sequence[Callable[..., cells.Cell]]:
    """Return the getters of columns, all of which must be known."""
    unknown = [field.name for field in fields.lookup(what, columns) if field.kind is fields.Kind.UNKNOWN]
    if unknown:
        raise errors.InvalidError(f"unknown output fields of {what}: {', '.join(unknown)}")
    known = _getters(what)
    return [known[fields.canonical(name)] for name in columns]


def _values(
    getters: Sequence[Callable[..., cells.Cell]], sight: cells.Context, objects: Collection[object]
) -> list[list[object]]:
    """Return rows of plain values; made column by column, which takes half the time where there are many rows."""
    missing = cells.Missing
    columns = [
        [None if isinstance(cell := getter(sight, one), missing) else cell for one in objects] for getter in getters
    ]
    return list(map(list, zip(*columns, strict=True))) if columns else [[] for _ in objects]


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


def _objects(
    source: Source, state: states.Snapshot, what: str, *, wanted: list[str | int] | None, filter_: object
) -> Sequence[object]:
    if what == "lock":
        return sorted(source.locks(), key=lambda row: row[0])
    if what == "job":
        return _jobs(source, wanted)
    found = lookup.narrowed(state, what, filter_) if wanted is None else None
    if found is not None:
        return found
    if what == "port":
        return lookup.every_port(state)
    if what == "subnet":
        return lookup.every_subnet(state)
    kind = COLLECTIONS[what]
    if wanted is not None:
        return [one for name in wanted for one in _named(state, kind, str(name))]
    return sorted(state.collection(kind).values(), key=ORDERS.get(what, _nice_name))


def _named(state: states.Snapshot, kind: str, name: str) -> Sequence[states.Stored]:
    """Return what has a name: one object, or any number where names need not be unique; NotFoundError."""
    known = state.collection(kind)
    if not kinds.KINDS[kind].unique_names and name not in known:
        return [one for one in known.values() if isinstance(one, entities.Entity) and one.name == name] or [
            known[state.resolve(kind, name)]
        ]
    return [known[state.resolve(kind, name)]]


def _jobs(source: Source, wanted: list[str | int] | None) -> list[object]:
    live = source.jobs()
    if wanted is None:
        return [live[number] for number in sorted(live)]
    found = []
    for name in wanted:
        one = _job(source, int(name) if str(name).isdecimal() else 0)
        if one is None:
            raise errors.NotFoundError(f"no such job: {name}", hint="gnt-job list shows those there are")
        found.append(one)
    return list(found)


def _job(source: Source, number: int) -> job.Job | None:
    return source.jobs().get(number) or source.archived_job(number)


def _archived(source: Source) -> list[job.Job]:
    """Return the jobs of the archive, which only the field ``archived`` makes anybody read."""
    numbers = set(source.archived_numbers()) - source.jobs().keys()
    found = [source.archived_job(number) for number in sorted(numbers)]
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
        ask = calls.NodeInfo(storage=disk_spec.cluster_units(state))
        answers = await source.nodes.fan_out([state.target(one) for one in some], ask)
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


async def _consoles(
    source: Source, state: states.Snapshot, live: cells.Live, objects: Sequence[object]
) -> dict[str, calls.Console]:
    """Ask the node of each instance that runs at home for its console."""
    vms = [one for one in objects if isinstance(one, instances.Instance) and one.name in live.running]
    home = [vm for vm in vms if live.running[vm.name][0] == vm.primary_node]
    lists = await asyncio.gather(
        *(
            source.nodes.fan_out(
                [state.target(state.nodes[vm.primary_node])], calls.InstanceConsole(instance=fill.fill(state, vm))
            )
            for vm in home
        )
    )
    return {vm.name: answer.value for vm, (answer,) in zip(home, lists, strict=True) if answer.value}


def _is_at_home(state: states.Snapshot, name: str, node_uuid: str) -> bool:
    uuid = state.names.get(("instances", name))
    return uuid is not None and state.instances[uuid].primary_node == node_uuid

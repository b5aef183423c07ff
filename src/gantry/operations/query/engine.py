"""Answer queries: select the rows, ask nodes if a field needs it, filter, and create the cells.

Called by the front ends. A ``Source`` provides what a query may read: the acknowledged state, the queue's jobs (whose
logs are ahead of it), the locks, the nodes, and the ledger, whose free and used numbers are ahead of it too. Nothing is
locked (explanation/architecture.md#deciding-and-doing).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gantry import errors
from gantry.ipam import embedded
from gantry.model import base as entities
from gantry.model import cluster, fields, job
from gantry.model import instance as instances
from gantry.operations import base, fill, guest_lists, stray_guests
from gantry.operations.disk_planning import disk_spec
from gantry.operations.query import (
    access,
    cells,
    endings,
    export,
    filters,
    group,
    instance,
    lock,
    lookup,
    network,
    node,
    port,
    segmentrange,
    token,
    webhook,
)
from gantry.operations.query import job as jobs
from gantry.rpc import calls
from gantry.state.objects import kinds
from gantry.state.objects import snapshot as states

T = TypeVar("T")

_COMMON: dict[str, cells.Getter[entities.Entity]] = {
    "ctime": lambda _, entity: entity.ctime,
    "mtime": lambda _, entity: entity.mtime,
    "uuid": lambda _, entity: entity.uuid,
    "serial_no": lambda _, entity: entity.serial_no,
    "tags": lambda _, entity: list(entity.tags),
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
    "access": access.GETTERS,
    "token": token.GETTERS,
    "webhook": webhook.GETTERS,
    "job": jobs.GETTERS,
    "lock": lock.GETTERS,
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
    "access": "accessrules",
    "token": "apitokens",
    "webhook": "webhooks",
}
_UNNAMED = {"access", "lock", "port", "subnet"}
"""Resources that are not requested by name."""

NAME_FIELDS = {"job": "id", "export": "node"}
ORDERS: dict[str, Callable[[object], tuple[object, ...]]] = {
    "segmentrange": segmentrange.order,
    "access": access.order,
}
"""The order of resources that are not sorted by name."""


@dataclass(frozen=True)
class Source:
    """What queries read.

    ``journal_begin`` returns the serial of the first change that the journal keeps.

    Of a reader who does not see everything, the parts have what is visible. ``whole_nodes`` are then the UUIDs of the
    nodes that may be asked about all that they have, and ``veil`` removes invisible names from the texts of a job.
    """

    snapshot: Callable[[], states.Snapshot]
    ledger: embedded.Ledger
    nodes: base.Nodes
    jobs: Callable[[], Mapping[int, job.Job]]
    archived_job: Callable[[int], job.Job | None]
    archived_numbers: Callable[[], Iterable[int]]
    locks: Callable[[], Iterable[lock.Row]]
    journal_begin: Callable[[], Awaitable[int]]
    whole_nodes: Collection[str] | None = None
    veil: Callable[[job.Job], job.Job] = cells.unveiled


@dataclass(frozen=True)
class Result:
    """Field descriptions, and a row of ``(status, value)`` for each object."""

    fields: list[fields.Field]
    rows: list[list[tuple[int, object]]]


@dataclass(frozen=True)
class _Chosen:
    """The objects of a query, and what their cells are created from."""

    fields: list[fields.Field]
    known: Mapping[str, Callable[..., cells.Cell]]
    sight: cells.Context
    objects: Sequence[object]


def context(source: Source, live: cells.Live = cells.NOTHING_LIVE) -> cells.Context:
    """Return what getters read, for the current state."""
    return cells.Context(source.snapshot(), source.ledger, live, source.veil)


async def query(source: Source, what: str, names: Sequence[str], *, filter_: object = None) -> Result:
    """Answer a query (contracts/query.md#filters); raises InvalidError, FilterError, NotFoundError."""
    chosen = await _choose(source, what, names, filter_=filter_)
    getters = [chosen.known.get(fields.canonical(field.name)) for field in chosen.fields]
    rows = [[_cell(getter, chosen.sight, entity) for getter in getters] for entity in chosen.objects]
    return Result(chosen.fields, rows)


async def _choose(source: Source, what: str, names: Sequence[str], *, filter_: object) -> _Chosen:
    known = _getters(what)
    predicate = filters.compile_filter(filter_)
    selected = fields.lookup(what, names)
    filtered_by = fields.lookup(what, sorted(filters.fields_of(filter_)))
    unknown = [field.name for field in filtered_by if field.kind is fields.Kind.UNKNOWN]
    if unknown:
        hint = fields.nearest(what, unknown[0])
        raise errors.InvalidError(f"filter uses unknown fields of {what}: {', '.join(unknown)}", hint=hint)
    state = source.snapshot()
    names_in_filter = filters.names_of(filter_, NAME_FIELDS.get(what, "name")) if what not in _UNNAMED else None
    uuids = filters.names_of(filter_, "uuid") if lookup.has_uuids(what) else None
    if not names_in_filter:
        filters.check(filter_, {field.name: field for field in filtered_by})
    objects = (
        # An export belongs to no instance, so who does not see everything sees none.
        (await export.objects(source.nodes, state, names_in_filter) if source.whole_nodes is None else [])
        if what == "export"
        else lookup.by_uuid(state, what, uuids)
        if uuids
        else _objects(source, state, what, names=names_in_filter, filter_=filter_)
    )
    if (
        what == "job"
        and names_in_filter is None
        and any(field.name == "archived" for field in (*selected, *filtered_by))
    ):
        objects = [*_archived(source), *objects]
    live = cells.NOTHING_LIVE
    if objects and what != "export" and any(field.live for field in (*selected, *filtered_by)):
        columns = {field.name for field in (*selected, *filtered_by)}
        live = await _ask(source, state, what, objects, storage=not columns.isdisjoint(node.STORAGE))
        if what == "node" and not columns.isdisjoint(node.GUESTS):
            live = await _with_strays(source, state, live, objects)
        if any(field.name == "console" for field in (*selected, *filtered_by)):
            live = replace(live, consoles=await _consoles(source, state, live, objects))
    if what == "webhook" and any(field.name == "pruned" for field in (*selected, *filtered_by)):
        live = replace(live, journal_begin=await source.journal_begin())
    sight = cells.Context(state, source.ledger, live, source.veil)
    if not names_in_filter and not uuids and filter_ is not None:
        objects = [entity for entity in objects if predicate(_row(known, sight, entity))]
    return _Chosen(selected, known, sight, objects)


def query_fields(what: str, names: Sequence[str] | None) -> list[fields.Field]:
    """Describe the fields of a resource, all or the named ones."""
    _getters(what)
    return fields.lookup(what, names) if names is not None else list(fields.REGISTRY[what].values())


async def table(source: Source, what: str, names: Sequence[str | int], columns: Sequence[str]) -> list[list[object]]:
    """Answer the older form of a query: plain values, None for a missing value; unknown fields are refused."""
    getters = _known(what, columns)
    name_field = NAME_FIELDS.get(what, "name")
    filter_ = ["|", *(["=", name_field, name] for name in names)] if names else None
    chosen = await _choose(source, what, columns, filter_=filter_)
    return _values(getters, chosen.sight, chosen.objects)


def jobs_by_number(source: Source, numbers: Sequence[int], columns: Sequence[str]) -> list[list[object] | None]:
    """Return what ``table`` returns for jobs, but None for a job that does not exist."""
    getters, sight = _known("job", columns), context(source)
    known_jobs = {number: entry for number in numbers if (entry := _job(source, number))}
    rows = dict(zip(known_jobs, _values(getters, sight, known_jobs.values()), strict=True))
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
    """Return rows of plain values; created column by column, which halves the time for many rows."""
    missing = cells.Missing
    columns = [
        [None if isinstance(cell := getter(sight, entity), missing) else cell for entity in objects]
        for getter in getters
    ]
    return list(map(list, zip(*columns, strict=True))) if columns else [[] for _ in objects]


def _getters(what: str) -> Mapping[str, Callable[..., cells.Cell]]:
    if what not in GETTERS:
        raise errors.InvalidError(f"no such resource to query: {what}", hint=f"resources: {', '.join(sorted(GETTERS))}")
    return GETTERS[what]


def _row(known: Mapping[str, Callable[..., cells.Cell]], context: cells.Context, entity: object) -> filters.Lookup:
    return lambda name: known[fields.canonical(name)](context, entity)


def _cell(getter: Callable[..., cells.Cell] | None, context: cells.Context, entity: object) -> tuple[int, object]:
    if getter is None:
        return _UNKNOWN
    cell = getter(context, entity)
    if isinstance(cell, cells.Missing):
        return int(cell.value), None
    return _NORMAL, cell


def _objects(
    source: Source, state: states.Snapshot, what: str, *, names: list[str | int] | None, filter_: object
) -> Sequence[object]:
    if what == "lock":
        return sorted(source.locks(), key=lambda row: row[0])
    if what == "job":
        return _jobs(source, names)
    indexed = lookup.narrowed(state, what, filter_) if names is None else None
    if indexed is not None:
        order = _INDEXED_ORDERS.get(what)
        return sorted(indexed, key=order) if order else indexed
    if what == "port":
        return lookup.every_port(state)
    if what == "subnet":
        return lookup.every_subnet(state)
    kind = COLLECTIONS[what]
    if names is not None:
        return [entity for name in names for entity in _named(state, kind, str(name))]
    return sorted(state.collection(kind).values(), key=ORDERS.get(what, _nice_name))


def _named(state: states.Snapshot, kind: str, name: str) -> Sequence[states.Stored]:
    """Return the objects with a name: one, or several if names need not be unique; raises NotFoundError."""
    known = state.collection(kind)
    if not kinds.KINDS[kind].unique_names and name not in known:
        return [entity for entity in known.values() if isinstance(entity, entities.Entity) and entity.name == name] or [
            known[state.resolve(kind, name)]
        ]
    return [known[state.resolve(kind, name)]]


def _jobs(source: Source, names: list[str | int] | None) -> list[object]:
    live = source.jobs()
    if names is None:
        return [live[number] for number in sorted(live)]
    requested_jobs = []
    for name in names:
        entry = _job(source, int(name) if str(name).isdecimal() else 0)
        if entry is None:
            raise errors.NotFoundError(f"no such job: {name}", hint="gnt-job list shows the jobs")
        requested_jobs.append(entry)
    return list(requested_jobs)


def _job(source: Source, number: int) -> job.Job | None:
    return source.jobs().get(number) or source.archived_job(number)


def _archived(source: Source) -> list[job.Job]:
    """Return the jobs of the archive, which is only read for the field ``archived``."""
    numbers = set(source.archived_numbers()) - source.jobs().keys()
    archived_jobs = [source.archived_job(number) for number in sorted(numbers)]
    return [entry for entry in archived_jobs if entry is not None]


def _nice_name(entity: object) -> tuple[list[tuple[int, int, str]], str]:
    """Return the sort key of the natural order: ``node2`` before ``node10``; ties are sorted by the name itself."""
    name = entity.name if isinstance(entity, entities.Entity) else ""
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]
    return parts, name


_INDEXED_ORDERS: dict[str, Callable[[object], tuple[object, ...]]] = {
    "instance": _nice_name,
    "token": _nice_name,
    "access": access.order,
}
"""The order of resources that an index returns in any order, and several at a time."""


async def _ask(
    source: Source, state: states.Snapshot, what: str, objects: Sequence[object], *, storage: bool
) -> cells.Live:
    """Ask the nodes of the rows for the values of live fields.

    Nodes examine their storage only if a field needs it, so that a slow disk does not make a node look silent.
    """
    if what == "node":
        nodes = [entity for entity in objects if isinstance(entity, cluster.Node)]
        whole = state.nodes if source.whole_nodes is None else source.whole_nodes
        queried = [entity for entity in nodes if entity.vm_capable and entity.uuid in whole]
        ask = calls.NodeInfo(storage=disk_spec.cluster_units(state) if storage else ())
        answers = await source.nodes.fan_out([state.target(entity) for entity in queried], ask)
        unasked = frozenset(entity.uuid for entity in nodes if entity.uuid not in whole)
        return cells.Live(nodes={answer.target.uuid: answer for answer in answers}, unasked=unasked)
    nodes = sorted(state.nodes.values(), key=_nice_name)
    nodes_with_instances = [entity for entity in nodes if entity.vm_capable and entity.uuid in state.on_node]
    vms = [entity for entity in objects if isinstance(entity, instances.Instance)]
    lists = await source.nodes.fan_out(
        [state.target(entity) for entity in nodes_with_instances], guest_lists.ask(state, vms)
    )
    # If an instance runs on two nodes, the wrong node is displayed.
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
    return cells.Live(running=running, silent=silent, switched_off=await _switched_off(source, state, vms, running))


async def _switched_off(
    source: Source, state: states.Snapshot, vms: Sequence[instances.Instance], running: Collection[str]
) -> frozenset[str]:
    """Return the UUIDs of those of the instances that were switched off from inside."""
    return await endings.find(source.nodes, state, [vm for vm in vms if vm.name not in running])


async def _with_strays(
    source: Source, state: states.Snapshot, live: cells.Live, objects: Sequence[object]
) -> cells.Live:
    """Ask the nodes of the rows for their guests."""
    if source.whole_nodes is not None:  # a guest that the reader does not see would count as stray
        return replace(live, silent=dict.fromkeys(state.nodes, cells.Missing.NO_DATA))
    nodes = [state.target(entity) for entity in objects if isinstance(entity, cluster.Node) and entity.vm_capable]
    answers = await source.nodes.fan_out(nodes, guest_lists.ask(state))
    silent = {answer.target.uuid: cells.Missing.NO_DATA for answer in answers if answer.value is None}
    return replace(live, silent=silent, strays=stray_guests.find(state, answers))


async def _consoles(
    source: Source, state: states.Snapshot, live: cells.Live, objects: Sequence[object]
) -> dict[str, calls.Console]:
    """Ask the primary node of each instance that runs there for its console."""
    vms = [entity for entity in objects if isinstance(entity, instances.Instance) and entity.name in live.running]
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

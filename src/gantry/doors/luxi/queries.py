"""The query methods of LUXI: they change nothing, take no locks, make no jobs (contracts/luxi.md#methods)."""

import asyncio
import math
from collections.abc import Sequence
from typing import Annotated

import msgspec

from gantry import errors
from gantry.address import ranges
from gantry.doors.luxi import addresses, consoles, figures, invitations, packages, reading, tokens, usage, webhooks
from gantry.doors.luxi.services import SUBJECT, WAIT_LIMIT, Method, Methods, Moment, Seconds, Services
from gantry.model import fields, opcodes
from gantry.operations.access import check, explain, views
from gantry.operations.query import cluster, engine, similar
from gantry.state.files import export
from gantry.state.journal import owners
from gantry.state.store import audit, events

EVENT_LIMIT = 1000
"""The maximum number of events in an answer to WaitForEvents."""

ROW_LIMIT = 1_000_000
"""The maximum number of rows of a history that a request may ask for."""


async def _query_jobs(services: Services, numbers: Sequence[int] | None, names: Sequence[str]) -> object:
    """Return a row for each number; a row of nulls if the job does not exist (contracts/luxi.md#methods)."""
    if not numbers:
        return await engine.table(services.source, "job", (), names)
    rows = engine.jobs_by_number(services.source, numbers, names)
    return [
        [number if name == "id" else None for name in names] if row is None else row
        for number, row in zip(numbers, rows, strict=True)
    ]


async def _query(services: Services, what: str, names: Sequence[str], filter_: object) -> dict[str, object]:
    if what == "token":
        filter_ = tokens.visible(services, filter_)
    if what == "webhook":
        webhooks.check_listing(services)
    result = await engine.query(services.source, what, names, filter_=filter_)
    return {"fields": [_definition(field) for field in result.fields], "data": result.rows}


def _definition(field: fields.Field) -> dict[str, str]:
    return {"name": field.name, "title": field.title, "kind": field.kind.value, "doc": field.doc}


async def _query_fields(services: Services, what: str, names: Sequence[str] | None) -> dict[str, object]:
    del services
    return {"fields": [_definition(field) for field in engine.query_fields(what, names)]}


def _classic(what: str) -> Method:
    """Return the method for the older form of a query, for one kind of object."""

    async def method(services: Services, names: Sequence[str], columns: Sequence[str], locking: bool) -> object:
        _check_unlocked(locking)
        return await engine.table(services.source, what, names, columns)

    return method


def _check_unlocked(locking: bool) -> None:
    if locking:
        raise errors.InvalidError("Sync queries are not allowed")


async def _query_exports(services: Services, names: Sequence[str], locking: bool) -> list[list[object]]:
    """Return the exports on all or the named nodes; a node that does not answer has one row, without an export."""
    _check_unlocked(locking)
    return await engine.table(services.source, "export", names, ["node", "export"])


async def _config_values(services: Services, names: Sequence[str]) -> list[object]:
    known = {**cluster.values(services.snapshot()), "drain_flag": services.snapshot().the_cluster.queue_drained}
    return [known.get(name) for name in names]


async def _cluster_info(services: Services) -> dict[str, object]:
    is_part = services.view() is not None
    return cluster.info(services.snapshot(), file_storage_dir=services.folders.file_storage, is_part=is_part)


async def _query_tags(services: Services, kind: str, name: str) -> Sequence[str]:
    state = services.snapshot()
    if kind == "cluster":
        return state.the_cluster.tags
    find = {"node": state.node, "instance": state.instance, "network": state.network, "nodegroup": state.group}
    if kind not in find:
        raise errors.InvalidError(f"no such kind of object with tags: {kind}", hint=f"the kinds are {', '.join(find)}")
    return find[kind](name).tags


async def _query_similar_names(services: Services, what: str, name: str) -> list[str]:
    """Return the names of objects that a user may have meant by a name that no object has (not in Ganeti)."""
    return similar.names(services.snapshot(), what, name)


async def _read_opcode(services: Services, op: dict[str, object]) -> list[object]:
    """Return result and warnings of an opcode that only reads, without a job (not in Ganeti)."""
    decoded, view = opcodes.decode(op), services.view()
    if view is None:
        return list(await services.reads.read(decoded))
    reading.check_readable(decoded)
    return list(await services.reads.read(decoded, part=view.state))


async def _query_network_history(
    services: Services, name: str, address: str | None, moment: float | None, limit: int
) -> dict[str, object]:
    """Return the past owners of a network's addresses (not in Ganeti; ``state.journal.owners`` defines the answer)."""
    _check_limit(limit)
    view = services.view()
    if view is None:
        past = await services.history.addresses(name, address=address or "", moment=moment, limit=limit)
        return {"since": past.since, "network": past.net, "rows": [_holding(holding) for holding in past.holdings]}
    # The past of a removed network, or of one with another name, is nobody's who does not see everything.
    uuid, ip = view.state.network(name).uuid, str(ranges.parse_address(address)) if address else ""
    past = await services.history.everywhere(
        lambda owner, use: use.network == uuid and ip in ("", use.ip) and reading.sees_allocation(view, owner, use),
        shows=lambda _: False,
        needles=(msgspec.json.encode(ip),) if ip else (),
        moment=moment,
        limit=limit,
    )
    return {"since": past.since, "network": None, "rows": [_visible_holding(view, each) for each in past.holdings]}


def _visible_holding(view: views.View, holding: owners.Holding) -> dict[str, object]:
    causes = {name: reading.visible_cause(view, getattr(holding, name)) for name in ("given", "freed")}
    return _holding(msgspec.structs.replace(holding, **causes))


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= ROW_LIMIT:
        raise errors.InvalidError(f"a limit of {limit} rows is not between 1 and {ROW_LIMIT}")


def _holding(holding: owners.Holding) -> dict[str, object]:
    return {
        "address": holding.address,
        "instance": holding.instance if holding.noun == "instance" else f"{holding.noun} {holding.instance}",
        "kind": holding.noun,
        "from": holding.start,
        "to": holding.end,
        "job": holding.given.job or None,
        "opcode": holding.given.opcode,
        "user": holding.given.user,
        "reason": holding.given.reason,
        "end_job": holding.freed.job or None,
        "end_opcode": holding.freed.opcode,
        "end_user": holding.freed.user,
        "end_reason": holding.freed.reason,
        "instance_uuid": holding.uuid,
        "network_uuid": holding.network,
    }


async def _query_history(
    services: Services, kind: str | None, name: str | None, serial: int | None, moment: float | None, limit: int
) -> dict[str, object]:
    """Return the last events of an object, of a kind or of all kinds (not in Ganeti; ``state.store.events``).

    ``since`` are serial and time of the first record that is kept.
    """
    _check_limit(limit)
    if kind and kind not in events.KINDS:
        raise errors.InvalidError(f"no such kind of object: {kind}", hint=f"the kinds are {', '.join(events.KINDS)}")
    view = services.view()
    question = events.Question(kind=kind or "", name=name or "", serial=serial or 0, time=moment or 0.0)
    if view is not None:
        question = reading.VisibleQuestion(question.kind, question.name, question.serial, question.time, view)
    past_events = await services.events.past(question, limit=limit)
    if view is not None:
        past_events = [*reading.visible_events(view, past_events)]
    return {"events": past_events, "serial": services.events.serial, "since": await services.events.start()}


class _AuditQuestion(msgspec.Struct, forbid_unknown_fields=True):
    """What an audit is asked for: the last entries of a user, about an object by name or UUID, between two times."""

    user: str = ""
    object: str = ""
    since: Moment | None = None
    until: Moment | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=audit.ENTRY_LIMIT)] = 100


async def _query_audit(services: Services, request: _AuditQuestion) -> audit.Answer:
    """Return who did what, and what it changed; for administrators of the cluster (not in Ganeti)."""
    check.check_administrator(services.snapshot(), SUBJECT.get(), "read the audit")
    question = audit.Question(
        user=request.user,
        objects=audit.names(services.snapshot(), request.object) if request.object else frozenset(),
        since=request.since or 0.0,
        until=math.inf if request.until is None else request.until,
    )
    return await services.audit.entries(question, limit=request.limit)


async def _wait_for_events(services: Services, after: int, limit: int, timeout: float) -> dict[str, object]:
    """Return events after a serial; none if none happened before the timeout (not in Ganeti)."""
    _check_limit(limit)
    limit, timeout = min(limit, EVENT_LIMIT), min(timeout, WAIT_LIMIT)
    if services.view() is not None:
        return await _wait_for_visible_events(services, after, limit, timeout)
    new_events = await services.events.after(after, limit=limit, timeout=timeout)
    return {"events": new_events, "serial": services.events.serial}


async def _wait_for_visible_events(services: Services, after: int, limit: int, timeout: float) -> dict[str, object]:
    """Return the visible events after a serial, and the serial up to which there are no others.

    ``mark`` is the same in two answers if the same objects are visible.
    """
    end = asyncio.get_running_loop().time() + timeout
    while True:
        remaining = max(0.0, end - asyncio.get_running_loop().time())
        new_events = await services.events.after(after, limit=EVENT_LIMIT, timeout=remaining)
        view = services.view()
        visible = new_events if view is None else [*reading.visible_events(view, new_events)]
        after = new_events[-1].serial if new_events else services.events.serial
        if visible or not new_events:
            cut = visible[:limit]
            serial = cut[-1].serial if len(visible) > limit else after
            return {"events": cut, "serial": serial, **({"mark": view.mark} if view else {})}


async def _export(services: Services) -> dict[str, object]:
    return export.configuration(services.snapshot())


async def _explain_access(services: Services, names: Sequence[str], on: str) -> list[explain.Explained]:
    """Return what the rules of a user and the user's groups allow with an object, and by which rule (not in Ganeti)."""
    if services.view() is not None and not {*names} <= {*SUBJECT.get().names}:
        raise errors.ForbiddenError(
            "the rules of other users and groups can be explained only to who sees the whole cluster",
            hint="ask about your own user and groups",
        )
    return explain.explain(services.snapshot(), names, on)


async def _query_own_access(services: Services) -> dict[str, object]:
    """Return the user who asks, whether that is an administrator, and the user's rules (not in Ganeti)."""
    subject = SUBJECT.get()
    return {
        "user": subject.user,
        "is_admin": subject.is_admin,
        "sees_all": services.view() is None,
        "rules": explain.rules_of(services.snapshot(), subject.names),
    }


METHODS: Methods = {
    "ExplainAccess": (
        tuple[Annotated[list[Annotated[str, msgspec.Meta(pattern=opcodes.WHO)]], msgspec.Meta(min_length=1)], str],
        _explain_access,
    ),
    "QueryOwnAccess": (tuple[()], _query_own_access),
    "QueryJobs": (tuple[list[int] | None, list[str]], _query_jobs),
    "Query": (tuple[str, list[str], object], _query),
    "QueryFields": (tuple[str, list[str] | None], _query_fields),
    "QueryNodes": (tuple[list[str], list[str], bool], _classic("node")),
    "QueryInstances": (tuple[list[str], list[str], bool], _classic("instance")),
    "QueryGroups": (tuple[list[str], list[str], bool], _classic("group")),
    "QueryNetworks": (tuple[list[str], list[str], bool], _classic("network")),
    "QueryExports": (tuple[list[str], bool], _query_exports),
    "QueryConfigValues": (tuple[list[str]], _config_values),
    "QueryClusterInfo": (tuple[()], _cluster_info),
    "QueryTags": (tuple[str, str], _query_tags),
    "QuerySimilarNames": (tuple[str, str], _query_similar_names),
    "ReadOpcode": (tuple[dict[str, object]], _read_opcode),
    "QueryNetworkHistory": (tuple[str, str | None, Moment | None, int], _query_network_history),
    "QueryAddress": (tuple[str, Moment | None, bool, int], addresses.query),
    "QueryHistory": (tuple[str | None, str | None, int | None, Moment | None, int], _query_history),
    "QueryAudit": (tuple[_AuditQuestion], _query_audit),
    "WaitForEvents": (tuple[Annotated[int, msgspec.Meta(ge=0)], int, Seconds], _wait_for_events),
    "ExportConfig": (tuple[()], _export),
    "QueryPackages": (tuple[()], packages.query),
    "QueryMeasures": (tuple[()], figures.query),
    "QueryUsage": (tuple[()], usage.now),
    "QueryUsageHistory": (tuple[str, str, Moment], usage.history),
    "ProveInvitation": (tuple[str, str, str], invitations.prove),
    "ProveToken": (tuple[str, str], tokens.prove),
    "CheckConsole": (tuple[str], consoles.check_for),
}

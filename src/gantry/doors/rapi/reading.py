"""The resources that are answered at once: lists, objects, jobs, queries (contracts/remote-api.md#resources).

All data comes from the master by LUXI queries. A field is null if clients expect it but this cluster does not have it,
or if its node does not answer. The answer for an object includes its serial number, which becomes its ETag.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from gantry import errors
from gantry.doors import http
from gantry.doors.http import representation
from gantry.doors.rapi import changes, routes, wire

_COMMON = ("ctime", "mtime", "uuid", "serial_no", "tags")

FIELDS: dict[str, tuple[str, ...]] = {
    "instance": (
        "name", "admin_state", "os", "pnode", "snodes", "disk_template", "nic.ips", "nic.macs", "nic.modes",
        "nic.uuids", "nic.names", "nic.links", "nic.networks", "nic.networks.names", "nic.bridges", "network_port",
        "disk.sizes", "disk.spindles", "disk_usage", "disk.uuids", "disk.names", "beparams", "hvparams", "oper_state",
        "oper_ram", "oper_vcpus", "status", "custom_hvparams", "custom_beparams", "custom_nicparams", "custom_osparams",
        *_COMMON,
    ),
    "node": (
        "name", "offline", "master_candidate", "drained", "dtotal", "dfree", "sptotal", "spfree", "mtotal", "mnode",
        "mfree", "pinst_cnt", "sinst_cnt", "ctotal", "cnos", "cnodes", "csockets", "pip", "sip", "role", "pinst_list",
        "sinst_list", "master_capable", "vm_capable", "ndparams", "group.uuid", *_COMMON,
    ),
    "network": (
        "name", "network", "gateway", "network6", "gateway6", "subnets", "mac_prefix", "free_count", "reserved_count",
        "map", "group_list", "inst_list", "external_reservations", *_COMMON,
    ),
    "group": (
        "alloc_policy", "name", "node_cnt", "node_list", "ipolicy", "custom_ipolicy", "diskparams", "custom_diskparams",
        "ndparams", "custom_ndparams", *_COMMON,
    ),
}  # fmt: skip
"""The returned fields of each kind of object.

See contracts/remote-api.md#returned-fields; ``subnets`` is not in Ganeti.
"""

_PLURALS = {"instance": "instances", "node": "nodes", "network": "networks", "group": "groups"}
_KEYS = {"instance": "id", "node": "id", "network": "name", "group": "name"}
_JOB_FIELDS = ("id", "ops", "status", "summary", "opstatus", "received_ts", "start_ts", "end_ts")
_ROLES = {"M": "master", "C": "master-candidate", "R": "regular", "D": "drained", "O": "offline"}

ADDRESS_ROWS = 1000
"""Rows of an answer about addresses, unless the request sets a limit."""

EVENTS = 100
"""Events of an answer about the past, unless the request sets a limit."""

FEATURES = ("instance-create-reqv1", "instance-reinstall-reqv1", "node-migrate-reqv1", "node-evac-res1")
VERSION = 2

Names = Mapping[str, str]


class _Result(msgspec.Struct):
    """The master's answer to a query: a status and a value for each field of each row."""

    data: list[list[tuple[int, object]]]


async def _rows(master: routes.Master, what: str, fields: Sequence[str], name: str = "") -> list[dict[str, object]]:
    """Return objects as dictionaries, all or the object with a name or UUID; missing values are null."""
    filter_ = ["|", ["=", "name", name], ["=", "uuid", name]] if name else None
    result = await master.caller.call(_Result, "Query", what, fields, filter_)
    return [
        {field: value if status == 0 else None for field, (status, value) in zip(fields, row, strict=True)}
        for row in result.data
    ]


async def _object_row(master: routes.Master, what: str, fields: Sequence[str], name: str) -> dict[str, object]:
    rows = await _rows(master, what, fields, name)
    if not rows:
        raise errors.NotFoundError(f"no such {what}: {name}")
    return rows[0]


def _with_older_names(what: str, row: dict[str, object]) -> dict[str, object]:
    """Add fields under the other names that existing clients use."""
    if what == "instance" and isinstance(parameters := row["beparams"], dict):
        row["beparams"] = {**parameters, "memory": parameters.get("maxmem")}
    if what == "node":
        row["secondary_ip"] = row["sip"]
    return row


def _listing(what: str) -> routes.Call:
    plural, key = _PLURALS[what], _KEYS[what]

    async def call(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
        if request.flag("bulk"):
            rows = await _rows(master, what, FIELDS[what])
            return wire.Answer([_with_older_names(what, row) for row in rows])
        object_names = sorted(str(row["name"]) for row in await _rows(master, what, ["name"]))
        return wire.Answer([{key: name, "uri": f"/2/{plural}/{name}"} for name in object_names])

    return call


def _object(what: str) -> routes.Call:
    async def call(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
        row = await _object_row(master, what, FIELDS[what], names["name"])
        return wire.Answer(_with_older_names(what, row), version=row["serial_no"])

    return call


async def check_version(master: routes.Master, request: wire.Request, route: routes.Route, names: Names) -> None:
    """Raise RefusedError 412 if the object of a change has another version than the client expects."""
    known = {plural: what for what, plural in _PLURALS.items()}
    if not names or route.parts[1] not in known:
        raise errors.InvalidError("If-Match requires the path of an instance, node, group or network")
    name = next(iter(names.values()))
    row = await _object_row(master, known[route.parts[1]], ["serial_no"], name)
    if not representation.is_version(row["serial_no"], request.if_match):
        raise http.RefusedError(412, f"{name} has changed: its version is now {row['serial_no']}")


def _tags(kind: str) -> routes.Call:
    async def call(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
        return wire.Answer(await master.caller.call(list[str], "QueryTags", kind, names.get("name", "")))

    return call


def _constant(value: object) -> routes.Call:
    async def call(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
        return wire.Answer(value)

    return call


async def _info(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
    info = await master.caller.call(dict[str, object], "QueryClusterInfo")
    older_names = {"vg_name": info.get("volume_group_name"), "drbd_helper": info.get("drbd_usermode_helper")}
    return wire.Answer({**info, **older_names})


class _System(msgspec.Struct, array_like=True):
    """The master's answer about an operating system."""

    name: str
    valid: bool
    variants: list[str]
    parameters: object
    api_versions: object
    hidden: bool
    blacklisted: bool
    offered: list[str]


async def _systems(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
    fields = _System.__struct_fields__
    result = await master.read({"OP_ID": "OP_OS_DIAGNOSE", "output_fields": fields})
    systems = msgspec.convert(result, list[_System])
    if request.flag("bulk"):
        return wire.Answer([msgspec.structs.asdict(system) for system in systems])
    return wire.Answer([name for system in systems for name in system.offered])


async def _console(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
    return wire.Answer(await master.read({"OP_ID": "OP_INSTANCE_CONSOLE", "instance_name": names["name"]}))


async def _role(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
    row = await _object_row(master, "node", ["role", "serial_no"], names["name"])
    return wire.Answer(_ROLES.get(str(row["role"])), version=row["serial_no"])


async def _jobs(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
    fields = _JOB_FIELDS if request.flag("bulk") else ("id",)
    rows = await master.caller.call(list[list[object]], "QueryJobs", None, fields)
    if request.flag("bulk"):
        return wire.Answer([dict(zip(fields, row, strict=True)) for row in rows])
    return wire.Answer([{"id": row[0], "uri": f"/2/jobs/{row[0]}"} for row in rows])


async def _job(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
    fields = (*_JOB_FIELDS, "oplog", "opresult")
    rows = await master.caller.call(list[list[object]], "QueryJobs", [changes.job_number(names)], fields)
    return wire.Answer(dict(zip(fields, rows[0], strict=True)))


class _WaitBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a wait for a job."""

    fields: list[str]
    previous_job_info: list[object] | None = None
    previous_log_serial: int | None = None


async def _wait(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
    """Wait for a change of a job; null if there was none in the time (contracts/jobs.md#waiting-for-a-change)."""
    body = _convert(request.body, _WaitBody)
    change = await master.caller.call(
        object,
        "WaitForJobChange",
        changes.job_number(names),
        body.fields,
        body.previous_job_info,
        body.previous_log_serial,
        routes.WAIT_SECONDS,
    )
    if not isinstance(change, list):
        return wire.Answer(None)
    return wire.Answer({"job_info": change[0], "log_entries": change[1]})


class _QueryBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a query; ``filter`` is the older name of ``qfilter``."""

    fields: list[str] = []
    qfilter: object = None
    filter: object = None


def _convert(body: object, kind: type[routes.T]) -> routes.T:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise errors.InvalidError(f"the body is not valid: {errors.readable(str(error))}") from None


def _fields(request: wire.Request) -> list[str]:
    return [name for text in request.query.get("fields", ()) for name in text.split(",") if name]


async def _query(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
    body = _convert(request.body, _QueryBody) if request.method == "PUT" and request.body else _QueryBody()
    fields = body.fields or _fields(request)
    if not fields:
        raise errors.InvalidError("the query does not name any fields", hint="add them to the URL: ?fields=name,uuid")
    filter_ = body.filter if body.qfilter is None else body.qfilter
    return wire.Answer(await master.caller.call(object, "Query", names["what"], fields, filter_))


async def _address(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
    """Return who has an address, a MAC address, a CIDR or a name; the query says of which time (not in Ganeti)."""
    moment, limit = _number(request, "at"), _number(request, "limit")
    text = (request.query.get("of") or [""])[-1]
    arguments = text, moment, request.flag("history"), ADDRESS_ROWS if limit is None else int(limit)
    return wire.Answer(await master.caller.call(object, "QueryAddress", *arguments))


def _number(request: wire.Request, name: str) -> float | None:
    text = (request.query.get(name) or [""])[-1]
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise errors.InvalidError(f"the query argument {name} is not a number: {text!r}")
    return number


async def _history(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
    """Return the last events, of a kind of object or of one object (not in Ganeti)."""
    kind, name = ((request.query.get(key) or [""])[-1] or None for key in ("kind", "name"))
    limit = _number(request, "limit")
    arguments = kind, name, None, _number(request, "since"), EVENTS if limit is None else int(limit)
    return wire.Answer(await master.caller.call(object, "QueryHistory", *arguments))


async def _audit(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
    """Return who did what, from where and by which right, and what it changed (not in Ganeti)."""
    texts = {key: (request.query.get(name) or [""])[-1] for key, name in (("user", "who"), ("object", "object"))}
    times = {key: _number(request, key) for key in ("since", "until")}
    limit = _number(request, "limit")
    question = {**texts, **times, "limit": EVENTS if limit is None else int(limit)}
    return wire.Answer(await master.caller.call(object, "QueryAudit", question))


def _usage(kind: str) -> routes.Call:
    """Return the call for what an object of a kind used in the last day (not in Ganeti)."""

    async def call(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
        since = _number(request, "since") or 0.0
        return wire.Answer(await master.caller.call(object, "QueryUsageHistory", kind, names["name"], since))

    return call


async def _query_fields(master: routes.Master, request: wire.Request, names: Names) -> wire.Answer:
    return wire.Answer(await master.caller.call(object, "QueryFields", names["what"], _fields(request) or None))


def _read(
    path: str,
    call: routes.Call,
    text: str,
    *,
    method: str = "GET",
    access: wire.Access = wire.Access.OPEN,
    query: str = "",
) -> routes.Route:
    return routes.Route(method, path, access, call, text, tuple(query.split()))


_READ, _WRITE = wire.Access.READ, wire.Access.WRITE

ROUTES: tuple[routes.Route, ...] = (
    _read("/", _constant(None), "null"),
    _read("/2", _constant(None), "null"),
    _read("/version", _constant(VERSION), "2, the version of this interface"),
    _read("/2/info", _info, "the cluster and its settings"),
    _read("/2/features", _constant(FEATURES), "the optional features of this server"),
    _read("/2/os", _systems, "the operating systems, from all nodes", query="bulk"),
    *(
        route
        for what, plural in _PLURALS.items()
        for route in (
            _read(
                f"/2/{plural}", _listing(what), f"all {plural}: names and paths, or all fields with bulk", query="bulk"
            ),
            _read(f"/2/{plural}/{{name}}", _object(what), f"one {what}"),
        )
    ),
    _read("/2/instances/{name}/console", _console, "how to connect to the console", access=_READ),
    _read("/2/nodes/{name}/role", _role, "master, master-candidate, regular, drained or offline"),
    *(_read(path + "/tags", _tags(kind), "the tags") for path, (kind, _) in changes.TAG_KINDS.items()),
    _read("/2/jobs", _jobs, "the jobs that are not archived", query="bulk"),
    _read("/2/jobs/{job}", _job, "one job; nulls if it does not exist"),
    _read("/2/jobs/{job}/wait", _wait, "the job after a change, or null after ten seconds", access=_WRITE),
    _read(
        "/2/addresses",
        _address,
        "who has an address, in all networks: `of` is an address, a MAC address, a CIDR or a name; `at` a time",
        access=_READ,
        query="of at history limit",
    ),
    _read(
        "/2/history",
        _history,
        "the last events, of all objects, of a `kind` or of a `name` of one; `since` is a time",
        access=_READ,
        query="kind name since limit",
    ),
    _read(
        "/2/audit",
        _audit,
        "who did what, by which right, and what changed; of a user `who`, about an `object`, from `since` to `until`",
        access=_READ,
        query="who object since until limit",
    ),
    *(
        _read(
            f"/2/{kind}s/{{name}}/usage",
            _usage(kind),
            f"what the {kind} used each minute of the last day: processor seconds; bytes of memory, disks and network",
            access=_READ,
            query="since",
        )
        for kind in ("instance", "node")
    ),
    _read("/2/query/{what}", _query, "the fields of all objects of a kind", access=_READ, query="fields"),
    _read("/2/query/{what}", _query, "the same, with a filter", method="PUT", access=_READ, query="fields"),
    _read("/2/query/{what}/fields", _query_fields, "the fields of a kind of object", query="fields"),
)

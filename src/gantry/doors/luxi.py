"""LUXI: the master's own protocol, JSON messages that end in ETX on a UNIX socket (seed "The LUXI protocol").

The permission bits of the socket are all the access control there is. A connection carries any number of requests,
answered in order. A message that cannot be read is answered with what is wrong and ends the connection; one longer
than ``MESSAGE_LIMIT`` is never held in memory whole. The methods and their arguments are in the contract (LUXI
methods); each is one function of the table ``_METHODS``.

Life cycle: the master daemon makes a Door and calls ``open``; ``close`` ends the connections.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from gantry import __version__, errors
from gantry.jobs import queue
from gantry.model import fields, job, opcodes, parameters
from gantry.operations.query import engine
from gantry.runtime import interface, paths
from gantry.state import checkpoint, events, export, history
from gantry.state import snapshot as states

log = logging.getLogger(__name__)

ETX = b"\x03"
MESSAGE_LIMIT = 64 * 1024 * 1024
WAIT_LIMIT = 600.0
"""Longest wait of one WaitForJobChange, in seconds."""

EVENT_LIMIT = 1000
"""The most events of one WaitForEvents."""

ROW_LIMIT = 1_000_000
"""The most rows of the past that one question may ask for."""

PROTOCOL_VERSION = 2_000_000
"""The protocol is that of the 2.0 design, counted as clients do: major * 1000000 + minor * 10000 + revision."""

OS_API_VERSION = 20


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are no JSON of the wanted type, no UTF-8, or nested too deeply."""

Seconds = Annotated[float, msgspec.Meta(ge=0)]


class _Request(msgspec.Struct):
    """What a client sends; other keys are let pass."""

    method: str
    args: msgspec.Raw


@dataclass(frozen=True)
class Services:
    """What the methods work on."""

    queue: queue.Queue
    source: engine.Source
    snapshot: Callable[[], states.Snapshot]
    history: history.History
    events: events.Events
    pause_watcher: Callable[[float | None], Awaitable[None]]


class Door:
    """The listening side of LUXI."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, services: Services) -> None:
        self._runtime = runtime
        self._path = folders.luxi_socket
        self._services = services
        self._server: interface.Server | None = None

    async def open(self) -> None:
        """Listen; the socket is open to root and the daemons' group."""
        network = self._runtime.network
        self._server = await network.serve_unix(self._path, self._serve, mode=0o660, limit=MESSAGE_LIMIT)

    async def close(self) -> None:
        """Stop listening and end the connections."""
        if self._server:
            await self._server.close()

    async def _serve(self, reader: interface.Reader, writer: interface.Writer) -> None:
        """Answer one connection until the client hangs up, in the middle of a message or between two."""
        try:
            while True:
                message = await reader.readuntil(ETX)
                answer, readable = await self._answer(message[:-1])
                writer.write(msgspec.json.encode(answer) + ETX)
                await writer.drain()
                if not readable:
                    break
        except asyncio.LimitOverrunError:
            failure = _failure(errors.ProtocolError(f"message is longer than {MESSAGE_LIMIT} bytes"))
            writer.write(msgspec.json.encode(failure) + ETX)
            await writer.drain()
        except (asyncio.IncompleteReadError, OSError) as error:
            log.debug("client hung up: %s", error)
        finally:
            writer.close()

    async def _answer(self, message: bytes) -> tuple[dict[str, object], bool]:
        """Return the answer to a message, and whether the message was one."""
        try:
            request = msgspec.json.decode(message, type=_Request)
        except _UNREADABLE as error:
            return {"success": False, "result": f"Failed to parse request: {error}"}, False
        try:
            return {"success": True, "result": await self._call(request)}, True
        except errors.GantryError as error:
            return _failure(error), True
        except Exception:
            log.exception("method %s failed", request.method)
            return _failure(errors.InternalError(f"method {request.method} failed", hint="see the master's log")), True

    async def _call(self, request: _Request) -> object:
        if request.method not in _METHODS:
            raise errors.ProtocolError(f"no such method: {request.method}")
        arguments, method = _METHODS[request.method]
        try:
            values = msgspec.json.decode(request.args, type=arguments, strict=False)
        except _UNREADABLE as error:
            raise errors.InvalidError(f"arguments of {request.method} are not valid: {error}") from None
        return await method(self._services, *values)


def _failure(error: errors.GantryError) -> dict[str, object]:
    return {"success": False, "result": error.luxi_pair()}


Ops = Sequence[dict[str, object]]


async def _submit(services: Services, ops: Ops) -> int:
    return await services.queue.submit([opcodes.decode(op) for op in ops])


async def _submit_drained(services: Services, ops: Ops) -> int:
    return await services.queue.submit([opcodes.decode(op) for op in ops], ignore_drain=True)


async def _submit_many(services: Services, many: Sequence[Ops]) -> list[tuple[bool, int | str]]:
    decoded: list[list[opcodes.AnyOpcode]] = []
    faults: dict[int, errors.InvalidError] = {}
    for index, ops in enumerate(many):
        try:
            decoded.append([opcodes.decode(op) for op in ops])
        except errors.InvalidError as error:
            # It keeps its place, which is refused: relative dependencies count the places.
            decoded.append([])
            faults[index] = error
    answers = [faults.get(index, one) for index, one in enumerate(await services.queue.submit_many(decoded))]
    return [(True, one) if isinstance(one, int) else (False, str(one)) for one in answers]


async def _wait_for_change(
    services: Services,
    number: int,
    names: Sequence[str],
    previous: list[object] | None,
    serial: int | None,
    timeout: float,
) -> object:
    """Wait for a change of the named fields, or for a log message (contract: WaitForJobChange)."""
    getters = engine.GETTERS["job"]
    unknown = [name for name in names if name not in getters]
    if unknown:
        raise errors.InvalidError(f"unknown output fields of job: {', '.join(unknown)}")
    context = engine.context(services.source)

    def values(one: job.Job) -> list[object]:
        cells = [getters[name](context, one) for name in names]
        decoded: list[object] = msgspec.json.decode(msgspec.json.encode(cells))
        return decoded

    limit = min(timeout, WAIT_LIMIT)
    change = await services.queue.wait_for_change(number, values, previous=previous, serial=serial, timeout=limit)
    return "nochange" if change is None else change


async def _query_jobs(services: Services, numbers: Sequence[int] | None, names: Sequence[str]) -> object:
    """Return a row for each number; one of nulls for a job that does not exist (contract: LUXI methods)."""
    if not numbers:
        return await engine.table(services.source, "job", (), names)
    rows: list[list[object]] = []
    for number in numbers:
        try:
            rows += await engine.table(services.source, "job", [number], names)
        except errors.NotFoundError:
            rows.append([number if name == "id" else None for name in names])
    return rows


async def _query(services: Services, what: str, names: Sequence[str], filter_: object) -> dict[str, object]:
    result = await engine.query(services.source, what, names, filter_=filter_)
    return {"fields": [_definition(field) for field in result.fields], "data": result.rows}


def _definition(field: fields.Field) -> dict[str, str]:
    return {"name": field.name, "title": field.title, "kind": field.kind.value, "doc": field.doc}


async def _query_fields(services: Services, what: str, names: Sequence[str] | None) -> dict[str, object]:
    del services
    return {"fields": [_definition(field) for field in engine.query_fields(what, names)]}


def _classic(what: str) -> "Method":
    """Return the older form of a query of a resource."""

    async def method(services: Services, names: Sequence[str], columns: Sequence[str], locking: bool) -> object:
        if locking:
            raise errors.InvalidError("Sync queries are not allowed")
        return await engine.table(services.source, what, names, columns)

    return method


async def _config_values(services: Services, names: Sequence[str]) -> list[object]:
    state = services.snapshot()
    master = state.nodes.get(state.the_cluster.master_node)
    known = {
        "cluster_name": state.the_cluster.name,
        "master_node": master.name if master else None,
        "drain_flag": services.queue.drained,
        "watcher_pause": state.the_cluster.watcher_pause,
    }
    return [known.get(name) for name in names]


async def _cluster_info(services: Services) -> dict[str, object]:
    state = services.snapshot()
    owner = state.the_cluster
    master = state.nodes.get(owner.master_node)
    return {
        "software_version": __version__,
        "os_api_version": OS_API_VERSION,
        "vcs_version": "",
        "protocol_version": PROTOCOL_VERSION,
        "config_version": checkpoint.VERSION,
        "export_version": 0,
        "architecture": ["64bit", "x86_64"],
        "name": owner.name,
        "master": master.name if master else None,
        "uuid": owner.uuid,
        "ctime": owner.ctime,
        "mtime": owner.mtime,
        "tags": owner.tags,
        "default_hypervisor": owner.enabled_hypervisors[0],
        "enabled_hypervisors": owner.enabled_hypervisors,
        "hvparams": {
            name: parameters.fill(parameters.HYPERVISORS[name], owner.hvparams.get(name, {}))
            for name in owner.enabled_hypervisors
        },
        "beparams": {"default": parameters.fill(parameters.BACKEND, owner.beparams.get("default", {}))},
        "nicparams": {"default": parameters.fill(parameters.NIC, owner.nicparams.get("default", {}))},
        "ndparams": parameters.fill(parameters.NODE, owner.ndparams),
        "osparams": owner.osparams,
        "candidate_pool_size": owner.candidate_pool_size,
        "max_running_jobs": owner.max_running_jobs,
        "mac_prefix": owner.mac_prefix,
        "master_netdev": owner.master_netdev,
        "enabled_disk_templates": owner.enabled_disk_templates,
        "ipam_hold_time": owner.ipam_hold_time,
        "network_thresholds": owner.network_thresholds,
    }


async def _query_tags(services: Services, kind: str, name: str) -> Sequence[str]:
    state = services.snapshot()
    if kind == "cluster":
        return state.the_cluster.tags
    find = {"node": state.node, "instance": state.instance, "network": state.network, "nodegroup": state.group}
    if kind not in find:
        raise errors.InvalidError(f"no such kind of object with tags: {kind}", hint=f"there are {', '.join(find)}")
    return find[kind](name).tags


async def _query_network_history(
    services: Services, name: str, address: str | None, moment: float | None, limit: int
) -> dict[str, object]:
    """Return who had which address of a network (ours; ``state.history`` says what the answer tells)."""
    _check_limit(limit)
    past = await services.history.addresses(name, address=address or "", moment=moment, limit=limit)
    return {"since": past.since, "network": past.net, "rows": [_holding(one) for one in past.holdings]}


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= ROW_LIMIT:
        raise errors.InvalidError(f"a limit of {limit} rows is not between 1 and {ROW_LIMIT}")


def _holding(one: history.Holding) -> dict[str, object]:
    return {
        "address": one.address,
        "instance": one.instance,
        "from": one.start,
        "to": one.end,
        "job": one.given.job or None,
        "opcode": one.given.opcode,
        "user": one.given.user,
        "reason": one.given.reason,
        "end_job": one.freed.job or None,
        "end_opcode": one.freed.opcode,
        "end_user": one.freed.user,
        "end_reason": one.freed.reason,
        "instance_uuid": one.uuid,
        "network_uuid": one.network,
    }


async def _query_history(
    services: Services, kind: str | None, name: str | None, serial: int | None, moment: float | None, limit: int
) -> dict[str, object]:
    """Return the last events of an object, of a kind or of all (ours; ``state.events``)."""
    _check_limit(limit)
    if kind and kind not in events.KINDS:
        raise errors.InvalidError(f"no such kind of object: {kind}", hint=f"there are {', '.join(events.KINDS)}")
    question = events.Question(kind=kind or "", name=name or "", serial=serial or 0, time=moment or 0.0)
    return {"events": await services.events.past(question, limit=limit), "serial": services.events.serial}


async def _wait_for_events(services: Services, after: int, limit: int, timeout: float) -> dict[str, object]:
    """Return events after a serial; none when the time has passed without (ours)."""
    _check_limit(limit)
    found = await services.events.after(after, limit=min(limit, EVENT_LIMIT), timeout=min(timeout, WAIT_LIMIT))
    return {"events": found, "serial": services.events.serial}


async def _export(services: Services) -> dict[str, object]:
    return export.configuration(services.snapshot())


async def _drain(services: Services, drained: bool) -> bool:
    await services.queue.set_drained(drained)
    return True


async def _set_watcher_pause(services: Services, until: float | None) -> float | None:
    await services.pause_watcher(until)
    return until


class _Cancel(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``[id]`` or ``[id, kill]``; a job that runs is not killed."""

    number: int
    kill: bool = False

    def __iter__(self) -> Iterator[object]:
        return iter(msgspec.structs.astuple(self))


Method = Callable[..., Awaitable[object]]

_METHODS: dict[str, tuple[object, Method]] = {
    "SubmitJob": (tuple[list[dict[str, object]]], _submit),
    "SubmitManyJobs": (tuple[list[list[dict[str, object]]]], _submit_many),
    "SubmitJobToDrainedQueue": (tuple[list[dict[str, object]]], _submit_drained),
    "WaitForJobChange": (
        tuple[int, list[str], list[object] | None, int | None, Seconds],
        _wait_for_change,
    ),
    "QueryJobs": (tuple[list[int] | None, list[str]], _query_jobs),
    "CancelJob": (_Cancel, lambda services, number, kill: services.queue.cancel(number)),
    "ArchiveJob": (tuple[int], lambda services, number: services.queue.archive(number)),
    "AutoArchiveJobs": (
        tuple[Annotated[float, msgspec.Meta(ge=-1)], Seconds],
        lambda services, age, timeout: services.queue.autoarchive(age, timeout),
    ),
    "ChangeJobPriority": (
        tuple[int, int],
        lambda services, number, priority: services.queue.change_priority(number, priority),
    ),
    "SetDrainFlag": (tuple[bool], _drain),
    "SetWatcherPause": (tuple[Seconds | None], _set_watcher_pause),
    "Query": (tuple[str, list[str], object], _query),
    "QueryFields": (tuple[str, list[str] | None], _query_fields),
    "QueryNodes": (tuple[list[str], list[str], bool], _classic("node")),
    "QueryInstances": (tuple[list[str], list[str], bool], _classic("instance")),
    "QueryGroups": (tuple[list[str], list[str], bool], _classic("group")),
    "QueryNetworks": (tuple[list[str], list[str], bool], _classic("network")),
    "QueryConfigValues": (tuple[list[str]], _config_values),
    "QueryClusterInfo": (tuple[()], _cluster_info),
    "QueryTags": (tuple[str, str], _query_tags),
    "QueryNetworkHistory": (tuple[str, str | None, float | None, int], _query_network_history),
    "QueryHistory": (tuple[str | None, str | None, int | None, float | None, int], _query_history),
    "WaitForEvents": (tuple[Annotated[int, msgspec.Meta(ge=0)], int, Seconds], _wait_for_events),
    "ExportConfig": (tuple[()], _export),
}

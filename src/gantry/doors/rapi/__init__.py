"""The remote API, Ganeti's version 2: resources over HTTP for remote clients (contracts/remote-api.md#design).

``reading`` has the resources that are answered at once, ``changes`` those that submit a job and return its number. The
remote API reaches the master only by LUXI: all data comes from LUXI queries, and opcodes make all decisions. /metrics
(``metrics``) is not a resource: it has a format of its own, and an answer without the master.

A path in the form of the 2.0 design (contracts/remote-api.md#design), with the cluster's name in place of the version
or after it, ``/lab.example/instances/NAME/tag``, means the same as ``/2/instances/NAME/tags``.

Life cycle: ``daemons.remote`` creates an Application and passes it to ``doors.http.Server``.
"""

import functools
import importlib
from collections.abc import Iterable, Mapping, Sequence

from gantry.doors import http
from gantry.doors.http import representation, users
from gantry.doors.rapi import (
    changes,
    console_stream,
    event_stream,
    health,
    metrics,
    reading,
    rights,
    routes,
    session,
    sign_on,
    tokens,
    webhooks,
    wire,
)
from gantry.rpc import luxi
from gantry.runtime import http_interface, interface, limits, measures, paths

ROUTES: tuple[routes.Route, ...] = (
    *reading.ROUTES,
    *changes.ROUTES,
    *session.ROUTES,
    *sign_on.ROUTES,
    *tokens.ROUTES,
    *webhooks.ROUTES,
    *event_stream.ROUTES,
    *console_stream.ROUTES,
)

DESCRIPTION = ("openapi.json",)
"""The path of the OpenAPI description of these routes."""

_TABLE = routes.Table(ROUTES)
_HEADS = {route.parts[1] for route in ROUTES if len(route.parts) > 1}


class Application:
    """The remote API as an ``http.Application``."""

    id_header = ("X-Request-Id", "")

    def __init__(
        self,
        runtime: interface.Runtime,
        master: luxi.Caller,
        *,
        waiting: luxi.Caller,
        gate: wire.Gate,
        folders: paths.Paths,
        counts: measures.Measures | None = None,
    ) -> None:
        """Serve a master; ``waiting`` has connections of their own, for requests that wait for a change.

        /metrics has what ``counts`` has.
        """
        self._runtime = runtime
        self._master = routes.Master(master, runtime.clock)
        self._metrics = metrics.Metrics(runtime.disk, master, folders, counts or measures.Measures())
        self._health = health.Health(master)
        self._gate = gate
        self._own = {
            **session.calls(gate),
            **sign_on.calls(gate),
            **tokens.calls(runtime),
            **event_stream.calls(gate, master, waiting, runtime.clock),
            **console_stream.calls(runtime, gate, master),
        }

    async def admit(self, raw: http_interface.Request, trace: http.Trace) -> int:
        """Return the longest body of a request; only users may send a long one."""
        path, _ = http.split(raw.path)
        endpoint = await self.find(raw.method, path)
        user = await self._allowed_user(raw, trace, endpoint.access)
        return http.BODY_LIMIT if user else limits.STRANGER_BODY_BYTES

    async def answer(self, raw: http_interface.Request, trace: http.Trace) -> http_interface.Response:
        """Answer a request."""
        path, query = http.split(raw.path)
        trace.path = sign_on.logged_path(path)
        if path in health.PATHS and raw.method == "GET":
            return await self._health.response(path)
        if path == metrics.PATH and raw.method == "GET":
            await self._allowed_user(raw, trace, wire.Access.OPEN)
            return await self._metrics.response(raw.headers.get("accept", ""))
        if path == DESCRIPTION and raw.method == "GET":
            await self._allowed_user(raw, trace, wire.Access.OPEN)
            return http_interface.Response(200, _description())
        endpoint = await self.find(raw.method, path)
        kind = endpoint.form or representation.content_type(raw.headers.get("accept", ""))
        if kind is None:
            raise http.RefusedError(
                406, f"the Accept header allows neither {representation.JSON} nor {representation.YAML}"
            )
        user = await self._allowed_user(raw, trace, endpoint.access)
        tags, name = raw.headers.get("if-match", ""), user.name if user else ""
        answer = await endpoint.call(wire.Request(raw, path, query, wire.decode_body(raw), user=name, if_match=tags))
        if isinstance(answer, http_interface.Response):
            return answer
        response = wire.response(raw, answer, kind)
        if not wire.accepts_packed(raw, response):
            return response
        return wire.packed(response, await self._runtime.compute(lambda: wire.pack(response.body)))

    async def _allowed_user(
        self, raw: http_interface.Request, trace: http.Trace, access: wire.Access
    ) -> users.User | None:
        """Return the user of a request, None without a login; RefusedError if the request lacks the permission."""
        user = await self._gate.user(raw)
        trace.user, trace.known = user.title if user else "-", user is not None
        rights.act_for(user, raw.peer)
        try:
            self._gate.check(access, user, raw)
        except http.RefusedError:
            is_change = access is wire.Access.WRITE and raw.method != "GET"
            if not (is_change and await rights.decides_master(self._master.caller, user, raw.peer)):
                raise
        return user

    def failure(self, error: http.Failure, trace: http.Trace) -> http_interface.Response:
        """Return the answer for a failure, in the format of the remote API."""
        return wire.failure(error)

    async def find(self, method: str, path: tuple[str, ...]) -> wire.Endpoint:
        """Return the endpoint for a method on a path."""
        path = await self._normalized(path)
        matching = _TABLE.matching(path)
        if path in (metrics.PATH, DESCRIPTION, *health.PATHS):
            raise _unsupported(method, path, ["GET"])
        if not matching:
            raise http.RefusedError(404, f"there is no resource /{'/'.join(path)}")
        for route, names in matching:
            if route.method == method:
                return wire.Endpoint(route.access, functools.partial(self._call, route, names), route.form)
        raise _unsupported(method, path, {route.method for route, _ in matching})

    async def _call(
        self, route: routes.Route, names: Mapping[str, str], request: wire.Request
    ) -> wire.Answer | http_interface.Response:
        if request.if_match and route.access is wire.Access.WRITE and route.method != "GET":
            await reading.check_version(self._master, request, route, names)
        call = route.call or self._own[route.method, route.path]
        return await call(self._master, request, names)

    async def _normalized(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Convert a path of the 2.0 design to the usual form; only such a path needs a query to the master."""
        parts = path[1:] if path[:1] == ("2",) else path
        if len(parts) < 2 or parts[0] in _HEADS:
            return path
        (name,) = await self._master.caller.call(list[str], "QueryConfigValues", ["cluster_name"])
        if parts[0] != name:
            return path
        last = "tags" if parts[-1] == "tag" else parts[-1]
        return ("2", *parts[1:-1], last)


def _description() -> bytes:
    # It needs the opcodes, which take 0.1 s to load, and nothing else in this process does.
    return importlib.import_module("gantry.doors.rapi.openapi").encoded()  # type: ignore[no-any-return]


def _unsupported(method: str, path: Sequence[str], methods: Iterable[str]) -> http.RefusedError:
    supported = ", ".join(sorted(methods))
    return http.RefusedError(501, f"/{'/'.join(path)} does not support the method {method}; it supports {supported}")

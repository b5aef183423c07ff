"""The remote API, version 2 of Ganeti's: resources over HTTP for programs elsewhere (contracts/remote-api.md#design).

``reading`` has the resources that are answered at once, ``changes`` those that submit a job and answer its number. The
door knows the master by LUXI alone, so all that it says comes from there, and all rules are the opcodes'.

The form of a path in the 2.0 design (contracts/remote-api.md#design), with the cluster's name in front or behind the
version, ``/lab.example/instances/NAME/tag``, means the same as ``/2/instances/NAME/tags``.

Life cycle: ``daemons.remote`` makes an Application and hands it to ``doors.http.Server``.
"""

import functools
from collections.abc import Mapping

from gantry.doors import http
from gantry.doors.http import representation
from gantry.doors.rapi import changes, reading, routes, wire
from gantry.rpc import luxi
from gantry.runtime import interface

ROUTES: tuple[routes.Route, ...] = (*reading.ROUTES, *changes.ROUTES)

_HEADS = {route.parts[1] for route in ROUTES if len(route.parts) > 1}


class Application:
    """What the remote API says to a request (``http.Application``)."""

    id_header = ("X-Request-Id", "")

    def __init__(self, runtime: interface.Runtime, master: luxi.Caller, *, gate: wire.Gate) -> None:
        self._master = routes.Master(master, runtime.clock)
        self._gate = gate

    async def answer(self, raw: interface.HttpRequest, trace: http.Trace) -> interface.HttpResponse:
        """Answer a request."""
        kind = representation.chosen(raw.headers.get("accept", ""))
        if kind is None:
            raise http.RefusedError(406, f"answers are {representation.JSON} or {representation.YAML}")
        path, query = http.split(raw.path)
        endpoint = await self.find(raw.method, path)
        user = await self._gate.user(raw.headers.get("authorization", ""))
        trace.user = user.name if user else "-"
        self._gate.check(endpoint.access, user)
        tags, name = raw.headers.get("if-match", ""), user.name if user else ""
        request = wire.Request(raw.method, path, query, body=wire.decoded(raw), user=name, if_match=tags)
        return wire.response(raw, await endpoint.call(request), kind)

    def failure(self, error: http.Failure, trace: http.Trace) -> interface.HttpResponse:
        """Return a failure as clients of the remote API read it."""
        return wire.failure(error)

    async def find(self, method: str, path: tuple[str, ...]) -> wire.Endpoint:
        """Return what answers a method on a path."""
        path = await self._usual(path)
        fitting = [(route, names) for route in ROUTES if (names := routes.matched(route, path)) is not None]
        if not fitting:
            raise http.RefusedError(404, f"there is no resource /{'/'.join(path)}")
        for route, names in fitting:
            if route.method == method:
                return wire.Endpoint(route.access, functools.partial(self._call, route, names))
        known = ", ".join(sorted({route.method for route, _ in fitting}))
        raise http.RefusedError(501, f"/{'/'.join(path)} has no method {method}; it has {known}")

    async def _call(self, route: routes.Route, names: Mapping[str, str], request: wire.Request) -> wire.Answer:
        if request.if_match and route.access is wire.Access.WRITE and route.method != "GET":
            await reading.check_version(self._master, request, route, names)
        return await route.call(self._master, request, names)

    async def _usual(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Return a path of the 2.0 design's form in the usual one; only such a path costs a question to the master."""
        rest = path[1:] if path[:1] == ("2",) else path
        if len(rest) < 2 or rest[0] in _HEADS:
            return path
        (name,) = await self._master.caller.call(list[str], "QueryConfigValues", ["cluster_name"])
        if rest[0] != name:
            return path
        last = "tags" if rest[-1] == "tag" else rest[-1]
        return ("2", *rest[1:-1], last)

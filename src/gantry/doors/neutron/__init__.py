"""The Neutron API, version 2.0: networks, subnets, ports and segment ranges, for the tools of OpenStack.

``attributes`` defines tables of attributes, each module of ``resources`` has a table, and ``collection`` serves all
resources (contracts/neutron-api.md#collections). ``listing`` has filters and pages, ``policy`` the permissions,
``access`` the authentication, ``faults`` the error answers; ``discovery`` and ``identity`` answer what clients ask
first. The front end reaches the master only by LUXI: for a change it runs a job, and the opcodes make all decisions
about networks.

Life cycle: ``daemons.remote`` creates an Application and passes it to ``doors.http.Server``.
"""

import contextlib
from collections.abc import Awaitable, Mapping, Sequence

import msgspec

from gantry.doors import http
from gantry.doors.neutron import (
    access,
    availability,
    collection,
    discovery,
    faults,
    identity,
    master,
    resources,
    tagging,
)
from gantry.doors.neutron import call as calls
from gantry.rpc import luxi
from gantry.runtime import http_interface, interface, limits

VERSION = "v2.0"


class Application:
    """The Neutron API as an ``http.Application``; without ``projects`` it has no identity calls."""

    id_header = ("x-openstack-request-id", "req-")

    def __init__(
        self,
        runtime: interface.Runtime,
        caller: luxi.Caller,
        *,
        authenticator: access.Authenticator,
        projects: identity.Projects | None,
        scheme: str,
    ) -> None:
        self._master = master.Master(caller, runtime)
        self._authenticator = authenticator
        self._projects = projects
        self._scheme = scheme
        self._collections = {each.collection: collection.Collection(each, self._master) for each in resources.ALL}

    def failure(self, error: http.Failure, trace: http.Trace) -> http_interface.Response:
        """Return the answer for a failure, in the format of the API."""
        return faults.response(error)

    async def admit(self, raw: http_interface.Request, trace: http.Trace) -> int:
        """Return the longest body of a request; only users may send a long one, and it is long for a token."""
        path, _ = http.split(raw.path)
        identity_calls = self._projects if path[:1] == ("v3",) else None
        if not path or (identity_calls and identity_calls.is_open(raw.method, path[1:])):
            return limits.STRANGER_BODY_BYTES
        with faults.in_identity_form() if identity_calls else contextlib.nullcontext():
            await self._person(raw, trace)
        return http.BODY_LIMIT

    async def _person(self, raw: http_interface.Request, trace: http.Trace) -> access.Person:
        person = await self._authenticator.person(raw.headers, raw.peer)
        trace.user, trace.known = person.user or "-", True
        return person

    async def answer(self, raw: http_interface.Request, trace: http.Trace) -> http_interface.Response:
        """Answer a request."""
        path, query = http.split(raw.path)
        base = self._base(raw.headers)
        if not path:
            return _answer(raw.method, discovery.versions(base))
        path = (*path[:-1], path[-1].removesuffix(".json"))
        if path[0] == "v3" and self._projects:
            with faults.in_identity_form():
                is_open = self._projects.is_open(raw.method, path[1:])
                person = None if is_open else await self._person(raw, trace)
                return await self._projects.answer(
                    raw.method, path[1:], person=person, query=query, body=raw.body, base=base, peer=raw.peer
                )
        person = await self._person(raw, trace)
        if path[0] != VERSION or raw.path.partition("?")[0] == f"/{VERSION}":
            raise faults.hidden()
        call = calls.Call(
            person=person,
            origin=master.Origin(person.user, f"{raw.method} /{'/'.join(path)}"),
            address=f"{base}/{'/'.join(path[:2])}",
            query=query,
            raw_query=raw.path.partition("?")[2],
            body=raw.body,
            content_type=raw.headers.get("content-type", ""),
        )
        return await self._route(raw.method, path[1:], call, base=base)

    def _base(self, headers: Mapping[str, str]) -> str:
        """Return the URL by which the client reaches the front end, for links."""
        host, scheme = headers.get("host", "localhost"), self._scheme
        if scheme == "http" and headers.get("x-forwarded-proto", "").lower() == "https":
            # Without TLS the server listens on the loopback only, so the header comes from a proxy on this node.
            host, scheme = headers.get("x-forwarded-host", host), "https"
        return f"{scheme}://{host}"

    async def _route(self, method: str, path: Sequence[str], call: calls.Call, *, base: str) -> http_interface.Response:
        """Answer a request below ``/v2.0/``."""
        match path:
            case []:
                names = [(each.name, each.collection) for each in resources.ALL if not each.for_admins]
                return _answer(method, discovery.collections(base, names))
            case ["extensions"]:
                return _answer(method, discovery.extensions(ranges=await self._master.has_ranges()))
            case ["extensions", alias]:
                return _answer(method, discovery.extension(alias, ranges=await self._master.has_ranges()))
            case ["tenants", name] if self._projects:
                return _answer(method, self._projects.tenant(name, base, person=call.person))
            case ["network-ip-availabilities", *key] if len(key) < 2:
                return _answer(method, await availability.answer(self._master, call, key))
        return await self._collection(method, path, call)

    async def _collection(self, method: str, path: Sequence[str], call: calls.Call) -> http_interface.Response:
        served = self._collections.get(path[0].replace("-", "_"))
        if served is None:
            raise faults.hidden()
        match method, *path[1:]:
            case ["GET"]:
                return await self._if_served(served, self._list(served, call))
            case ["POST"]:
                return await self._if_served(served, self._create(served, call))
            case ["GET" | "PUT" | "DELETE", key]:
                return await self._if_served(served, self._answer_one(served, call, method=method, key=key))
        if not await self._is_served(served):
            raise faults.hidden()
        match method, *path[1:]:
            case ["PUT" | "DELETE"]:
                raise served.resource.missing(None)
            case [_, key, "tags", *tag] if len(tag) < 2:
                return await tagging.answer(served, call, method=method, key=key, tag=tag)
            case [_] | [_, _]:
                raise faults.no_method()
        raise faults.hidden()

    async def _is_served(self, served: collection.Collection) -> bool:
        """Return whether a resource exists; segment ranges exist only where the cluster manages them."""
        return not served.resource.for_admins or await self._master.has_ranges()

    async def _list(self, served: collection.Collection, call: calls.Call) -> http_interface.Response:
        objects = await served.show_all(call)
        # An object shows that its resource exists; an empty list does not.
        if not objects[served.resource.collection] and not await self._is_served(served):
            raise faults.hidden()
        return _response(200, objects)

    async def _create(self, served: collection.Collection, call: calls.Call) -> http_interface.Response:
        return _response(201, await served.create(call))

    async def _answer_one(
        self, served: collection.Collection, call: calls.Call, *, method: str, key: str
    ) -> http_interface.Response:
        """Answer the GET, PUT or DELETE of one object."""
        if method == "DELETE":
            await served.delete(call, key)
            return http_interface.Response(204, b"")
        return _response(200, await (served.show_one if method == "GET" else served.update)(call, key))

    async def _if_served(
        self, served: collection.Collection, answer: Awaitable[http_interface.Response]
    ) -> http_interface.Response:
        """Return the answer; the master refuses if the resource does not exist, so only a refusal needs that query."""
        try:
            return await answer
        except faults.FaultError:
            if await self._is_served(served):
                raise
            raise faults.hidden() from None


def _answer(method: str, content: object) -> http_interface.Response:
    """Return the answer of a read-only path; FaultError 405 for other methods."""
    if method != "GET":
        raise faults.no_method()
    return _response(200, content)


def _response(status: int, content: object) -> http_interface.Response:
    return http_interface.Response(status, msgspec.json.encode(content))

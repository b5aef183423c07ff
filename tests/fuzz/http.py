"""Hostile HTTP requests to a server in this process, from its OpenAPI description."""

import asyncio
import base64
import contextlib
import dataclasses
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from tests.fuzz import hostile

from gantry.doors import http
from gantry.runtime import http_interface

RESTORED = 50
"""Messages between two looks at whether the objects that messages name still exist."""

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "get", "X")
ALLOWED = frozenset({501, 502, 503, 507})
"""Statuses above 500 that name a state of the cluster, or a method that does not exist."""


def basic(login: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(login.encode()).decode()}


@dataclass(frozen=True)
class Operation:
    """A method of a path, with the names of its query arguments and the schema of its body."""

    method: str
    path: str
    query: tuple[str, ...] = ()
    body: object = None
    kinds: tuple[str, ...] = ("application/json",)
    seeds: tuple[bytes, ...] = ()
    """Bodies of another format than JSON, which are edited as bytes."""


def operations(document: Mapping[str, object]) -> list[Operation]:
    """Return the operations of an OpenAPI description."""
    all_operations = []
    for path, item in msgspec.convert(document["paths"], dict[str, dict[str, object]]).items():
        for method, raw in item.items():
            if method not in ("get", "put", "post", "delete", "patch"):
                continue
            described = msgspec.convert(raw, hostile.Json)
            parameters = msgspec.convert(described.get("parameters", []), list[hostile.Json])
            query = tuple(str(each["name"]) for each in parameters if each.get("in") == "query")
            content = msgspec.convert(described.get("requestBody", {}), hostile.Json).get("content", {})
            bodies = msgspec.convert(content, dict[str, hostile.Json])
            schema = next(iter(bodies.values()), {}).get("schema")
            all_operations.append(
                Operation(method.upper(), path, query, schema, tuple(bodies) or ("application/json",))
            )
    return all_operations


@dataclass
class Door:
    """A server of ``doors.http`` and what its requests are made of: a request is drawn by its number."""

    name: str
    server: http.Server
    operations: Sequence[Operation]
    schemas: hostile.Schemas
    logins: Sequence[Mapping[str, str]]
    headers: Sequence[str]
    good: http_interface.Request
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of objects by the part of a path before them."""
    restore: Callable[[], Awaitable[Mapping[str, str]]] | None = None
    """Creates objects that messages have removed; returns their ids by those that messages are drawn with."""
    allowed: frozenset[int] = ALLOWED
    ids: Mapping[str, str] = field(default_factory=dict)

    def request(self, number: int) -> http_interface.Request:
        """Return the request of a number."""
        chance = hostile.Chance(self.name, number)
        operation = chance.choice(self.operations)

        def part(match: re.Match[str]) -> str:
            return f"{match[1]}/{hostile.text(chance, self.names.get(match[1]) or self.schemas.known)}"

        path = re.sub(r"([^/]*)/\{[^}]*\}", part, operation.path)
        if chance.one_in(30):
            path = path.replace("/", "//", 1) + chance.choice(("", "/", "/..", "/%00", ".json"))
        path += hostile.query(chance, operation.query, self.schemas.known)
        method = chance.choice(METHODS) if chance.one_in(20) else operation.method
        body = b""
        if operation.seeds:
            body = hostile.edited(chance, chance.choice(operation.seeds))
        elif operation.body is not None or chance.one_in(8):
            body = hostile.body(chance, self.schemas.sample(chance, operation.body))
        kind = {"content-type": chance.choice(operation.kinds)}
        odd = hostile.headers(chance, self.headers)
        return http_interface.Request(
            method, path.replace(" ", "+")[:8000], body, {**kind, **chance.choice(self.logins), **odd}
        )

    async def send(self, number: int) -> str:
        if self.restore and number % RESTORED == 0:
            self.ids = await self.restore()
        request = self.request(number)
        for drawn, actual in self.ids.items():
            body = request.body.replace(drawn.encode(), actual.encode())
            request = dataclasses.replace(request, path=request.path.replace(drawn, actual), body=body)
        answer = await self.server.answer(request)
        assert answer.status < 500 or answer.status in self.allowed, (number, request, answer)
        if answer.pieces is not None:
            async with contextlib.aclosing(answer.pieces) as pieces:
                with contextlib.suppress(TimeoutError, StopAsyncIteration):
                    async with asyncio.timeout(1):
                        await anext(pieces)
        return str(answer.status)

    async def check(self) -> None:
        answer = await self.server.answer(self.good)
        assert answer.status == 200, answer

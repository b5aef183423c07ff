"""Client of an API server: single requests, and watches.

``reflector``, ``apply``, ``election`` and ``events`` call it. It handles paths, JSON, ``Status`` objects and rate
limits (``rate_limit``), not the meaning of objects. It never retries, because whether that is safe depends on the
request.

Errors: RefusedError for an error answer; UnknownError if there is no answer, so that the outcome is unknown.
"""

import asyncio
import base64
import contextlib
import functools
import re
import ssl
from collections.abc import AsyncGenerator
from typing import TypeVar
from urllib import parse

import msgspec

from gantry import errors
from gantry.kubernetes.api import meta, schema
from gantry.kubernetes.controllers import kubeconfig, metrics, rate_limit
from gantry.runtime import http_interface, interface

TIMEOUT_SECONDS = 30.0
"""Timeout of a request in seconds; a healthy API server answers within one second."""
TOKEN_AGE_SECONDS = 60.0
"""Seconds after which a token file is read again."""
MAX_LINE_BYTES = 8 << 20
"""Maximum bytes of a watch event; a stored object has at most 1.5 MB."""
MAX_DEPTH = 100
"""Maximum nesting of JSON that is read; no field that we use is deeper."""
MAX_RETRY_AFTER_SECONDS = 300.0
"""Maximum seconds to wait because of ``Retry-After``."""
RETRY_STATUSES = (429, 503)
MERGE = "application/merge-patch+json"
JSON = "application/json"


class RefusedError(errors.GantryError):
    """The API server answered with an error."""

    def __init__(self, http_status: int, reason: str, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(f"the API server answered {http_status} {reason}: {message}")
        self.http_status = http_status
        self.reason = reason
        self.retry_after = retry_after


class UnknownError(errors.BusyError):
    """The API server did not answer, so the outcome of the request is unknown."""


class Head(msgspec.Struct, frozen=True, rename="camel"):
    """Identity and version of an object."""

    resource_version: str = ""
    namespace: str = ""
    name: str = ""


class _Status(msgspec.Struct, frozen=True):
    kind: str = ""
    metadata: Head = Head()
    reason: str = ""
    message: str = ""
    code: int = 0


class Event(msgspec.Struct, frozen=True):
    """A watch event; ``body`` is the object as JSON."""

    type: str = ""
    body: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="object")


_STATUS = msgspec.json.Decoder(_Status)
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


class Client:
    """Client of one API server; ``http`` replaces the network connection."""

    def __init__(
        self,
        runtime: interface.Runtime,
        target: kubeconfig.Access,
        *,
        tls: ssl.SSLContext | None = None,
        http: http_interface.Client | None = None,
        limit: rate_limit.RateLimit,
        counts: metrics.Metrics,
    ) -> None:
        self._runtime = runtime
        self._target = target
        self._limit = limit
        self._counts = counts
        self._http = http or runtime.network.http_client(tls=tls)
        self._token = target.token
        self._token_read = 0.0

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def get(self, path: str, *, timeout: float = TIMEOUT_SECONDS) -> schema.Json:
        """Return the object at a path; RefusedError, UnknownError."""
        return await self.send("GET", path, timeout=timeout)

    async def find(self, path: str) -> bytes | None:
        """Return the object at a path as JSON, None if it does not exist; RefusedError, UnknownError."""
        try:
            return await self.exchange("GET", path)
        except RefusedError as error:
            if error.http_status == 404:
                return None
            raise

    async def send(
        self,
        method: str,
        path: str,
        body: schema.Json | None = None,
        *,
        content_type: str = JSON,
        timeout: float = TIMEOUT_SECONDS,
    ) -> schema.Json:
        """Send a request and return the answer; RefusedError, UnknownError."""
        return _decode(await self.exchange(method, path, body, content_type=content_type, timeout=timeout))

    async def exchange(
        self,
        method: str,
        path: str,
        body: schema.Json | msgspec.Struct | None = None,
        *,
        content_type: str = JSON,
        timeout: float = TIMEOUT_SECONDS,
    ) -> bytes:
        """Send a request and return the answer as JSON; RefusedError, UnknownError."""
        await self._wait_for_limit()
        headers = {**self._headers(), "content-type": content_type}
        content = msgspec.json.encode(body) if body is not None else b""
        try:
            answer = await self._http.request(
                method,
                self._target.host,
                self._target.port,
                self._target.prefix + path,
                body=content,
                timeout=timeout,
                headers=headers,
            )
        except (OSError, TimeoutError) as error:
            raise self._unknown_error(method, error) from None
        return self._check_answer(method, answer)

    async def watch(self, path: str, *, silence: float) -> AsyncGenerator[Event, None]:
        """Yield the events of a watch until it ends; UnknownError when it breaks or is silent for ``silence`` seconds.

        An ERROR event is raised as RefusedError.
        """
        await self._wait_for_limit()
        target = self._target
        try:
            answer = await self._http.stream(
                target.host, target.port, target.prefix + path, timeout=TIMEOUT_SECONDS, headers=self._headers()
            )
        except (OSError, TimeoutError) as error:
            raise self._unknown_error("WATCH", error) from None
        if answer.pieces is None:
            raise UnknownError("the API server's answer to a watch has no body")
        async with contextlib.aclosing(answer.pieces), contextlib.aclosing(_lines(answer.pieces, silence)) as lines:
            if answer.status != 200:
                await self._refused_watch(answer, lines)
            self._counts.count("gantry_kube_requests_total", method="WATCH", status="200")
            async for line in lines:
                event = decode(line, Event)
                if event.type == "ERROR":
                    raise _refused_error(410, _decode(bytes(event.body)))
                yield event

    async def _refused_watch(self, answer: http_interface.Response, lines: AsyncGenerator[bytes, None]) -> None:
        body = b"\n".join([line async for line in lines])
        self._check_answer("WATCH", http_interface.Response(answer.status, body, answer.content_type, answer.headers))

    async def _wait_for_limit(self) -> None:
        waited = await self._limit.take()
        if waited:
            self._counts.count("gantry_kube_throttled_seconds_total", waited)

    def _unknown_error(self, method: str, error: OSError) -> UnknownError:
        self._counts.count("gantry_kube_requests_total", method=method, status="0")
        return UnknownError(f"no answer from the API server {self._target.host}: {str(error) or type(error).__name__}")

    def _check_answer(self, method: str, answer: http_interface.Response) -> bytes:
        self._counts.count("gantry_kube_requests_total", method=method, status=str(answer.status))
        if answer.status < 300:
            return answer.body
        after = answer.headers.get("retry-after", "")
        retry_after_seconds = min(float(after), MAX_RETRY_AFTER_SECONDS) if after.isdecimal() else 0.0
        if answer.status in RETRY_STATUSES:
            self._limit.pause(min(retry_after_seconds or 1.0, rate_limit.MAX_DELAY_SECONDS))
        try:
            body: object = msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, RecursionError):
            body = {"message": answer.body[:200].decode(errors="replace")}
        raise _refused_error(answer.status, body, retry_after=retry_after_seconds)

    def _headers(self) -> dict[str, str]:
        headers = {"accept": JSON, "user-agent": "gantry-kube"}
        if token := self._current_token():
            headers["authorization"] = f"Bearer {token}"
        elif self._target.password:
            headers["authorization"] = f"Basic {base64.b64encode(self._target.password.encode()).decode()}"
        return headers

    def _current_token(self) -> str:
        now = self._runtime.clock.monotonic()
        if self._target.token_file and (not self._token or now - self._token_read > TOKEN_AGE_SECONDS):
            try:
                self._token = self._runtime.disk.read(self._target.token_file).decode().strip()
            except OSError as error:
                raise UnknownError(f"token file {self._target.token_file} cannot be read: {error}") from None
            self._token_read = now
        return self._token


async def _lines(pieces: AsyncGenerator[bytes, None], silence: float) -> AsyncGenerator[bytes, None]:
    """Yield complete lines; UnknownError for a broken connection, a line that is too long, or ``silence`` seconds."""
    incomplete = bytearray()
    while True:
        try:
            async with asyncio.timeout(silence):
                piece = await anext(pieces)
        except StopAsyncIteration:
            break
        except TimeoutError:
            raise UnknownError(f"the API server was silent for {silence:g} seconds") from None
        except OSError as error:
            raise UnknownError(f"the connection to the API server broke: {error}") from None
        *complete, tail = piece.split(b"\n")
        for line in complete:
            if incomplete:
                line = bytes(incomplete) + line
                incomplete.clear()
            if line and not line.isspace():
                yield line
        incomplete += tail
        if len(incomplete) > MAX_LINE_BYTES:
            raise UnknownError(f"the API server sent an event of more than {MAX_LINE_BYTES} bytes")
    if incomplete.strip():
        yield bytes(incomplete)


def _decode(body: bytes) -> schema.Json:
    try:
        return msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnknownError(f"the API server's answer cannot be read: {error}") from None


def _refused_error(http_status: int, body: object, *, retry_after: float = 0.0) -> RefusedError:
    try:
        status = msgspec.convert(body, _Status)
    except msgspec.ValidationError:
        status = _Status()
    return RefusedError(status.code or http_status, status.reason, status.message, retry_after=retry_after)


Struct = TypeVar("Struct", bound=msgspec.Struct)


def convert(body: schema.Json, shape: type[Struct]) -> Struct:
    """Convert a JSON object into a struct; UnknownError if it does not fit."""
    try:
        return msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        raise UnknownError(f"the API server's answer cannot be read: {error}") from None


def decode(body: bytes, shape: type[Struct]) -> Struct:
    """Decode JSON into a struct; UnknownError if it does not fit.

    One object that is nested too deep for the parser does not spoil a list: it is read without its deepest parts.
    """
    decoder: msgspec.json.Decoder[Struct] = _decoder(shape)
    try:
        try:
            return decoder.decode(body)
        except RecursionError:
            return decoder.decode(_without_deep_values(body))
    except msgspec.DecodeError as error:
        raise UnknownError(f"the API server's answer cannot be read: {error}") from None


@functools.cache
def _decoder(shape: type[Struct]) -> msgspec.json.Decoder[Struct]:
    return msgspec.json.Decoder(shape)


def _without_deep_values(body: bytes) -> bytes:
    """Return JSON with null in place of each value nested deeper than ``MAX_DEPTH``."""
    out, depth, start = list[bytes](), 0, 0
    for match in _BRACKETS.finditer(body):
        if match[0] in (b"[", b"{"):
            depth += 1
            if depth == MAX_DEPTH + 1:
                out.append(body[start : match.start()])
        elif match[0] in (b"]", b"}"):
            if depth == MAX_DEPTH + 1:
                out.append(b"null")
                start = match.end()
            depth -= 1
    return b"".join([*out, body[start:]])


def head(body: bytes | msgspec.Raw) -> Head:
    """Return identity and version of an object; unreadable fields are empty."""
    try:
        return _STATUS.decode(body).metadata
    except (msgspec.DecodeError, RecursionError):
        return Head()


def is_status(body: bytes) -> bool:
    """Return whether an answer is a ``Status`` instead of an object."""
    try:
        return _STATUS.decode(body).kind == "Status"
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnknownError(f"the API server's answer cannot be read: {error}") from None


def path(ref: meta.Ref, *, plural: str, api_version: str) -> str:
    """Return the path of an object; names are escaped, because they may come from a status edited by hand."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/{_quote(ref.namespace)}/{plural}/{_quote(ref.name)}"


@functools.lru_cache(4096)
def _quote(part: str) -> str:
    return parse.quote(part, safe="")

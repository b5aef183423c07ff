"""A client of an API server, the embedded API server in this process, and manifests."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec
from tests import ports

from gantry.doors import http
from gantry.kubernetes import apiserver
from gantry.runtime import real

Json = dict[str, object]

IPAM = "/apis/ipam.metal3.io/v1alpha1"
HERE = f"{IPAM}/namespaces/default"
POOLS, CLAIMS, ADDRESSES = f"{HERE}/ippools", f"{HERE}/ipclaims", f"{HERE}/ipaddresses"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
SECRETS = "/api/v1/namespaces/default/secrets"
EVENTS = "/api/v1/namespaces/default/events"
NAMESPACES = "/api/v1/namespaces"
MERGE, STEPS, APPLY = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"
TIMEOUT = 60


@dataclass(frozen=True)
class Answer:
    """An answer."""

    status: int
    body: Json
    headers: dict[str, str] = field(default_factory=dict)

    def at(self, path: str) -> object:
        """Return the value at a path such as ``metadata.name``, None if there is none."""
        value: object = self.body
        for part in path.split("."):
            if isinstance(value, list):
                value = value[int(part)]
            else:
                value = value.get(part) if isinstance(value, dict) else None
        return value

    @property
    def version(self) -> str:
        return str(self.at("metadata.resourceVersion"))

    @property
    def uid(self) -> str:
        return str(self.at("metadata.uid"))

    @property
    def items(self) -> list[Json]:
        return msgspec.convert(self.body["items"], list[Json])

    @property
    def names(self) -> list[str]:
        return [str(Answer(200, item).at("metadata.name")) for item in self.items]

    @property
    def refusal(self) -> tuple[int, str, str]:
        """Return status, reason and message of a Status."""
        assert (self.body["kind"], self.body["status"]) == ("Status", "Failure"), self.body
        assert self.body["code"] == self.status
        return self.status, str(self.body["reason"]), str(self.body["message"])

    @property
    def fields(self) -> list[str]:
        """Return the fields of the causes of an error."""
        return [str(cause["field"]) for cause in msgspec.convert(self.at("details.causes"), list[Json])]


@dataclass
class Events:
    """The lines of a watch."""

    answer: aiohttp.ClientResponse

    async def next(self) -> tuple[str, Answer]:
        """Return type and object of the next event; fail without one."""
        async with asyncio.timeout(TIMEOUT):
            line = await self.answer.content.readline()
        assert line, "the watch has ended"
        event = msgspec.json.decode(line, type=Json)
        return str(event["type"]), Answer(200, msgspec.convert(event["object"], Json))

    async def named(self) -> tuple[str, str]:
        kind, answer = await self.next()
        return kind, str(answer.at("metadata.name"))

    async def remaining(self) -> list[str]:
        """Return the types of all events until the watch ends."""
        async with asyncio.timeout(TIMEOUT):
            lines = (await self.answer.content.read()).splitlines()
        return [str(json.loads(line)["type"]) for line in lines]


class Caller:
    """Sends requests to a server URL."""

    def __init__(self, base: str, session: aiohttp.ClientSession) -> None:
        self._base, self._session = base, session

    def url(self, path: str) -> str:
        return f"{self._base}{path}"

    async def say(self, method: str, path: str, body: object = None, *, kind: str = "", accept: str = "") -> Answer:
        """Send a request with a body in JSON, and return the answer in JSON or YAML's subset of it."""
        headers = {"Accept": accept} if accept else {}
        headers |= {"Content-Type": kind or "application/json"} if body is not None else {}
        sent = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        async with self._session.request(method, self.url(path), data=sent, headers=headers) as answer:
            text = await answer.read()
            value: Json = (
                msgspec.json.decode(text, type=Json)
                if "json" in answer.content_type
                else {"text": text.decode(errors="replace")}
            )
            return Answer(answer.status, value, dict(answer.headers))

    async def get(self, path: str, *, accept: str = "") -> Answer:
        return await self.say("GET", path, accept=accept)

    async def add(self, path: str, body: Json) -> Answer:
        """Create an object; fail if the server rejects it."""
        answer = await self.say("POST", path, body)
        assert answer.status == 201, answer
        return answer

    async def patch(self, path: str, body: object, kind: str = MERGE) -> Answer:
        return await self.say("PATCH", path, body, kind=kind)

    async def delete(self, path: str, body: object = None) -> Answer:
        return await self.say("DELETE", path, body)

    @asynccontextmanager
    async def watch(self, path: str, *, accept: str = "", **parameters: str) -> AsyncIterator[Events]:
        query = {"watch": "true", **parameters}
        headers = {"Accept": accept} if accept else {}
        async with self._session.get(self.url(path), params=query, headers=headers) as answer:
            assert answer.status == 200
            yield Events(answer)

    async def gone(self, path: str) -> None:
        """Wait until an object does not exist."""
        async with asyncio.timeout(TIMEOUT):
            while (await self.get(path)).status != 404:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


class Api(Caller):
    """A server with its data directory; ``restart`` stops it cleanly."""

    def __init__(
        self, folder: Path, session: aiohttp.ClientSession, *, tokens: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self.port = folder, ports.free()
        self._tokens = tokens
        super().__init__(f"http://127.0.0.1:{self.port}", session)
        self._running: tuple[apiserver.Application, http.Server] | None = None

    async def start(self) -> None:
        application = apiserver.Application(real.RealRuntime(), str(self.folder), tokens=self._tokens)
        await application.open()
        listening = http.Server(real.RealRuntime(), application)
        await listening.open("127.0.0.1", self.port, tls=None)
        self._running = application, listening

    async def stop(self) -> None:
        if self._running:
            application, listening = self._running
            self._running = None
            await listening.close()
            await application.close()

    async def restart(self) -> None:
        await self.stop()
        await self.start()


@asynccontextmanager
async def api(folder: Path, *, tokens: Mapping[str, str] | None = None) -> AsyncIterator[Api]:
    async with aiohttp.ClientSession() as session:
        client = Api(folder, session, tokens=tokens)
        await client.start()
        try:
            yield client
        finally:
            await client.stop()


def pool(name: str = "pool-1", *, labels: dict[str, str] | None = None, **spec: object) -> Json:
    whole = {"namePrefix": name, "pools": [{"start": "10.0.0.1", "end": "10.0.0.9"}], **spec}
    return {"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool", "metadata": _named(name, labels), "spec": whole}


def claim(name: str, *, of: str = "pool-1", **metadata: object) -> Json:
    spec = {"pool": {"name": of}}
    head = {**_named(name, None), **metadata}
    return {"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim", "metadata": head, "spec": spec}


def address(name: str, text: str, *, of: str = "pool-1", **metadata: object) -> Json:
    spec = {"address": text, "pool": {"name": of}, "claim": {"name": "claim-1"}}
    head = {**_named(name, None), **metadata}
    return {"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPAddress", "metadata": head, "spec": spec}


def secret(name: str, **metadata: object) -> Json:
    return {"metadata": {**_named(name, None), **metadata}, "data": {"key": "dmFsdWU="}}


def owned(by: Answer, *, block: bool = False) -> list[Json]:
    """Return owner references to one object."""
    reference: Json = {"apiVersion": by.body["apiVersion"], "kind": by.body["kind"], "name": by.at("metadata.name")}
    return [{**reference, "uid": by.uid, **({"blockOwnerDeletion": True} if block else {})}]


def _named(name: str, labels: dict[str, str] | None) -> Json:
    return {"name": name, **({"labels": labels} if labels else {})}

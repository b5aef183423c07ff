"""The fake API server of ``tests.kubernetes.claims`` over HTTP: paths, pages, watches, injected faults."""

import asyncio
import functools
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from urllib import parse

from tests.kubernetes.claims import server

from gantry.doors.http import exposition
from gantry.kubernetes.api import definitions, meta, schema
from gantry.kubernetes.controllers import (
    client,
    cluster_ports,
    controllers,
    election,
    kubeconfig,
    metrics,
    rate_limit,
    reflector,
)
from gantry.runtime import http_interface, interface, simulated

PORT = 8001
Fault = Callable[[http_interface.Request], http_interface.Response | None]
"""Answers a request in the server's place, if it wants to."""


@dataclass
class Remembering(server.Server):
    """Records the watch events: type and object for each version."""

    events: list[tuple[str, meta.Ref, schema.Json]] = field(default_factory=list)

    def _store(self, ref: meta.Ref, body: schema.Json) -> schema.Json:
        was = ref in self.objects
        stored = super()._store(ref, body)
        kind = "DELETED" if ref not in self.objects else "MODIFIED" if was else "ADDED"
        self.events.append((kind, ref, stored))
        return stored


def answered(status: int, body: object, **headers: str) -> http_interface.Response:
    return http_interface.Response(status, json.dumps(body).encode(), headers=headers)


def refused(status: int, reason: str, **headers: str) -> http_interface.Response:
    body = {"kind": "Status", "code": status, "reason": reason, "message": f"said {reason}"}
    return answered(status, body, **headers)


@dataclass
class Api:
    """Watches from before version ``forgotten`` get 410; ``missing`` are the groups that the server lacks."""

    known: Remembering = field(default_factory=Remembering)
    plain: dict[str, schema.Json] = field(default_factory=dict)
    forgotten: int = 0
    missing: tuple[str, ...] = ()
    fault: Fault | None = None
    page: int = 500
    cuts: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: http_interface.Request) -> http_interface.Response:
        path, _, query = request.path.partition("?")
        self.requests.append((request.method, path))
        fault = self.fault(request) if self.fault else None
        if fault:
            return fault
        try:
            return self._answer(request, path.strip("/").split("/"), dict(parse.parse_qsl(query)))
        except server.RefusedError as error:
            return refused(error.status, error.reason)
        finally:
            self.notify()

    def notify(self) -> None:
        """Send new events to the watches."""
        self.changed.set()
        self.changed = asyncio.Event()

    def cut(self) -> None:
        """Break all watches."""
        self.cuts += 1
        self.notify()

    def _answer(
        self, request: http_interface.Request, parts: list[str], query: dict[str, str]
    ) -> http_interface.Response:
        if len(parts) > 1 and parts[1] in self.missing:
            raise server.RefusedError(404, "NotFound")
        if len(parts) == 2:
            versions = next(
                definition.versions for definition in definitions.DEFINITIONS if definition.group == parts[1]
            )
            return answered(200, {"versions": [{"version": version} for version in versions]})
        if parts[0] == "api" or parts[1] == "coordination.k8s.io":
            return self._plain(request, "/".join(parts))
        group, namespace, remaining = parts[1], "", parts[3:]
        if remaining[0] == "namespaces":
            namespace, remaining = remaining[1], remaining[2:]
        definition = definitions.by_plural(group, remaining[0])
        if definition is None:
            return self._plain(request, "/".join(parts))
        if len(remaining) > 1:
            ref = meta.Ref(group, definition.kind, namespace, remaining[1])
            return self._object(request, ref, remaining[2] if len(remaining) > 2 else "")
        if request.method == "POST":
            return answered(201, self.known.create(json.loads(request.body)))
        if query.get("watch"):
            return self._watched(definition, query)
        return self._listed(definition, query)

    def _object(self, request: http_interface.Request, ref: meta.Ref, subresource: str) -> http_interface.Response:
        if request.method == "GET":
            return answered(200, self.known.get(ref))
        body = json.loads(request.body)
        if request.method == "PATCH":
            assert request.headers["content-type"] == client.MERGE
            return answered(200, self.known.patch(ref, body, subresource=subresource))
        assert request.method == "DELETE"
        self.known.delete(ref, body["preconditions"]["uid"])
        return answered(200, self.known.objects.get(ref, {"kind": "Status", "status": "Success"}))

    def _selection(
        self, definition: definitions.Definition, query: dict[str, str]
    ) -> Callable[[meta.Ref, object], bool]:
        label, _, value = query.get("labelSelector", "").partition("=")

        def fits(ref: meta.Ref, body: object) -> bool:
            assert isinstance(body, dict)
            labels = body["metadata"].get("labels", {})
            return (ref.group, ref.kind) == (definition.group, definition.kind) and (
                not label or labels.get(label) == value
            )

        return fits

    def _listed(self, definition: definitions.Definition, query: dict[str, str]) -> http_interface.Response:
        fits = self._selection(definition, query)
        bodies = [body for ref, body in sorted(self.known.objects.items()) if fits(ref, body)]
        begin = int(query.get("continue", 0))
        size = min(self.page, int(query.get("limit", 500)))
        metadata: dict[str, str] = {"resourceVersion": str(len(self.known.events))}
        if begin + size < len(bodies):
            metadata["continue"] = str(begin + size)
        return answered(200, {"metadata": metadata, "items": bodies[begin : begin + size]})

    def _watched(self, definition: definitions.Definition, query: dict[str, str]) -> http_interface.Response:
        since = int(query["resourceVersion"])
        if since < self.forgotten:
            raise server.RefusedError(410, "Expired")
        return http_interface.Response(200, b"", pieces=self._events(self._selection(definition, query), since))

    async def _events(self, fits: Callable[[meta.Ref, object], bool], position: int) -> AsyncGenerator[bytes, None]:
        cuts = self.cuts
        while True:
            changed = self.changed
            for kind, ref, body in self.known.events[position:]:
                if fits(ref, body):
                    line = json.dumps({"type": kind, "object": body}).encode()
                    # A piece ends where it likes.
                    yield line[:10]
                    yield line[10:] + b"\n"
            position = len(self.known.events)
            await changed.wait()
            if cuts != self.cuts:
                raise ConnectionResetError("cut")

    def _plain(self, request: http_interface.Request, path: str) -> http_interface.Response:
        """Leases and events: objects by path, and versions of them."""
        if request.method == "GET":
            return answered(200, self.plain[path]) if path in self.plain else refused(404, "NotFound")
        body = json.loads(request.body)
        if request.method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.plain:
                return refused(409, "AlreadyExists")
            return answered(201, self._kept(path, body))
        if request.method == "PATCH":
            return answered(200, self._kept(path, {**self.plain[path], **body}))
        if body["metadata"]["resourceVersion"] != server.metadata(self.plain[path])["resourceVersion"]:
            return refused(409, "Conflict")
        return answered(200, self._kept(path, body))

    def _kept(self, path: str, body: schema.Json) -> schema.Json:
        version = str(len(self.requests))
        self.plain[path] = {**body, "metadata": {**server.metadata(body), "resourceVersion": version}}
        return self.plain[path]

    def event_reasons(self, name: str) -> list[str]:
        """Return the reasons of the events about an object."""
        listed = [event for path, event in self.plain.items() if "/events/" in path]
        return [str(event["reason"]) for event in listed if _involved(event) == name]


def _involved(event: schema.Json) -> object:
    about = event["involvedObject"]
    assert isinstance(about, dict)
    return about["name"]


@dataclass
class SimulatedKubernetes:
    """A simulated world with an API server on the machine ``api``; ``start`` runs controllers on another."""

    world: simulated.World
    api: Api = field(default_factory=Api)
    made: dict[str, controllers.Controllers] = field(default_factory=dict)
    counts: dict[str, metrics.Metrics] = field(default_factory=dict)
    servers: list[interface.Server] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    async def open(self) -> None:
        network = self.world.machine("api").network
        opened = await network.serve_http("", PORT, self.api, tls=None, body_limit=1 << 20)
        self.servers.append(opened)

    def client(self, name: str, *, qps: float = 1000.0) -> client.Client:
        runtime = self.world.machine(name)
        target = kubeconfig.Access(host="api", port=PORT, is_tls=False)
        limit = rate_limit.RateLimit(runtime.clock, per_second=qps, burst=100)
        return client.Client(runtime, target, tls=None, limit=limit, counts=self.counts[name])

    def start(
        self,
        name: str = "c1",
        *,
        watch_filter: str = "",
        elects: bool = False,
        with_templates: bool = False,
        named_by_host: bool = False,
        cluster: cluster_ports.ClusterPorts | None = None,
    ) -> None:
        """Start controllers on a machine."""
        runtime = self.world.machine(name)
        self.counts[name] = metrics.Metrics()
        scope = reflector.Scope(watch_filter=watch_filter)
        running_controllers = controllers.Controllers(
            runtime,
            self.client(name),
            scope=scope,
            counts=self.counts[name],
            with_templates=with_templates,
            named_by_host=named_by_host,
            cluster=cluster,
        )
        self.made[name] = running_controllers
        lead = running_controllers.lead()
        if elects:
            elected = election.Election(runtime, self.client(name), namespace="default", counts=self.counts[name])
            lead.close()
            lead = elected.run(running_controllers.lead)
        for work in (running_controllers.run(), lead):
            runtime.spawn(work).add_done_callback(functools.partial(self._ended, name))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self.failures.append(error)

    def put(self, *bodies: schema.Json) -> None:
        """Create objects as a user."""
        for body in bodies:
            self.api.known.create(body)
        self.api.notify()

    def delete(self, ref: meta.Ref) -> None:
        """Delete an object as a user."""
        self.api.known.delete(ref)
        self.api.notify()

    def leads(self, name: str) -> bool:
        return "\ngantry_kube_leader 1.0\n" in self.metrics(name)

    def metrics(self, name: str) -> str:
        """Return what a scrape of a controller answers."""
        return exposition.response([*self.counts[name].collect()], "").body.decode()

    async def until(self, condition: Callable[[], bool], *, limit: float = 120.0) -> float:
        """Wait for a condition; return how many virtual seconds it took."""
        clock = self.world.clock
        began = clock.monotonic()
        while not condition():
            assert not self.failures
            assert clock.monotonic() - began < limit, "it did not come true"
            await clock.sleep(0.05)
        return clock.monotonic() - began

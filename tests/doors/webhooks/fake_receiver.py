"""A receiver of webhooks that does what a test wants, on a simulated machine; it checks each request it gets."""

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncGenerator, Callable, Mapping

from cloudevents.core.bindings import http as bindings
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1 import event as cloud_event

from gantry.daemons import remote
from gantry.doors import webhooks
from gantry.runtime import http_interface, interface, measures
from gantry.sim import cluster

Fault = Callable[[http_interface.Request], http_interface.Response | None]


@dataclasses.dataclass
class Receiver:
    """Accepts what it gets, unless ``fault`` returns another answer; each answer takes ``slow`` seconds."""

    machine: interface.Runtime
    port: int = 8000
    fault: Fault | None = None
    slow: float = 0.0
    requests: list[http_interface.Request] = dataclasses.field(default_factory=list)
    accepted: list[http_interface.Request] = dataclasses.field(default_factory=list)
    times: list[float] = dataclasses.field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/in?key=sesame"

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncGenerator[None, None]:
        server = await self.machine.network.serve_http(
            "localhost", self.port, self._answer, tls=None, body_limit=1 << 20
        )
        try:
            yield
        finally:
            await server.close()

    async def _answer(self, request: http_interface.Request) -> http_interface.Response:
        self.requests.append(request)
        self.times.append(self.machine.clock.monotonic())
        await self.machine.clock.sleep(self.slow)
        if self.fault and (answer := self.fault(request)):
            return answer
        self.accepted.append(request)
        return http_interface.Response(204, b"")

    @property
    def events(self) -> list[cloud_event.CloudEvent]:
        """What it has accepted, in order, as the CloudEvents library reads it."""
        return [parsed(request) for request in self.accepted]

    def about(self, kind: str) -> list[tuple[str, str]]:
        """The changes of objects of a kind that it has accepted: name and what happened."""
        data = [contents(event) for event in self.events]
        return [(str(each["name"]), str(each["what"])) for each in data if each.get("kind") == kind]


def parsed(request: http_interface.Request) -> cloud_event.CloudEvent:
    message = bindings.HTTPMessage(headers=dict(request.headers), body=request.body)
    event = bindings.from_structured(message, JSONFormat(), cloud_event.CloudEvent)
    assert isinstance(event, cloud_event.CloudEvent)
    return event


def contents(event: cloud_event.CloudEvent) -> Mapping[str, object]:
    data = event.get_data()
    assert isinstance(data, dict), data
    return data


def answers(*statuses: int, **headers: str) -> Fault:
    """Answer the next requests with these statuses, then accept."""
    left_over = list(statuses)

    def fault(_: http_interface.Request) -> http_interface.Response | None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return http_interface.Response(left_over.pop(0), b"", headers=named) if left_over else None

    return fault


@contextlib.asynccontextmanager
async def sending(
    lab: cluster.SimulatedCluster, machine: str = "", counts: measures.Measures | None = None
) -> AsyncGenerator[webhooks.Webhooks, None]:
    """Run the part of gantry-rapi that sends events; its end is that of a daemon that gets a signal."""
    runtime = lab.world.machine(machine) if machine else lab.master
    sender = remote.sender(runtime, cluster.FOLDERS, counts=counts)
    task = asyncio.create_task(sender.run())
    try:
        yield sender
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(lab: cluster.SimulatedCluster, condition: Callable[[], bool], *, seconds: float = 1000.0) -> None:
    end = lab.world.clock.monotonic() + seconds
    while not condition():
        assert lab.world.clock.monotonic() < end, "the condition has not come true"
        await lab.world.clock.sleep(0.1)


async def row(lab: cluster.SimulatedCluster, name: str, *fields: str) -> list[object]:
    answer = await lab.luxi("Query", "webhook", list(fields), ["=", "name", name])
    assert isinstance(answer, dict)
    (cells,) = answer["data"]
    return [value for _, value in cells]


def decoded(body: bytes) -> dict[str, object]:
    content = json.loads(body)
    assert isinstance(content, dict)
    return content

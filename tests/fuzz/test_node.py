"""The daemon of a node that has joined, under hostile calls of its master and of strangers.

The master's own calls are recorded while it works; each declared call is drawn from its type besides. Calls that end the
membership or the daemon are sent only in a form that cannot be decoded.
"""

import contextlib
import dataclasses
import ssl
from collections.abc import Awaitable, Callable, Iterator

import msgspec
import pytest
from tests.fuzz import doors, hostile

from gantry import security
from gantry.node.daemon import server as node_server
from gantry.node.daemon import wiring
from gantry.rpc import calls
from gantry.runtime import interface
from gantry.sim import cluster

KNOWN = ("node1", "vm1", "net1", "/gantry/x", "../x", "fake", "file", "diskless", "name", "192.0.2.9", "aa:00:00:00:00:01", "1")
ENDING = ("node_leave", "certificate_store", "master_stop", "forget")
"""Parts of the names of calls that end what is tested."""

PREFIX = "#/$defs/"
STRANGERS = (None, ssl.PEM_cert_to_DER_cert(security.make_bootstrap("stranger", 0.0).certificate.decode()))
HEADERS = (calls.EPOCH_HEADER, "host", "content-type", "content-length")


def _declared() -> dict[str, type[calls.Call[object]]]:
    """Return every declared call by its name on the wire."""
    found: dict[str, type[calls.Call[object]]] = {}
    waiting: list[type[calls.Call[object]]] = [calls.Call]
    while waiting:
        for each in waiting.pop().__subclasses__():
            waiting.append(each)
            if "__orig_bases__" in vars(each):
                found[each.procedure()] = each
    return found


@dataclasses.dataclass
class Node:
    """A node daemon, and the calls of its master that it has answered."""

    agent: node_server.Agent
    recorded: list[interface.HttpRequest]
    schemas: dict[str, tuple[hostile.Json, hostile.Schemas]]

    def request(self, number: int) -> interface.HttpRequest:
        """Return the call of a number."""
        chance = hostile.Chance("node", number)
        good = chance.choice(self.recorded)
        procedure = good.path.removeprefix("/")
        if chance.one_in(3):
            body = hostile.edited(chance, good.body)
        else:
            procedure = chance.choice(list(self.schemas))
            schema, schemas = self.schemas[procedure]
            body = hostile.body(chance, schemas.sample(chance, schema))
        if any(part in procedure for part in ENDING):
            body = b"[" + body
        path = f"/{procedure}" if not chance.one_in(20) else hostile.text(chance, ["/", f"//{procedure}", f"/{procedure}?x"])
        certificate = chance.choice(STRANGERS) if chance.one_in(10) else good.peer_certificate
        headers = {**good.headers, **hostile.headers(chance, HEADERS)}
        return interface.HttpRequest("GET" if chance.one_in(30) else "POST", path, body, headers, certificate)

    async def send(self, number: int) -> str:
        request = self.request(number)
        answer = await self.agent.answer(request)
        ok, content = msgspec.json.decode(answer.body, type=tuple[bool, object])
        assert ok or "ProgrammerError" not in str(content), (number, request, content)
        return str(answer.status)

    async def check(self) -> None:
        good = next(each for each in self.recorded if each.path == "/version")
        assert (await self.agent.answer(good)).status == 200


@contextlib.contextmanager
def start() -> Iterator[tuple[Node, Callable[[Awaitable[None]], None]]]:
    agents: list[node_server.Agent] = []
    recorded: dict[str, interface.HttpRequest] = {}
    make, answer = wiring.node, node_server.Agent.answer

    def node(*arguments: object, **options: object) -> node_server.Agent:
        agents.append(make(*arguments, **options))  # type: ignore[arg-type]
        return agents[-1]

    async def recording(self: node_server.Agent, request: interface.HttpRequest) -> interface.HttpResponse:
        recorded.setdefault(request.path, request)
        recorded[request.path] = request
        return await answer(self, request)

    with pytest.MonkeyPatch.context() as patch, cluster.SimulatedCluster(seed=1, nodes=1) as lab:
        patch.setattr(wiring, "node", node)
        patch.setattr(node_server.Agent, "answer", recording)
        lab.run(lab.build())
        lab.run(lab.done({"OP_ID": "OP_NETWORK_ADD", "network_name": "net1", "network": "192.0.2.0/24"}))
        vm = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm1", "disk_template": "file", "disks": [{"size": 64}], "no_install": True}
        lab.run(lab.done({**vm, "beparams": {"memory": 128}}))
        lab.run(lab.luxi("Query", "node", ["name", "dtotal"], None))
        lab.run(lab.done({"OP_ID": "OP_CLUSTER_VERIFY"}))
        patch.undo()
        schemas = {}
        for procedure, call in _declared().items():
            schema = msgspec.json.schema(call)
            definitions = schema.pop("$defs")
            schemas[procedure] = (schema, hostile.Schemas(definitions, KNOWN))
        yield Node(agents[0], list(recorded.values()), schemas), lab.run


def test_hostile_calls_are_refused_without_an_error_of_the_daemon() -> None:
    doors.check("node daemon", start)

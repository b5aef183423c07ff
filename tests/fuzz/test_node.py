"""The daemon of a node that has joined, under hostile calls of its master and of strangers.

The master's own calls are recorded while it works; each declared call is drawn from its type besides. Calls that end
the membership or the daemon are sent only in a form that cannot be decoded.
"""

import contextlib
import dataclasses
import ssl
from collections.abc import Iterator

import msgspec
import pytest
from tests.fuzz import doors, hostile, http

from gantry import security
from gantry.node.daemon import server as node_server
from gantry.node.daemon import wiring
from gantry.rpc import calls
from gantry.rpc.calls import reach
from gantry.runtime import http_interface, simulated
from gantry.sim import cluster

KNOWN = (
    "node1",
    "vm1",
    "net1",
    "/gantry/x",
    "../x",
    "fake",
    "file",
    "diskless",
    "name",
    "192.0.2.9",
    "aa:00:00:00:00:01",
    "1",
)
ENDING = ("/node_leave", "/certificate_store", "/stop_master", "/node_demote", "/upload_file", "/test_delay")
"""Calls that end what is tested (the membership, the master, its permission to call) or last as long as they say."""

STRANGERS = (None, ssl.PEM_cert_to_DER_cert(security.make_bootstrap("stranger", 0.0).certificate.decode()))
SECRET = "5" * 48
"""The secret of an open invitation."""

EPOCH = "newest"
"""Stands for the newest epoch that the node knows."""

HEADERS = (calls.EPOCH_HEADER, reach.HEADER, "host", "content-type", "content-length")


@dataclasses.dataclass
class FuzzedDaemon:
    """A node daemon, and the calls of its master that it has answered."""

    agent: node_server.Agent
    recorded: list[http_interface.Request]
    schemas: dict[str, tuple[hostile.Json, hostile.Schemas]]
    machine: simulated.SimulatedRuntime
    files: dict[str, bytes]
    ahead: int = 0

    def request(self, number: int) -> http_interface.Request:
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
        if f"/{procedure}" in ENDING:
            body = b"[" + body
        path = f"/{procedure}"
        if chance.one_in(20):
            path = hostile.text(chance, ["/", f"/{path}", f"{path}?x"])
        certificate = chance.choice(STRANGERS) if chance.one_in(10) else good.peer_certificate
        headers = {**good.headers, calls.EPOCH_HEADER: EPOCH, **hostile.headers(chance, HEADERS)}
        return http_interface.Request("GET" if chance.one_in(30) else "POST", path, body, headers, certificate)

    async def send(self, number: int) -> str:
        if number % http.RESTORED == 0:
            for path, content in self.files.items():
                await self.machine.disk.write(path, content)
        request = self.request(number)
        if request.headers.get(calls.EPOCH_HEADER) == EPOCH:
            headers = {**request.headers, calls.EPOCH_HEADER: str(self.agent._barrier.epoch() + self.ahead)}
            request = dataclasses.replace(request, headers=headers)
        answer = await self.agent.answer(request)
        ok, reason = msgspec.json.decode(answer.body, type=tuple[bool, object])
        assert ok or "ProgrammerError" not in str(reason), (number, request, reason)
        # A message may have raised the epoch in the name of another master.
        self.ahead = int(answer.status == 412)
        return str(answer.status)

    async def check(self) -> None:
        for path, content in self.files.items():
            await self.machine.disk.write(path, content)
        good = next(each for each in self.recorded if each.path == "/version")
        answer = await self.agent.answer(good)
        assert answer.status == 200, answer


async def visit(lab: cluster.SimulatedCluster, agent: node_server.Agent) -> None:
    """Make the two calls of a machine with an invitation, which is refused for its join token."""
    secret_hash = security.invitation.hash_of(SECRET)
    await lab.done({"OP_ID": "OP_NODE_INVITE", "node_name": "node9", "secret_hash": secret_hash})
    prove = calls.ProveInvitation(invitation=security.invitation.id_of(secret_hash), nonce="0" * 64)
    use = calls.UseInvitation(secret=SECRET, join_token="none", node="node9", address="192.0.2.9")
    for call, status in ((prove, 200), (use, 400)):
        request = http_interface.Request("POST", f"/{call.procedure()}", msgspec.json.encode(call))
        answer = await lab.master.spawn(agent.answer(request))
        assert answer.status == status, answer


@contextlib.contextmanager
def start() -> Iterator[tuple[FuzzedDaemon, doors.Run]]:
    agents: list[node_server.Agent] = []
    recorded: dict[str, http_interface.Request] = {}
    make, answer = wiring.node, node_server.Agent.answer

    def node(*arguments: object, **options: object) -> node_server.Agent:
        agents.append(make(*arguments, **options))  # type: ignore[arg-type]
        return agents[-1]

    async def recording(self: node_server.Agent, request: http_interface.Request) -> http_interface.Response:
        recorded[request.path] = request
        return await answer(self, request)

    with pytest.MonkeyPatch.context() as patch, cluster.SimulatedCluster(seed=1, nodes=1) as lab:
        patch.setattr(wiring, "node", node)
        patch.setattr(node_server.Agent, "answer", recording)
        lab.run(lab.build())
        lab.run(lab.done({"OP_ID": "OP_NETWORK_ADD", "network_name": "net1", "network": "192.0.2.0/24"}))
        vm = {
            "OP_ID": "OP_INSTANCE_CREATE",
            "instance_name": "vm1",
            "disk_template": "file",
            "disks": [{"size": 64}],
            "no_install": True,
        }
        lab.run(lab.done({**vm, "beparams": {"memory": 128}}))
        lab.run(lab.luxi("Query", "node", ["name", "dtotal"], None))
        lab.run(lab.done({"OP_ID": "OP_CLUSTER_VERIFY"}))
        lab.run(visit(lab, agents[0]))
        patch.undo()
        schemas = {}
        for call in calls.ALL:
            schema = msgspec.json.schema(call)
            definitions = schema.pop("$defs")
            schemas[call.procedure()] = (schema, hostile.Schemas(definitions, KNOWN))
        disk, folder = lab.master.disk, cluster.FOLDERS.ssconf
        files = {f"{folder}/{name}": disk.read(f"{folder}/{name}") for name in disk.names(folder)}
        yield FuzzedDaemon(agents[0], list(recorded.values()), schemas, lab.master, files), lab.run


def test_hostile_calls_are_refused_without_an_error_of_the_daemon() -> None:
    doors.check("node daemon", start)

"""The framing of LUXI under any bytes: answers in order, or an end; never a hang, and the master continues."""

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors import talk
from tests.fuzz import budget, damage, doors, hostile

from gantry.doors import luxi
from gantry.model import opcodes
from gantry.runtime import bytestream
from gantry.sim import cluster

ETX = b"\x03"
LIMIT = 20_000


@pytest.fixture(scope="module")
def lab() -> Iterator[cluster.SimulatedCluster]:
    with pytest.MonkeyPatch.context() as patch, cluster.SimulatedCluster(seed=1, nodes=1) as simulated:
        patch.setattr(luxi, "MESSAGE_LIMIT", LIMIT)
        simulated.run(simulated.build())
        yield simulated


def _request(method: str, *arguments: object) -> bytes:
    return json.dumps({"method": method, "args": arguments}).encode()


GOOD = [
    _request("QueryConfigValues", ["cluster_name"]),
    _request("QueryFields", "node", ["name"]),
    _request("Query", "node", ["name"], ["=", "name", "node1"]),
    _request("QueryJobs", None, ["id"]),
    _request("QueryTags", "cluster", ""),
    _request("NoSuchMethod"),
]


ALL = [
    _request(method, *json.loads(json.dumps(arguments).replace('"job"', "1")))
    for method, arguments in talk.METHODS.items()
]


async def _send(lab: cluster.SimulatedCluster, pieces: list[bytes]) -> list[bytes]:
    """Send pieces, and return all complete answers until none comes for a second."""
    reader, writer = await lab.master.network.connect_unix(cluster.FOLDERS.luxi_socket, limit=1 << 24)
    answers = []
    try:
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        while True:
            async with asyncio.timeout(1):
                answers.append((await reader.readuntil(ETX))[:-1])
    except (asyncio.IncompleteReadError, TimeoutError):
        return answers
    finally:
        writer.close()


def _pieces(stream: bytes, cuts: list[float]) -> list[bytes]:
    positions = sorted({int(cut * len(stream)) for cut in cuts})
    return [stream[start:stop] for start, stop in zip([0, *positions], [*positions, len(stream)], strict=True)]


CUTS = st.lists(st.floats(0, 1), max_size=6)


def _check(lab: cluster.SimulatedCluster, stream: bytes, cuts: list[float]) -> list[bytes]:
    answers = lab.run(_send(lab, _pieces(stream, cuts)))
    assert len(answers) <= stream.count(ETX) + 1
    for answer in answers:
        decoded = json.loads(answer)
        assert set(decoded) == {"success", "result"}
        assert "ProgrammerError" not in answer.decode()
    (alive,) = lab.run(_send(lab, [GOOD[0] + ETX]))
    assert json.loads(alive)["result"] == ["lab.example"]
    return answers


@budget.slow
@given(stream=st.binary(max_size=2 * LIMIT), cuts=CUTS)
def test_any_bytes_are_answered_or_cut_off(lab: cluster.SimulatedCluster, stream: bytes, cuts: list[float]) -> None:
    _check(lab, stream, cuts)


@budget.slow
@given(messages=st.lists(st.sampled_from(GOOD), max_size=8), cuts=CUTS)
def test_pipelined_requests_have_one_answer_each_in_order(
    lab: cluster.SimulatedCluster, messages: list[bytes], cuts: list[float]
) -> None:
    answers = _check(lab, b"".join(message + ETX for message in messages), cuts)
    alone = {message: lab.run(_send(lab, [message + ETX]))[0] for message in messages}
    assert answers == [alone[message] for message in messages]


@budget.slow
@given(messages=st.lists(st.sampled_from(GOOD + ALL), min_size=1, max_size=5), edit=damage.edited(), cuts=CUTS)
def test_damaged_requests_are_answered_or_cut_off(
    lab: cluster.SimulatedCluster, messages: list[bytes], edit: damage.Edit, cuts: list[float]
) -> None:
    _check(lab, edit(b"".join(message + ETX for message in messages)), cuts)


KNOWN = (
    "node1",
    "vm1",
    "net1",
    "default",
    "name",
    "status",
    "cluster",
    "instance",
    "node",
    "id",
    "192.0.2.0/24",
    "=",
    "|",
    "&",
    "!",
)
FILTERS = (
    ["=", "name", "vm1"],
    ["|", ["=~", "name", "(a+)+$"], ["?", "tags"]],
    ["!", ["=[]", "tags", "x"]],
    ["&", [">", "mtime", 1]],
)
FITTING = {
    "instance_name": ("vm1", "vm2"),
    "network_name": ("net1", "net2"),
    "group_name": ("default", "group2"),
    "node_name": ("node1",),
    "disk_template": ("diskless", "file"),
    "network": ("198.51.100.0/24", "net1"),
    "duration": (0,),
    "tags": (["x"],),
    "name": ("vm1",),
}
ENDING = ("OP_CLUSTER_DESTROY", "OP_NODE_REMOVE", "OP_CLUSTER_RENEW_CRYPTO", "OP_CLUSTER_POST_INIT")


@dataclasses.dataclass
class Door:
    """A master's socket: a request is drawn by its number from the methods and the opcodes."""

    lab: cluster.SimulatedCluster
    opcodes: tuple[object, hostile.Schemas]
    streams: tuple[bytestream.Reader, bytestream.Writer] | None = None

    def message(self, number: int) -> bytes:
        """Return the request of a number."""
        chance = hostile.Chance("luxi", number)
        if chance.one_in(10):
            return hostile.edited(chance, chance.choice(GOOD + ALL)).replace(ETX, b"")
        method = chance.choice(list(talk.METHODS))
        if chance.one_in(3):
            method = "SubmitJob"
        values: object = [1 if argument == "job" else argument for argument in talk.METHODS[method]]
        if method in OF_OPCODES:
            kind, schemas = self.opcodes
            ops = [schemas.sample(chance, kind) for _ in range(chance.choice((1, 1, 2)))]
            values = [[ops] if method == "SubmitManyJobs" else ops, *([10] if method == "RunJob" else [])]
        elif method == "QueryJobs":
            values = [chance.choice((None, [1, 2])), ["id", "status", "ops", "opresult", "summary"]]
        elif method == "Query":
            values = [chance.choice(("instance", "node", "network", "job", "lock")), ["name"], chance.choice(FILTERS)]
        arguments = hostile.body(chance, values).replace(ETX, b"")
        if any(op.encode() in arguments for op in ENDING):
            arguments = b"[]"
        return b'{"method": %s, "args": %s}' % (json.dumps(method).encode(), arguments)

    async def send(self, number: int) -> str:
        if number % 50 == 0:
            await self.restore()
        if self.streams is None:
            self.streams = await self.lab.master.network.connect_unix(cluster.FOLDERS.luxi_socket, limit=1 << 24)
        reader, writer = self.streams
        message = self.message(number)
        writer.write(message + ETX)
        answer = (await reader.readuntil(ETX))[:-1]
        assert b"ProgrammerError" not in answer, (number, message, answer)
        if b"Failed to parse request" in answer or b"message is longer" in answer:
            writer.close()
            self.streams = None
            return "4xx"
        return "200" if json.loads(answer)["success"] else "4xx"

    async def restore(self) -> None:
        """Create a network and an instance where there is none, archive jobs that have ended, let jobs begin."""
        await self.lab.luxi("SetDrainFlag", False)
        for op in (
            {"OP_ID": "OP_NETWORK_ADD", "network_name": "net1", "network": "192.0.2.0/24"},
            {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm1", "disk_template": "diskless", "start": False},
        ):
            await self.lab.submit(op)
        await self.lab.luxi("AutoArchiveJobs", -1, 10)

    async def check(self) -> None:
        assert await self.lab.luxi("QueryConfigValues", ["cluster_name"]) == ["lab.example"]


OF_OPCODES = ("SubmitJob", "SubmitManyJobs", "SubmitJobToDrainedQueue", "RunJob")


def _schemas(schema: hostile.Json) -> hostile.Schemas:
    definitions = msgspec.convert(schema.get("$defs", {}), hostile.Json)
    return hostile.Schemas(definitions, KNOWN, fitting=FITTING)


@contextlib.contextmanager
def start() -> Iterator[tuple[Door, doors.Run]]:
    whole = msgspec.json.schema(opcodes.AnyOpcode)
    with cluster.SimulatedCluster(seed=1, nodes=1) as lab:
        lab.run(lab.build())
        yield Door(lab, (whole, _schemas(whole))), lab.run


def test_hostile_messages_are_refused_without_an_error_of_the_master() -> None:
    doors.check("LUXI", start)

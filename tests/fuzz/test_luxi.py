"""The framing of LUXI under any bytes: answers in order, or an end; never a hang, and the master goes on."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors import talk
from tests.fuzz import budget, damage

from gantry.doors import luxi
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

"""Invalid requests: each gets one clear answer, and the master continues."""

import json
from collections.abc import Iterator

import msgspec
import pytest
from tests.doors import talk
from tests.doors.talk import DELAY, LONG, METHODS

from gantry import errors
from gantry.doors.luxi import queries
from gantry.jobs import queue
from gantry.sim import cluster

HUGE = [b"1" + b"0" * 400, b"1e999", b"-1e999", b"18446744073709551616", b"-9223372036854775809", b"1e308", b"-0.0"]
DEEP = [b"[" * 900 + b"]" * 900, b'{"a":' * 900 + b"1" + b"}" * 900]
DEEPER = [b"[" * 10_000 + b"]" * 10_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000]
QUERY_SECONDS = 10.0
"""In which a query is answered, whatever nodes do; far less than a call to a node may take."""
UNREADABLE = "Failed to parse request"


@pytest.fixture(autouse=True)
def still_answers(lab: cluster.SimulatedCluster) -> Iterator[None]:
    yield
    lab.run(lab.luxi("SetDrainFlag", False))
    assert lab.run(lab.luxi("QueryConfigValues", ["cluster_name"])) == ["lab.example"]


def _with(method: str, index: int, value: bytes) -> bytes:
    """Return a request whose argument at ``index`` is ``value``."""
    arguments = [json.dumps(argument).encode().replace(b'"job"', b"1") for argument in METHODS[method]]
    arguments[index] = value
    return b'{"method": "%s", "args": [%s]}\x03' % (method.encode(), b", ".join(arguments))


def _arguments() -> list[tuple[str, int]]:
    return [(method, index) for method, arguments in METHODS.items() for index in range(len(arguments))]


@pytest.mark.parametrize(("method", "index"), _arguments())
def test_huge_numbers_and_deep_nesting_do_not_cause_internal_errors(
    lab: cluster.SimulatedCluster, method: str, index: int
) -> None:
    for value in (*HUGE, *DEEP):
        for form in (b"%s", b"[%s]", b"[[%s]]", b'[{"OP_ID": %s}]', b'[{"OP_ID": "OP_TEST_DELAY", "duration": %s}]'):
            first, *_ = talk.ask(lab, _with(method, index, form % value))
            assert "ProgrammerError" not in str(first["result"]), (form, value[:20])


@pytest.mark.parametrize(("method", "index"), _arguments())
def test_ten_thousand_levels_of_nesting_are_refused(lab: cluster.SimulatedCluster, method: str, index: int) -> None:
    for value in DEEPER:
        wrong, end = talk.ask(lab, _with(method, index, value))
        assert str(wrong["result"]).startswith(UNREADABLE)
        assert end["result"] == "end"


@pytest.mark.parametrize(("method", "index"), _arguments())
def test_a_number_of_a_thousand_digits_is_refused(lab: cluster.SimulatedCluster, method: str, index: int) -> None:
    wrong, end = talk.ask(lab, _with(method, index, b"1" * 1000))
    assert str(wrong["result"]) == f"{UNREADABLE}: a number has more than 300 digits"
    assert end["result"] == "end"


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ({"OP_ID": "OP_NOTHING"}, "'OP_NOTHING' is not a valid value"),
        ({}, "missing required field `OP_ID`"),
        ({"OP_ID": None}, "OP_ID"),
        ({"OP_ID": "OP_TEST_DELAY"}, "missing required field `duration`"),
        ({"OP_ID": "OP_INSTANCE_CREATE"}, "missing required field"),
        ({**DELAY, "colour": "red"}, "colour"),
        ({**DELAY, "priority": 20}, "priority"),
        ({**DELAY, "depends": [[1]] * 3 + [["x"]]}, "depends[3]"),
        ({**DELAY, "depends": [[1, ["running"]]]}, "running"),
        ({**DELAY, "duration": -1}, "duration"),
        ({**DELAY, "duration": True}, "duration"),
        ([], "opcode"),
        ("OP_TEST_DELAY", "opcode"),
        (None, "opcode"),
    ],
)
def test_an_invalid_opcode_is_refused_with_the_reason(lab: cluster.SimulatedCluster, op: object, message: str) -> None:
    for method in ("SubmitJob", "SubmitJobToDrainedQueue"):
        name, text = talk.failure(lab, method, [DELAY, op])
        assert name == "OpPrereqError"
        assert message in text or "arguments of" in text
    before = lab.run(lab.luxi("QueryJobs", None, ["id"]))
    talk.ask(lab, talk.request("SubmitManyJobs", [[DELAY, op]]))
    assert lab.run(lab.luxi("QueryJobs", None, ["id"])) == before


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (talk.request("SubmitJob", [{**DELAY, "depends": [[1, ["running"]]]}]), "depends[0][1][0]: 'running' is not a"),
        (talk.request("SubmitJob", [{**DELAY, "duration": "long"}]), "duration: must be a number, not a text"),
        (
            talk.request("Query", "job", "id", None),
            "arguments of Query are not valid: item 2: must be a list, not a text",
        ),
        (b'{"method": 5, "args": []}\x03', "Failed to parse request: method: must be a text, not a whole number"),
    ],
)
def test_a_refusal_names_the_field_as_the_client_does(
    lab: cluster.SimulatedCluster, request_: bytes, text: str
) -> None:
    first, *_ = talk.ask(lab, request_)
    assert text in str(first["result"])
    assert "$" not in str(first["result"])


def test_a_job_of_ten_thousand_opcodes_is_refused_with_the_limit(lab: cluster.SimulatedCluster) -> None:
    # The shortest opcode, because the limit of messages is low in these tests.
    op = b'{"OP_ID":"OP_CLUSTER_VERIFY"}'
    count = talk.LIMIT // (len(op) + 1) - 10
    (answer,) = talk.ask(lab, b'{"method": "SubmitJob", "args": [[' + b",".join([op] * count) + b"]]}\x03")
    assert f"a job of {count} opcodes is too long, the maximum is {queue.OPCODE_LIMIT}" in str(answer["result"])


@pytest.mark.parametrize("offset", [0, 1, 10**6, 10**30])
def test_a_dependency_leads_to_an_earlier_job(lab: cluster.SimulatedCluster, offset: int) -> None:
    last = lab.run(lab.submit(DELAY))
    name, message = talk.failure(lab, "SubmitJob", [{**DELAY, "depends": [[last + 1 + offset, []]]}])
    assert name == "OpPrereqError"
    # A number beyond 64 bits is not a job number.
    assert "which does not exist" in message or "depends" in message


@pytest.mark.parametrize("offset", [-1, -(10**9)])
def test_a_relative_dependency_stays_in_its_submission(lab: cluster.SimulatedCluster, offset: int) -> None:
    name, message = talk.failure(lab, "SubmitJob", [{**DELAY, "depends": [[offset, []]]}])
    assert (name, "before the first job of the submission" in message) == ("OpPrereqError", True)


def test_a_request_that_does_not_fit_the_state_of_a_job_changes_nothing(lab: cluster.SimulatedCluster) -> None:
    ended = lab.run(lab.submit(DELAY))
    lab.run(lab.wait(ended))
    running = lab.run(lab.submit(LONG))
    lab.run(lab.world.clock.sleep(1))
    cancel = msgspec.convert(lab.run(lab.luxi("CancelJob", ended)), tuple[bool, str])
    assert cancel == (False, f"Job {ended} is no longer waiting in the queue (success)")
    assert lab.run(lab.luxi("ArchiveJob", running)) is False
    moved = msgspec.convert(lab.run(lab.luxi("ChangeJobPriority", ended, 1)), tuple[bool, str])
    assert moved == (False, f"Job {ended} has no opcodes that wait (success)")
    with pytest.raises(errors.InvalidError, match="not in the range"):
        lab.run(lab.luxi("ChangeJobPriority", running, 20))
    assert lab.run(lab.luxi("QueryJobs", [ended, running], ["status"])) == [["success"], ["running"]]
    assert lab.run(lab.wait(running))[0] == "success"
    assert lab.run(lab.luxi("ArchiveJob", ended)) is True
    for method in ("CancelJob", "ArchiveJob"):
        assert talk.failure(lab, method, ended)[0] == "JobLost"


@pytest.mark.parametrize("limit", [0, -1, queries.ROW_LIMIT + 1, 1 << 64])
def test_the_limit_of_rows_has_a_maximum(lab: cluster.SimulatedCluster, limit: int) -> None:
    name, message = talk.failure(lab, "QueryNetworkHistory", "net1", None, None, limit)
    assert name == "OpPrereqError"
    assert "is not between 1 and" in message


@pytest.mark.parametrize("memory", [10**299, 1 << 64, "9" * 100])
def test_a_huge_number_is_refused_as_a_parameter(lab: cluster.SimulatedCluster, memory: object) -> None:
    op = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "big.example", "disk_template": "diskless"}
    number = lab.run(lab.submit({**op, "beparams": {"memory": memory}, "start": False}))
    status, results = lab.run(lab.wait(number))
    assert status == "error"
    assert "the number is above" in str(results)


@pytest.mark.promise("cluster-15")
def test_a_query_is_answered_in_time_though_a_node_is_silent_and_every_lock_is_held() -> None:
    with cluster.SimulatedCluster(seed=2, nodes=3) as lab:
        lab.run(lab.build())
        lab.run(lab.submit({**LONG, "duration": 5000, "on_nodes": ["node1", "node2", "node3"]}))
        lab.run(lab.world.clock.sleep(1))
        # Its messages are lost, so nothing but a time limit ends the wait for its answer.
        lab.world.network.partition("node1", "node3")
        for fields, known in ((["name"], 3), (["name", "dtotal"], 2)):
            begin = lab.world.clock.monotonic()
            answer = lab.run(lab.luxi("Query", "node", fields, None))
            assert isinstance(answer, dict)
            assert lab.world.clock.monotonic() - begin < QUERY_SECONDS
            assert [cells[-1][0] for cells in answer["data"]].count(0) == known

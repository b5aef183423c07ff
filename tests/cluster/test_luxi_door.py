"""What the master's socket does with clients that do not keep to the protocol."""

import json
import socket
from pathlib import Path

import pytest
from tests.cluster import lab


def _alive(cluster: lab.Lab) -> None:
    assert cluster.answers()


@pytest.mark.promise("cluster-16", "cluster-18")
def test_bytes_that_are_no_json_are_answered_and_end_the_connection(shared: lab.Lab) -> None:
    with shared.luxi() as luxi:
        luxi.send(b"this is no JSON\x03")
        answer = json.loads(luxi.receive())
        assert answer["success"] is False
        assert answer["result"].startswith("Failed to parse request")
        assert luxi.receive() == b""
    _alive(shared)


def test_a_message_of_a_gigabyte_is_cut_off_without_being_kept(shared: lab.Lab) -> None:
    part, sent = b"x" * (1 << 20), 0
    with shared.luxi() as luxi:
        try:
            for _ in range(1024):
                luxi.send(part)
                sent += len(part)
        except OSError:
            pass
        assert sent < 256 << 20
    pid = shared.master_pid()
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    resident = int(next(line for line in status if line.startswith("VmHWM")).split()[1])
    assert resident < 600 * 1024, f"{resident} KiB"
    _alive(shared)


@pytest.mark.slow
def test_a_request_of_the_longest_length_costs_bounded_memory(own: lab.Lab) -> None:
    with own.luxi() as luxi:
        luxi.send(b'{"method": "SubmitJob", "args": [[' + b"{}," * ((16 << 20) // 3 - 100) + b"{}]]}\x03")
        answer = json.loads(luxi.receive())
    assert (answer["success"], answer["result"][0]) == (False, "OpPrereqError")
    status = Path(f"/proc/{own.master_pid()}/status").read_text().splitlines()
    resident = int(next(line for line in status if line.startswith("VmHWM")).split()[1])
    assert resident < 1024 * 1024, f"{resident} KiB"
    _alive(own)


def test_a_client_that_disconnects_in_the_middle_of_a_message_does_no_harm(shared: lab.Lab) -> None:
    for _ in range(20):
        with shared.luxi() as luxi:
            luxi.send(b'{"method": "SubmitJob", "args": [[{"OP_ID": "OP_TEST_DEL')
    with shared.luxi() as luxi:
        luxi.send(b'{"method": "QueryClusterInfo", "args": []}\x03')
        luxi.socket.shutdown(socket.SHUT_RDWR)
    _alive(shared)


@pytest.mark.promise("cluster-17", "cluster-19")
@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("NoSuchMethod", [], "LuxiError"),
        ("SubmitJob", ["not a list"], "OpPrereqError"),
        ("SubmitJob", [[]], "OpPrereqError"),
        ("SubmitJob", [[{"OP_ID": "OP_NOTHING"}]], "OpPrereqError"),
        ("SubmitJob", [[{"OP_ID": "OP_TEST_DELAY", "duration": 1, "colour": "red"}]], "OpPrereqError"),
        ("WaitForJobChange", [987654, ["status"], None, None, 1], "JobLost"),
        ("Query", ["weather", ["name"], None], "OpPrereqError"),
        ("Query", ["instance", ["name"], ["%", "name", 1]], "QueryFilterParseError"),
        ("QueryInstances", [[], ["name"], True], "OpPrereqError"),
        ("QueryInstances", [[], ["colour"], False], "OpPrereqError"),
    ],
)
def test_faults_have_the_classes_that_clients_know(
    shared: lab.Lab, method: str, arguments: list[object], error: str
) -> None:
    with shared.luxi() as luxi:
        success, result = luxi.exchange(method, *arguments)
        assert not success
        assert isinstance(result, list)
        assert result[0] == error
        assert isinstance(result[1], list)


@pytest.mark.promise("cluster-13")
def test_the_socket_is_closed_to_others(shared: lab.Lab) -> None:
    mode = (shared.master / "run/master.sock").stat().st_mode & 0o777
    assert mode == 0o660


@pytest.mark.promise("cluster-20")
def test_waiting_without_a_change_answers_nochange(shared: lab.Lab) -> None:
    with shared.luxi() as luxi:
        number = luxi.value("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 90}])
        fields = ["status"]
        status = "queued"
        while status != "running":
            answer = luxi.value("WaitForJobChange", number, fields, [status], None, 60)
            assert isinstance(answer, list)
            (status,) = answer[0]
        assert luxi.value("WaitForJobChange", number, fields, ["running"], 99, 0.2) == "nochange"

import json
import os
import signal
import socket
import threading
from pathlib import Path

import pytest
from tests.cli.conftest import ETX, Fault, Gnt, Master

from gantry.cli import client, errors, machine


@pytest.fixture
def luxi(master: Master) -> client.Client:
    return client.Client()


def test_a_request_is_json_and_a_byte_and_answers_come_in_order(luxi: client.Client, master: Master) -> None:
    master.answers["Echo"] = lambda *arguments: list(arguments)
    assert [luxi.call("Echo", number, "ä") for number in range(3)] == [[0, "ä"], [1, "ä"], [2, "ä"]]
    assert master.requests[0] == ("Echo", [0, "ä"])


def test_a_text_that_is_not_utf8_is_refused_before_it_is_sent(gnt: Gnt, master: Master) -> None:
    """As a terminal of ISO 8859-1 sends it: Python keeps each byte that is not UTF-8 as half a surrogate pair."""
    ran = gnt("gnt-network info n\udce4tz")
    assert ran.code == 1
    assert "'\\udce4' in the request is not a character of UTF-8; set terminal and locale to UTF-8" in ran.err
    assert master.requests == []


def test_a_character_beyond_the_first_plane_is_sent(luxi: client.Client, master: Master) -> None:
    master.answers["Echo"] = lambda text: text
    assert luxi.call("Echo", "\U0001f600 \u2028") == "\U0001f600 \u2028"


def test_a_big_answer_is_put_together(luxi: client.Client, master: Master) -> None:
    master.answers["Big"] = "x" * 3_000_000
    assert luxi.call("Big") == "x" * 3_000_000


@pytest.mark.promise("cluster-19")
def test_an_error_keeps_its_class_and_arguments(luxi: client.Client, master: Master) -> None:
    def refuse() -> None:
        raise Fault("OpPrereqError", "there is no node5", "unknown_entity")

    master.answers["Fail"] = refuse
    with pytest.raises(errors.ServerError) as caught:
        luxi.call("Fail")
    assert (caught.value.name, caught.value.arguments) == ("OpPrereqError", ["there is no node5", "unknown_entity"])


@pytest.mark.parametrize("answer", [b"no json" + ETX, b"[1, 2]" + ETX, json.dumps({"result": 1}).encode() + ETX])
def test_an_invalid_answer_is_reported_in_one_line(luxi: client.Client, master: Master, answer: bytes) -> None:
    master.answers["Odd"] = answer
    with pytest.raises(errors.CommandError, match="unexpected answer"):
        luxi.call("Odd")


def test_a_daemon_that_closes_the_connection_is_reported(luxi: client.Client, master: Master) -> None:
    def hang_up() -> None:
        raise ConnectionError

    master.answers["Bye"] = hang_up
    with pytest.raises(errors.ConnectionLostError, match="lost the connection"):
        luxi.call("Bye")
    master.answers["Back"] = 5
    assert luxi.call("Back") == 5


@pytest.mark.usefixtures("interrupts")
def test_the_answer_to_an_interrupted_request_is_not_taken_for_that_of_the_next(
    luxi: client.Client, master: Master
) -> None:
    interrupted, caller = threading.Event(), threading.get_ident()

    def first() -> str:
        signal.pthread_kill(caller, signal.SIGINT)
        interrupted.wait()
        return "first"

    master.answers |= {"First": first, "Second": "second"}
    with pytest.raises(KeyboardInterrupt):
        luxi.call("First")
    interrupted.set()
    assert luxi.call("Second") == "second"


def test_a_socket_that_refuses_is_tried_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = machine.master_socket()
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(path)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            os.unlink(path)
            Master(path).answers["Ping"] = "pong"

    monkeypatch.setattr("gantry.cli.client.time.sleep", pause)
    assert client.Client().call("Ping") == "pong"
    assert pauses == [client.BACK_OFF_SECONDS] * 3
    dead.close()


def test_a_socket_that_goes_on_refusing_is_a_failure(root: Path, gnt: Gnt, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(machine.master_socket())
        monkeypatch.setattr("gantry.cli.client.time.sleep", lambda _: None)
        ran = gnt("gnt-instance list")
    assert ran.code == 1
    assert ran.err.startswith("Failure: the master daemon does not answer on ")


def test_without_a_cluster_the_exit_code_is_5(gnt: Gnt) -> None:
    ran = gnt("gnt-instance list")
    assert (ran.code, ran.out) == (5, "")
    assert "not part of a cluster" in ran.err
    assert "gnt-cluster init" in ran.err


def test_away_from_the_master_the_exit_code_is_11_and_the_master_is_named(root: Path, gnt: Gnt) -> None:
    (root / "lib/ssconf/ssconf_master_node").write_text("node7\n")
    (root / "lib/ssconf/ssconf_node_primary_ips").write_text("node1 127.0.0.1\nnode7 192.0.2.7\n")
    ran = gnt("gnt-instance list")
    assert ran.code == 11
    assert "this is not the master node; the master is node7" in ran.err.replace("Failure: ", "")
    assert gnt("gnt-cluster getmaster") == (0, "node7\n", "")


def test_on_the_master_a_daemon_that_is_down_is_reported(root: Path, gnt: Gnt) -> None:
    (root / "lib/ssconf/ssconf_master_node").write_text("node7")
    (root / "lib/ssconf/ssconf_node_primary_ips").write_text("node7 127.0.0.1")
    ran = gnt("gnt-instance list")
    assert ran.code == 1
    assert "master daemon is not running" in ran.err
    assert "gantry-masterd" in ran.err


def test_waiting_for_a_slow_master_times_out(
    luxi: client.Client, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_TIMEOUT_SECONDS", 0.05)
    release = threading.Event()
    master.answers["Slow"] = release.wait
    with pytest.raises(errors.CommandError, match="did not answer Slow"):
        luxi.call("Slow")
    release.set()


def _refusal(seconds: int) -> bytes:
    reason = ["OpPrereqError", ["the master daemon refuses the message", "temp_insufficient_resources"]]
    return json.dumps({"success": False, "result": reason, "retry_after": seconds}).encode() + ETX


def test_a_daemon_with_too_many_connections_is_asked_again_after_the_time_that_it_says(
    luxi: client.Client, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[object] = [_refusal(1), _refusal(3600), "pong"]
    pauses: list[float] = []
    monkeypatch.setattr("gantry.cli.client.time.sleep", pauses.append)
    master.answers["Ping"] = lambda: answers.pop(0)
    assert luxi.call("Ping") == "pong"
    assert pauses == [1, client.MAX_BUSY_SECONDS]


def test_a_daemon_that_always_has_too_many_connections_is_a_failure(
    luxi: client.Client, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gantry.cli.client.time.sleep", lambda _: None)
    master.answers["Ping"] = _refusal(1)
    with pytest.raises(errors.ServerError, match="the master daemon refuses the message"):
        luxi.call("Ping")
    assert len(master.requests) == client.BUSY_ATTEMPTS

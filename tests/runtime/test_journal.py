"""Log records as datagrams of the journal."""

import logging
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gantry.runtime import request_ids
from gantry.runtime.real import journal


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.bind(str(tmp_path / "journal"))
        own.setblocking(False)
        yield own


@pytest.fixture
def log(receiver: socket.socket, tmp_path: Path) -> Iterator[logging.Logger]:
    handler = journal.Handler("gantry-noded", str(tmp_path / "journal"))
    logger = logging.getLogger("gantry.test_journal")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)
    handler.close()


def fields(receiver: socket.socket) -> dict[str, str]:
    """Return the fields of the next message, each written with its length."""
    data, out = receiver.recv(1 << 20), {}
    while data:
        name, _, data = data.partition(b"\n")
        (length,) = struct.unpack("<Q", data[:8])
        out[name.decode()] = data[8 : 8 + length].decode()
        assert data[8 + length : 9 + length] == b"\n"
        data = data[9 + length :]
    return out


def test_a_message_has_its_level_its_daemon_and_its_logger(receiver: socket.socket, log: logging.Logger) -> None:
    log.info("node %s answers", "node1")
    assert fields(receiver) == {
        "MESSAGE": "node node1 answers",
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "gantry-noded",
        "GANTRY_LOGGER": "gantry.test_journal",
    }


def test_job_instance_and_node_are_fields(receiver: socket.socket, log: logging.Logger) -> None:
    log.warning("did not stop", extra={"job": 17, "instance": "web", "node": "node2"})
    sent = fields(receiver)
    assert (sent["GANTRY_JOB"], sent["GANTRY_INSTANCE"], sent["GANTRY_NODE"]) == ("17", "web", "node2")
    log.info("other")
    assert "GANTRY_JOB" not in fields(receiver)


@pytest.mark.parametrize(("level", "priority"), [(10, "7"), (20, "6"), (30, "4"), (40, "3"), (50, "2")])
def test_levels_are_those_of_syslog(receiver: socket.socket, log: logging.Logger, level: int, priority: str) -> None:
    log.log(level, "message")
    assert fields(receiver)["PRIORITY"] == priority


def test_a_message_of_several_lines_is_one_entry(receiver: socket.socket, log: logging.Logger) -> None:
    try:
        raise ValueError("first\nPRIORITY=0")
    except ValueError:
        log.exception("failed")
    sent = fields(receiver)
    assert sent["PRIORITY"] == "3"
    assert sent["MESSAGE"].splitlines()[:2] == ["failed", "Traceback (most recent call last):"]
    assert sent["MESSAGE"].endswith("PRIORITY=0")


def test_a_very_long_message_is_cut(receiver: socket.socket, log: logging.Logger) -> None:
    log.info("x" * 10_000_000)
    assert len(fields(receiver)["MESSAGE"]) == journal.MAX_MESSAGE_BYTES


def test_a_message_that_the_journal_does_not_take_goes_to_standard_error(
    tmp_path: Path, log: logging.Logger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", True)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    (tmp_path / "journal").unlink()
    log.info("lost message")
    assert "lost message" in capsys.readouterr().err


def test_the_id_of_the_request_is_a_field_while_a_task_works_for_it(
    receiver: socket.socket, log: logging.Logger
) -> None:
    token = request_ids.CURRENT.set("req-7")
    log.info("for a request")
    request_ids.CURRENT.reset(token)
    log.info("for none")
    assert fields(receiver)["GANTRY_REQUEST"] == "req-7"
    assert "GANTRY_REQUEST" not in fields(receiver)


def test_a_machine_has_a_journal_if_it_has_its_socket(
    receiver: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SOCKET", str(tmp_path / "journal"))
    assert journal.is_available()
    monkeypatch.setattr(journal, "SOCKET", str(tmp_path / "missing"))
    assert not journal.is_available()


def test_a_handler_that_is_closed_sends_no_more(
    receiver: socket.socket, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", True)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    handler = journal.Handler("gantry-noded", str(tmp_path / "journal"))
    handler.close()
    handler.emit(logging.LogRecord("gantry", logging.INFO, __file__, 1, "late message", None, None))
    assert "late message" in capsys.readouterr().err
    with pytest.raises(BlockingIOError):
        receiver.recv(1)

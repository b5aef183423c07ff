"""Hostile clients of the master daemon's socket, beside an honest one: for these tests all are the same user, root."""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.cluster import lab
from tests.doors.hostile import clients

OTHER_USER = 65534
MESSAGE_MEMORY = 200 << 20
"""Growth with 64 MiB of messages: buffers grow by steps, and the allocator keeps what is free. 450 MiB are sent."""
A_WAIT = json.dumps({"method": "WaitForEvents", "args": [1_000_000, 10, 600]}).encode() + b"\x03"


@pytest.fixture
def master(cluster: lab.Lab) -> clients.Target:
    return clients.Target(0, cluster.master_pid(), cluster.master / "log")


@pytest.fixture
def path(cluster: lab.Lab) -> Path:
    return cluster.master / "run/master.sock"


@contextlib.contextmanager
def crowd(path: Path, number: int, data: bytes = b"") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as closing:
        opened = []
        for _ in range(number):
            connection = closing.enter_context(socket.socket(socket.AF_UNIX))
            connection.settimeout(clients.TIMEOUT_SECONDS)
            with contextlib.suppress(OSError):
                clients.connect_luxi(connection, path)
                connection.sendall(data)
                opened.append(connection)
        yield opened


@pytest.mark.parametrize("data", [b"", b'{"method": "Que'], ids=["silent", "half a message"])
def test_a_crowd_does_not_keep_others_out(master: clients.Target, path: Path, data: bytes) -> None:
    with master.bounded(), crowd(path, clients.CROWD, data):
        clients.check_answered(lambda: clients.luxi_seconds(path))


@pytest.mark.slow  # A second is real time, of which other programs may take any part.
@pytest.mark.parametrize("data", [b"", b'{"method": "Que'], ids=["silent", "half a message"])
def test_an_honest_client_is_answered_within_a_second_beside_a_crowd(path: Path, data: bytes) -> None:
    with crowd(path, clients.CROWD, data):
        assert clients.is_prompt(lambda: clients.luxi_seconds(path))


@pytest.mark.slow
def test_a_master_with_few_file_descriptors_has_some_left_beside_a_crowd() -> None:
    with lab.lab() as cluster:
        cluster.init()
        cluster.stop_master(cluster.nodes[0])
        cluster.start_master(within=("prlimit", "--nofile=1024:1024"))
        with crowd(cluster.master / "run/master.sock", 2000):
            for _ in range(3):  # a command repeats a request that is refused while the crowd is new
                assert "lab.example" in cluster.run("gnt-cluster", "info").stdout
        log = (cluster.master / "log/master-daemon.log").read_text()
    assert "is closed to make room" in log
    assert "no connection is accepted" not in log


@pytest.mark.slow
def test_long_messages_that_do_not_end_leave_room_for_others(master: clients.Target, path: Path) -> None:
    with master.bounded(memory=MESSAGE_MEMORY), crowd(path, 30) as connections:
        threads = [threading.Thread(target=_send, args=(each, b" " * (15 << 20))) for each in connections]
        for thread in threads:
            thread.start()
        clients.check_answered(lambda: clients.luxi_seconds(path))
        for thread in threads:
            thread.join(clients.TIMEOUT_SECONDS)
        answers = Answers(connections)
        lab.wait_until(lambda: answers.refused() > 20, "messages that are refused")


def _send(connection: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(data)


class Answers:
    """What the master daemon has answered on some connections so far."""

    def __init__(self, connections: Sequence[socket.socket]) -> None:
        self._answers = dict.fromkeys(connections, b"")
        for connection in connections:
            connection.setblocking(False)

    def refused(self) -> int:
        """Return on how many connections a message has been refused because of its length."""
        for connection in self._answers:
            with contextlib.suppress(OSError):
                self._answers[connection] += connection.recv(1 << 16)
        return sum(b"refuses the message: too many bytes" in answer for answer in self._answers.values())


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user")
def test_a_user_other_than_root_has_a_share_of_the_connections(
    cluster: lab.Lab, master: clients.Target, path: Path
) -> None:
    for folder in (cluster.folder, cluster.master, path.parent):
        folder.chmod(0o755)
    path.chmod(0o666)
    try:
        os.seteuid(OTHER_USER)
        with crowd(path, 250, A_WAIT):
            os.seteuid(0)
            clients.check_answered(lambda: clients.luxi_seconds(path))
            os.seteuid(OTHER_USER)
            with crowd(path, 5, A_WAIT) as more:
                answers = [connection.recv(1 << 16) for connection in more]
    finally:
        os.seteuid(0)
        path.chmod(0o660)
    for answer in answers:
        assert b"user 65534 has too many connections: the limit is 250" in answer

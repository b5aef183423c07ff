"""What a daemon reports to systemd, over real datagram sockets."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gantry.runtime.real import systemd
from gantry.runtime.simulated import World

ADDRESSES = ["path", "abstract"]


class Manager:
    """The socket of systemd that receives reports."""

    def __init__(self, address: str) -> None:
        self.environment = {"NOTIFY_SOCKET": address.replace("\0", "@", 1)}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.setblocking(False)

    def close(self) -> None:
        self._socket.close()

    def received(self) -> list[str]:
        """Return the messages since the previous call."""
        out = []
        while True:
            try:
                out.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return out


@pytest.fixture(params=ADDRESSES)
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    address = str(tmp_path / "notify") if request.param == "path" else f"\0gantry-test-{os.getpid()}-{time.time_ns()}"
    own = Manager(address)
    yield own
    own.close()


def test_a_daemon_reports_that_it_serves_what_it_does_and_that_it_ends(manager: Manager) -> None:
    async def daemon() -> None:
        with systemd.Service(manager.environment) as service:
            assert manager.received() == []
            service.status("waits for a majority")
            assert manager.received() == ["STATUS=waits for a majority"]
            service.ready("serves")
            assert manager.received() == ["READY=1\nSTATUS=serves"]
            service.ready()
            assert manager.received() == ["READY=1"]
        assert manager.received() == ["STOPPING=1"]

    asyncio.run(daemon())


def test_a_daemon_that_fails_reports_its_end(manager: Manager) -> None:
    async def daemon() -> None:
        with systemd.Service(manager.environment):
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        asyncio.run(daemon())
    assert manager.received() == ["STOPPING=1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_reported_at_once_and_only_once(manager: Manager, number: int) -> None:
    async def daemon() -> None:
        stop = asyncio.Event()
        with systemd.Service(manager.environment) as service:
            service.on_signal(stop.set)
            os.kill(os.getpid(), number)
            await asyncio.wait_for(stop.wait(), 60)
            assert manager.received() == ["STOPPING=1"]
        assert manager.received() == []

    asyncio.run(daemon())


def test_a_status_has_one_line(manager: Manager) -> None:
    async def daemon() -> None:
        with systemd.Service(manager.environment) as service:
            service.status("node2 does not answer\nREADY=1")
            assert manager.received() == ["STATUS=node2 does not answer READY=1"]

    asyncio.run(daemon())


@pytest.mark.parametrize("process", ["", str(os.getpid())], ids=["any", "this"])
def test_the_watchdog_is_served_at_half_of_its_timeout_until_the_end(manager: Manager, process: str) -> None:
    environment = manager.environment | {"WATCHDOG_USEC": "400000", "WATCHDOG_PID": process}

    async def daemon() -> list[list[str]]:
        reports = []
        with systemd.Service(environment):
            for seconds in (0.1, 0.2, 0.2, 0.4):
                await asyncio.sleep(seconds)
                reports.append(manager.received())
        await asyncio.sleep(10)
        return [*reports, manager.received()]

    with World(seed=1) as world:
        reports = world.run(daemon())
    alive = "WATCHDOG=1"
    assert reports == [[alive], [alive], [alive], [alive, alive], ["STOPPING=1"]]


def test_a_stuck_loop_does_not_serve_the_watchdog(manager: Manager) -> None:
    async def daemon() -> list[str]:
        with systemd.Service(manager.environment | {"WATCHDOG_USEC": "100000"}):
            manager.received()
            time.sleep(0.3)  # noqa: ASYNC251 - the loop is to be stuck
            return manager.received()

    assert asyncio.run(daemon()) == []


@pytest.mark.parametrize("variables", [{}, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}])
def test_without_a_watchdog_for_this_process_nothing_is_sent(manager: Manager, variables: dict[str, str]) -> None:
    async def daemon() -> list[str]:
        with systemd.Service(manager.environment | variables):
            await asyncio.sleep(0.05)
            return manager.received()

    assert asyncio.run(daemon()) == []


def test_programs_that_the_daemon_starts_do_not_inherit_the_socket(manager: Manager) -> None:
    environment = manager.environment | {"WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "LANG": "C"}
    systemd.Service(environment)
    assert environment == {"LANG": "C"}


def test_without_systemd_nothing_happens() -> None:
    async def daemon() -> None:
        with systemd.Service({"WATCHDOG_USEC": "1000"}) as service:
            service.status("works")
            service.ready()

    asyncio.run(daemon())


def test_a_daemon_goes_on_without_its_manager_and_logs_that_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def daemon() -> None:
        with systemd.Service({"NOTIFY_SOCKET": str(tmp_path / "missing")}) as service:
            service.ready("serves")
            service.status("works")

    with caplog.at_level(logging.WARNING):
        asyncio.run(daemon())
    assert [record.getMessage() for record in caplog.records] == [
        "cannot send READY=1 to systemd: [Errno 2] No such file or directory"
    ]


def test_a_manager_that_is_away_again_is_logged_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    address = tmp_path / "notify"

    async def daemon() -> None:
        with systemd.Service({"NOTIFY_SOCKET": str(address)}) as service:
            service.status("away")
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.bind(str(address))
                service.status("back")
            service.status("away again")

    with caplog.at_level(logging.WARNING):
        asyncio.run(daemon())
    assert len(caplog.records) == 2


def test_a_manager_that_reads_nothing_does_not_stop_the_daemon(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "SEND_TIMEOUT_SECONDS", 0.01)
    address = str(tmp_path / "notify")

    def daemon() -> None:
        systemd.Service({"NOTIFY_SOCKET": address}).status("works")

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, contextlib.ExitStack() as senders:
        manager.bind(address)
        is_full = False
        while not is_full:  # a sender may be full before the manager is
            sender = senders.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            sender.setblocking(False)
            is_full = True
            with contextlib.suppress(BlockingIOError):
                while True:
                    sender.sendto(b"STATUS=before", address)
                    is_full = False
        works = threading.Thread(target=daemon, daemon=True)
        with caplog.at_level(logging.WARNING):
            works.start()
            works.join(60)
        assert not works.is_alive()
    assert [record.getMessage() for record in caplog.records] == ["cannot send STATUS=works to systemd: timed out"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, False), ({"SYSTEMD_EXEC_PID": str(os.getpid())}, True), ({"SYSTEMD_EXEC_PID": str(os.getppid())}, False)],
    ids=["none", "this", "another"],
)
def test_only_the_process_that_systemd_started_is_a_service(environment: dict[str, str], expected: bool) -> None:
    assert systemd.is_service(environment) is expected

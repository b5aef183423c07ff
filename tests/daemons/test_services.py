"""Each daemon as a service of systemd: what it reports, over a real socket, from its start to its end."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import ports, processes
from tests.cluster import lab

DEADLINE_SECONDS = 60


class Manager:
    """systemd's socket for reports."""

    def __init__(self, folder: str) -> None:
        self.path = f"{folder}/notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(DEADLINE_SECONDS)

    def until(self, line: str) -> list[str]:
        """Return the lines of the reports until one of them is ``line``."""
        lines: list[str] = []
        while line not in lines:
            lines += self._socket.recv(4096).decode().splitlines()
        return lines

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager() -> Iterator[Manager]:
    with tempfile.TemporaryDirectory(prefix="g") as folder, contextlib.closing(Manager(folder)) as own:
        yield own


@contextlib.contextmanager
def running(manager: Manager, program: str, *arguments: str, root: str) -> Iterator["subprocess.Popen[bytes]"]:
    environment = {**os.environ, "GANTRY_ROOT": root, "NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "200000"}
    command = [sys.executable, "-m", f"gantry.daemons.{program}", *arguments]
    with subprocess.Popen(command, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


PROGRAMS = {
    "node": ("--bind", "127.0.0.1", "--port"),
    "remote": ("--no-ssl", "--port"),
    "kube": ("serve", "--no-controllers", "--port"),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_daemon_is_ready_when_it_listens_serves_the_watchdog_and_reports_its_end(
    program: str, manager: Manager, tmp_path: Path
) -> None:
    port = ports.free()
    data = ("--data", str(tmp_path / "kube")) if program == "kube" else ()
    with running(manager, program, *PROGRAMS[program], str(port), *data, root=str(tmp_path)) as process:
        manager.until("READY=1")
        assert lab.listens(port)
        manager.until("WATCHDOG=1")
        process.send_signal(signal.SIGTERM)
        manager.until("STOPPING=1")
        assert process.wait(DEADLINE_SECONDS) == 0


def test_a_node_daemon_listens_on_both_versions_of_ip_unless_an_address_is_set(
    manager: Manager, tmp_path: Path
) -> None:
    port = ports.free()
    with running(manager, "node", "--port", str(port), root=str(tmp_path)):
        manager.until("STATUS=listens on all addresses port " + str(port))
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, port), timeout=DEADLINE_SECONDS).close()


def test_the_controllers_that_an_api_server_starts_report_nothing(manager: Manager, tmp_path: Path) -> None:
    port = ports.free()
    arguments = ("serve", "--port", str(port), "--data", str(tmp_path / "kube"))
    with running(manager, "kube", *arguments, root=str(tmp_path)) as process:
        manager.until("READY=1")
        controllers = _controllers(process.pid)
        assert b"NOTIFY_SOCKET" not in (controllers / "environ").read_bytes()
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_SECONDS) == 0


def _controllers(server: int) -> Path:
    """Return the folder in /proc of the controllers, once they have been executed."""
    limit = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < limit:
        for child in processes.children(server):
            folder = Path(f"/proc/{child}")
            with contextlib.suppress(OSError):
                if b"controllers" in (folder / "cmdline").read_bytes().split(b"\0"):
                    return folder
        time.sleep(0.05)
    raise AssertionError("no controllers")

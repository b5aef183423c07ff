"""A PostgreSQL server for a test: a folder, a port, and databases that are created on demand.

The server syncs what it acknowledges (fsync), as in production. Tests that run as root start it as the user
``postgres``, which Debian's package creates, because the server refuses to run as root.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import leftovers, ports

USER = "postgres"
TIMEOUT_SECONDS = 60.0


def _programs() -> Path | None:
    """Return the folder of the newest server that is installed; Debian does not add it to PATH."""
    if initdb := shutil.which("initdb"):
        return Path(initdb).parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), default=None)


NEEDS = [
    pytest.mark.real,
    pytest.mark.skipif(not _programs(), reason="PostgreSQL is not installed: make system"),
]


@dataclass
class Server:
    """One server on the loopback interface."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def create(self, database: str) -> str:
        """Create an empty database and return its URL."""
        self.run(USER, f'CREATE DATABASE "{database}"')
        return self.url(database)

    def run(self, database: str, statement: str) -> list[list[str]]:
        """Return the rows of a statement as texts."""
        result = subprocess.run(
            [_program("psql"), "--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", "-c", statement, self.url(database)],
            capture_output=True, text=True, check=True, timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
        return [line.split("|") for line in result.stdout.splitlines()]

    def start(self) -> None:
        command = [
            _program("postgres"), "-D", str(self.folder / "data"), "-p", str(self.port), "-k", str(self.folder),
            "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300",
        ]  # fmt: skip
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, user=_user())
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while subprocess.run(
            [_program("psql"), "-qAt", "-c", "SELECT 1", self.url(USER)], capture_output=True, check=False
        ).returncode:
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(0.1)

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """End it; the default closes connections and writes all down, SIGQUIT is a crash that it recovers from."""
        if self.process:
            self.process.send_signal(number)
            self.process.wait(TIMEOUT_SECONDS)
            self.process = None


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """Start a server and take it away afterwards."""
    with leftovers.folder("gp") as name:
        server = Server(Path(name), ports.free())
        if os.geteuid() == 0:
            shutil.chown(name, USER)
        data = str(server.folder / "data")
        initialise = [
            _program("initdb"),
            "-D",
            data,
            "-U",
            USER,
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale",
            "C",
        ]
        subprocess.run(initialise, check=True, capture_output=True, user=_user())
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _program(name: str) -> str:
    folder = _programs()
    own = folder / name if folder else None
    return str(own) if own and own.exists() else name


def _user() -> str | None:
    return pwd.getpwnam(USER).pw_name if os.geteuid() == 0 else None

"""Clients of the daemons in ``conftest``: an honest one, and crowds of connections that want to do harm.

A crowd stops by itself: it has a fixed number of connections, and opens more only when a test asks for that.
"""

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
ATTACKERS = tuple(f"127.0.0.{number}" for number in range(2, 10))
"""Addresses of attackers besides the honest client's machine."""

CROWD = 1100
TIMEOUT_SECONDS = 60.0
REQUESTS = 10
PROMPT_SECONDS = 1.0
LOG_GROWTH = 100_000
MEMORY_GROWTH = 150 << 20

CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x11" * 50
"""The first part of a TLS handshake."""


def unverified() -> ssl.SSLContext:
    """Return a TLS context that trusts each server."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass
class Answer:
    """An answer, and the seconds that it took from the connect to the last byte."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    seconds: float


@dataclass
class Target:
    """A daemon's server: its port, its process, where it logs, and a request of an honest client to it."""

    port: int
    pid: int
    logs: Path
    path: str = "/"
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "GET"
    body: bytes | None = None
    tls: ssl.SSLContext | None = None

    def ask(
        self,
        method: str = "",
        path: str = "",
        *,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        source: str = HOST,
    ) -> Answer:
        """Send a request on a connection of its own; without arguments, that of the honest client."""
        start = time.monotonic()
        connection: http.client.HTTPConnection
        if self.tls:
            connection = http.client.HTTPSConnection(
                HOST, self.port, timeout=TIMEOUT_SECONDS, context=self.tls, source_address=(source, 0)
            )
        else:
            connection = http.client.HTTPConnection(
                HOST, self.port, timeout=TIMEOUT_SECONDS, source_address=(source, 0)
            )
        with contextlib.closing(connection):
            connection.request(
                method or self.method,
                path or self.path,
                body or self.body,
                self.headers if headers is None else headers,
            )
            answer = connection.getresponse()
            content = answer.read()
        return Answer(answer.status, answer.headers, content, time.monotonic() - start)

    def memory(self) -> int:
        """Return the bytes of memory that the daemon uses."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) << 10

    def logged(self) -> int:
        """Return the bytes of the daemon's logs."""
        return sum(file.stat().st_size for file in self.logs.iterdir())

    @contextlib.contextmanager
    def bounded(self, *, memory: int = MEMORY_GROWTH) -> Iterator[None]:
        """Check that memory and logs grow little meanwhile."""
        memory_before, logged_before = self.memory(), self.logged()
        yield
        assert self.memory() - memory_before < memory
        assert self.logged() - logged_before < LOG_GROWTH


class Crowd:
    """Connections of attackers, which send ``data`` and then nothing."""

    def __init__(self, port: int, sources: Sequence[str], *, data: bytes = b"") -> None:
        self._port = port
        self._sources = sources
        self._data = data
        self._opened = 0
        self.sockets: list[socket.socket] = []

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.sockets:
            each.close()

    def open(self, number: int) -> None:
        """Open connections, from one source after the other; a server may refuse any of them."""
        for _ in range(number):
            source = self._sources[self._opened % len(self._sources)]
            self._opened += 1
            with contextlib.suppress(OSError):
                opened = socket.create_connection((HOST, self._port), timeout=5, source_address=(source, 0))
                self.sockets.append(opened)
                if self._data:
                    opened.sendall(self._data)


def check_answered(ask: Callable[[], object], meanwhile: Callable[[], None] = lambda: None) -> None:
    """Check that requests of an honest client succeed while the attack continues, be the machine busy or not."""
    for _ in range(REQUESTS):
        meanwhile()
        ask()


def is_prompt(ask: Callable[[], float], meanwhile: Callable[[], None] = lambda: None) -> bool:
    """Return whether each of some requests takes less than a second, while the attack continues.

    A machine under load may be slow once by itself, so a slow round is repeated once.
    """
    for _ in range(2):
        seconds = []
        for _ in range(REQUESTS):
            meanwhile()
            seconds.append(ask())
        if max(seconds) < PROMPT_SECONDS:
            return True
    return False


def honest_seconds(target: Target) -> float:
    """Send the request of an honest client, which must succeed; return how long that took."""
    answer = target.ask()
    assert answer.status == 200, answer.body
    return answer.seconds


def check_honest(target: Target, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Check that requests of an honest client of a server succeed."""
    check_answered(lambda: honest_seconds(target), meanwhile)


def connect_luxi(connection: socket.socket, path: Path) -> None:
    """Connect to the master daemon's socket; wait while its backlog is full, as the commands do."""
    limit = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return connection.connect(str(path))
        except BlockingIOError:
            assert time.monotonic() < limit, "the backlog stays full"
            time.sleep(0.01)


def luxi_seconds(path: Path) -> float:
    """Ask the master daemon by LUXI on a new connection; return how long that took."""
    start = time.monotonic()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        connect_luxi(connection, path)
        connection.sendall(json.dumps({"method": "QueryConfigValues", "args": [["cluster_name"]]}).encode() + b"\x03")
        data = b""
        while not data.endswith(b"\x03"):
            data += connection.recv(1 << 16) or b"\x03"
    assert json.loads(data[:-1]) == {"success": True, "result": ["lab.example"]}, data
    return time.monotonic() - start

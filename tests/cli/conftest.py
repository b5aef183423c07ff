"""A minimal master daemon, and ``gnt``, which runs a command in this process against that daemon."""

import contextlib
import json
import os
import shlex
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gantry import errors
from gantry.cli import main
from gantry.model import opcodes
from tools import contact_plugin

ETX = b"\x03"


class Fault(Exception):  # noqa: N818 - the content of a LUXI answer
    """An error in the form of a LUXI answer."""

    def __init__(self, name: str, *arguments: object) -> None:
        self.encoded = [name, list(arguments)]


class Job(NamedTuple):
    ops: list[dict[str, Any]]
    status: str = "success"
    results: list[object] = []
    log: list[str] = []


class Master:
    """Answers LUXI on a socket: methods from ``answers``, jobs by the rules in ``results`` and ``logs``.

    An answer is a value, or a function of the request's arguments; a job ends at the first look unless ``changes``
    scripts what WaitForJobChange answers. Opcodes must be valid for the real master. Requests are recorded in
    ``requests``, opcodes that were submitted or read in ``ops``.
    """

    def __init__(self, path: str) -> None:
        self.answers: dict[str, object] = {}
        self.results: dict[str, object] = {}
        self.logs: dict[str, list[str]] = {}
        self.changes: list[object] = []
        self.requests: list[tuple[str, list[Any]]] = []
        self.jobs: dict[int, Job] = {}
        self.reads: list[dict[str, Any]] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        contact_plugin.stand_ins.add(path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def ops(self) -> list[dict[str, Any]]:
        return [*(op for job in self.jobs.values() for op in job.ops), *self.reads]

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = b""
        # A client that is interrupted disconnects before it has read the answer.
        with connection, contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65536):
                buffer += part
                while ETX in buffer:
                    message, _, buffer = buffer.partition(ETX)
                    answer = self._answer(json.loads(message))
                    if answer is None:
                        return
                    # In two pieces, which the client has to join. The client may have disconnected meanwhile.
                    with contextlib.suppress(OSError):
                        connection.sendall(answer[:7])
                        connection.sendall(answer[7:])

    def _answer(self, request: dict[str, Any]) -> bytes | None:
        method, arguments = request["method"], request["args"]
        self.requests.append((method, arguments))
        answer = self.answers.get(method, getattr(self, f"_{method}", None))
        try:
            result = answer(*arguments) if callable(answer) else answer
        except errors.InvalidError as error:
            return json.dumps({"success": False, "result": error.luxi_pair()}).encode() + ETX
        except Fault as fault:
            return json.dumps({"success": False, "result": fault.encoded}).encode() + ETX
        except ConnectionError:
            return None
        return result if isinstance(result, bytes) else json.dumps({"success": True, "result": result}).encode() + ETX

    def _SubmitJob(self, ops: list[dict[str, Any]]) -> int:  # noqa: N802 - the method's name on the wire
        for op in ops:
            opcodes.decode(op)
        results = [self.results.get(op["OP_ID"]) for op in ops]
        failed = any(isinstance(result, Fault) for result in results)
        encoded = [result.encoded if isinstance(result, Fault) else result for result in results]
        log = [line for op in ops for line in self.logs.get(op["OP_ID"], [])]
        number = len(self.jobs) + 1
        self.jobs[number] = Job(ops, "error" if failed else "success", encoded, log)
        return number

    def _SubmitManyJobs(self, jobs: list[list[dict[str, Any]]]) -> list[tuple[bool, int]]:  # noqa: N802
        return [(True, self._SubmitJob(ops)) for ops in jobs]

    def _ReadOpcode(self, op: dict[str, Any]) -> list[object]:  # noqa: N802
        opcodes.decode(op)
        self.reads.append(op)
        result = self.results.get(op["OP_ID"])
        if isinstance(result, Fault):
            raise result
        return [result, self.logs.get(op["OP_ID"], [])]

    def _WaitForJobChange(self, job: int, *_: object) -> object:  # noqa: N802
        if self.changes:
            change = self.changes.pop(0)
            return change() if callable(change) else change
        entries = [[serial, [0, 0], "message", text] for serial, text in enumerate(self.jobs[job].log, 1)]
        return [[self.jobs[job].status], entries]

    def _QueryJobs(self, ids: list[int], fields: list[str]) -> list[list[object]]:  # noqa: N802
        return [[self._job_field(number, field) for field in fields] for number in ids]

    def _job_field(self, number: int, field: str) -> object:
        job = self.jobs.get(number)
        if job is None:
            return None
        statuses = ["error" if job.status == "error" and result else job.status for result in job.results]
        return {"status": job.status, "opstatus": statuses, "opresult": job.results}.get(field)


def table(*columns: str, rows: list[list[object]]) -> dict[str, object]:
    """Return a query's answer; a column is ``name:title:kind``, a cell (status, value) or a value."""
    fields = [dict(zip(("name", "title", "kind", "doc"), [*column.split(":"), ""], strict=True)) for column in columns]
    data = [[cell if isinstance(cell, tuple) else (0, cell) for cell in row] for row in rows]
    return {"fields": fields, "data": data}


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Gnt = Callable[[str], Ran]


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine's folders; the path is short because a socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("GANTRY_ROOT", folder)
        for name in ("run", "lib/ssconf", "log"):
            os.makedirs(f"{folder}/{name}")
        yield Path(folder)


@pytest.fixture
def master(root: Path) -> Iterator[Master]:
    daemon = Master(f"{root}/run/master.sock")
    yield daemon
    daemon.close()


@pytest.fixture
def gnt(root: Path, capfd: pytest.CaptureFixture[str]) -> Gnt:
    """Run a command line, as in ``gnt("gnt-instance list")``."""

    def run(line: str) -> Ran:
        program, *words = shlex.split(line)
        code = main.run(program, words)
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return run


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Let an interruption arrive, which a program that a shell has started in the background ignores."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)

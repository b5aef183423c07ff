"""The LUXI client: JSON and an ETX byte on the master daemon's UNIX socket, one answer per request, in order.

One ``Client`` serves one run of a command and keeps its connection. While the socket refuses (the daemon is just
starting, or its backlog is full) it tries again; an error that comes back is raised as ``errors.ServerError``
(contracts/luxi.md#framing).
"""

import json
import socket
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from gantry.cli import errors, machine

T = TypeVar("T")

ETX = b"\x03"
CONNECT_LIMIT = 30.0
ANSWER_LIMIT = 180.0
ATTEMPTS = 15
ATTEMPT_GAP = 0.2
"""Seconds; a daemon's own restart takes less than all attempts together."""

Opcode = Mapping[str, object]
Row = list[tuple[int, object]]
"""The cells of a query's row: a status, 0 for a normal one, and a value."""


class Field(NamedTuple):
    """A column of a query's result; ``kind`` is text, bool, number, float, unit (MiB), timestamp, other, unknown."""

    name: str
    title: str
    kind: str
    doc: str


class Table(NamedTuple):
    """A query's result."""

    fields: list[Field]
    rows: list[Row]


class Change(NamedTuple):
    """What happened to a job: the values of the fields asked for, and new log entries."""

    values: list[object]
    log: list[tuple[int, tuple[int, int], str, object]]


def expect(value: object, kind: type[T]) -> T:
    """Return ``value`` as what it has to be; raises CommandError that shows what came instead."""
    if not isinstance(value, kind):
        raise errors.CommandError(f"the master daemon's answer is not understood: {value!r:.200}")
    return value


class Client:
    """A connection to the master daemon, opened at the first call."""

    def __init__(self, path: str = "", *, attempts: int = ATTEMPTS) -> None:
        self._path = path or machine.master_socket()
        self._attempts = attempts
        self._socket: socket.socket | None = None
        self._rest = b""

    def close(self) -> None:
        """Hang up; the next call connects anew."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._rest = b""

    def call(self, method: str, *arguments: object) -> object:
        """Send one request and return its result."""
        if self._socket is None:
            self._socket = self._connect()
        request = json.dumps({"method": method, "args": arguments}, separators=(",", ":"))
        try:
            self._socket.sendall(request.encode() + ETX)
            raw = self._receive(self._socket)
        except TimeoutError:
            self.close()
            raise errors.CommandError(
                f"the master daemon did not answer {method} within {ANSWER_LIMIT:.0f} s"
            ) from None
        except OSError as error:
            self.close()
            raise errors.ConnectionLostError(
                f"lost the connection to the master daemon: {error.strerror or error}",
                hint=f"see {machine.master_log()}",
            ) from None
        return _result(raw)

    def _connect(self) -> socket.socket:
        for attempt in range(self._attempts):
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.settimeout(CONNECT_LIMIT)
            try:
                made.connect(self._path)
            except (ConnectionRefusedError, BlockingIOError, TimeoutError):
                made.close()
                if attempt + 1 < self._attempts:
                    time.sleep(ATTEMPT_GAP)
                continue
            except OSError as error:
                made.close()
                raise self._unreachable(error) from None
            made.settimeout(ANSWER_LIMIT)
            return made
        raise errors.CommandError(
            f"the master daemon does not answer on {self._path}",
            hint=f"is gantry-masterd running? see {machine.master_log()}",
        )

    def _unreachable(self, error: OSError) -> errors.CommandError:
        if isinstance(error, FileNotFoundError):
            return machine.without_master()
        if isinstance(error, PermissionError):
            return errors.CommandError(f"no permission to use {self._path}", hint="run the command as root")
        return errors.CommandError(f"cannot connect to {self._path}: {error.strerror or error}")

    def _receive(self, connection: socket.socket) -> bytes:
        parts = [self._rest]
        while ETX not in parts[-1]:
            part = connection.recv(1 << 18)
            if not part:
                raise ConnectionResetError("it hung up before its answer was complete")
            parts.append(part)
        message, _, self._rest = b"".join(parts).partition(ETX)
        return message

    def submit(self, opcodes: Sequence[Opcode]) -> int:
        """Submit a job and return its number."""
        return expect(self.call("SubmitJob", opcodes), int)

    def submit_many(self, jobs: Sequence[Sequence[Opcode]]) -> list[tuple[bool, object]]:
        """Submit jobs; each is answered by true and its number, or false and why not."""
        return expect(self.call("SubmitManyJobs", jobs), list)

    def wait_for_change(
        self, job: int, fields: Sequence[str], *, previous: Sequence[object] | None, serial: int | None, limit: float
    ) -> Change | None:
        """Wait until fields differ from ``previous`` or the log passed ``serial``; None after ``limit`` seconds."""
        answer = self.call("WaitForJobChange", job, fields, previous, serial, limit)
        if answer is None:
            raise errors.ServerError("JobLost", [f"job {job} does not exist"])
        if answer == "nochange":
            return None
        values, log = expect(answer, list)
        return Change(expect(values, list), log or [])

    def jobs(self, ids: Sequence[int], fields: Sequence[str]) -> list[list[object] | None]:
        """Return the fields of jobs, a row for each number; None for a job that does not exist."""
        rows = expect(self.call("QueryJobs", ids, fields), list)
        kept = [index for index, field in enumerate(fields) if field != "id"]
        return [None if row is None or all(row[index] is None for index in kept) else row for row in rows]

    def query(self, what: str, fields: Sequence[str], *, where: object = None) -> Table:
        """Ask for the fields of the objects that the filter ``where`` lets pass."""
        answer = expect(self.call("Query", what, fields, where), dict)
        return Table(_fields(answer), expect(answer.get("data"), list))

    def fields(self, what: str, names: Sequence[str] | None = None) -> list[Field]:
        """Return the fields that a resource has, all or those named."""
        return _fields(expect(self.call("QueryFields", what, names), dict))

    def records(self, what: str, fields: Sequence[str], *, where: object = None) -> list[dict[str, object]]:
        """Query objects as dictionaries; a value that is not there is not in them."""
        table = self.query(what, fields, where=where)
        names = [field.name for field in table.fields]
        return [
            {name: value for name, (status, value) in zip(names, row, strict=True) if status == 0} for row in table.rows
        ]

    def cluster_info(self) -> dict[str, object]:
        """Return what the cluster is and how it is set up (contracts/luxi.md#queryclusterinfo)."""
        return expect(self.call("QueryClusterInfo"), dict)


def _fields(answer: Mapping[str, object]) -> list[Field]:
    return [
        Field(one["name"], one.get("title") or one["name"], one.get("kind", "other"), one.get("doc", ""))
        for one in expect(answer.get("fields"), list)
    ]


def _result(raw: bytes) -> object:
    try:
        answer = json.loads(raw)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or "success" not in answer:
        raise errors.CommandError(f"the master daemon's answer is not understood: {raw[:200]!r}")
    if answer["success"]:
        result: object = answer.get("result")
        return result
    raise server_error(answer.get("result"))


def server_error(encoded: object, *, prefix: str = "") -> errors.CommandError:
    """Return the exception for an error as LUXI and job results carry it: class name and arguments."""
    match encoded:
        case [str(name), [*arguments]]:
            return errors.ServerError(name, arguments, prefix=prefix)
    return errors.CommandError(f"{prefix}{encoded}")

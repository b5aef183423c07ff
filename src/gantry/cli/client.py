"""The LUXI client: JSON and an ETX byte on the master daemon's UNIX socket, one answer per request, in order.

One ``Client`` serves one run of a command and keeps its connection. The client retries while the socket refuses
connections (the daemon is starting, or its backlog is full), and while the daemon has too many connections for a
request. It raises an error that the daemon returns as ``errors.ServerError`` (contracts/luxi.md#framing).
"""

import json
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from gantry.cli import errors, machine

T = TypeVar("T")

ETX = b"\x03"
CONNECT_TIMEOUT_SECONDS = 30.0
ANSWER_TIMEOUT_SECONDS = 180.0
ATTEMPTS = 15
BACK_OFF_SECONDS = 0.2
"""Wait before a retry; all attempts together take longer than a daemon's own restart."""
BUSY_ATTEMPTS = 60
"""Attempts to send a request to a daemon that has too many connections; it says how long to wait before each."""
MAX_BUSY_SECONDS = 5.0
"""The longest wait between two of them, whatever the daemon says."""

Opcode = Mapping[str, object]
Row = list[tuple[int, object]]
"""A row of a query's result: pairs of a status, which is 0 for a normal value, and a value."""


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
    """A change of a job: the values of the requested fields, and new log entries."""

    values: list[object]
    log: list[tuple[int, tuple[int, int], str, object]]


def expect(value: object, kind: type[T]) -> T:
    """Return ``value`` as type ``kind``; raises CommandError with the value if it has another type."""
    if not isinstance(value, kind):
        raise errors.CommandError(f"unexpected answer of the master daemon: {value!r:.200}")
    return value


def _encoded(request: Mapping[str, object]) -> bytes:
    """Return a request as sent; InvalidError for a text with bytes that are not UTF-8, as a terminal may send them."""
    text = json.dumps(request, separators=(",", ":"), ensure_ascii=False)
    try:
        return text.encode() + ETX
    except UnicodeEncodeError as error:
        raise errors.InvalidError(
            f"{text[error.start : error.end]!a} in the request is not a character of UTF-8",
            hint="set terminal and locale to UTF-8, as in LANG=C.UTF-8, and type the text again",
        ) from None


class Client:
    """A connection to the master daemon, which the first call opens."""

    def __init__(self, path: str = "", *, attempts: int = ATTEMPTS) -> None:
        self._path = path or machine.master_socket()
        self._attempts = attempts
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._notice = ""

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._buffer = b""

    def call(self, method: str, *arguments: object) -> object:
        """Send one request and return its result."""
        request = _encoded({"method": method, "args": arguments})
        for _ in range(BUSY_ATTEMPTS - 1):
            answer = self._answer(self._exchange(method, request))
            busy_seconds = answer.get("retry_after")
            if answer["success"] or not isinstance(busy_seconds, int):
                return self._result(answer)
            self.close()
            time.sleep(min(busy_seconds, MAX_BUSY_SECONDS))
        return self._result(self._answer(self._exchange(method, request)))

    def _exchange(self, method: str, request: bytes) -> bytes:
        if self._socket is None:
            self._socket = self._connect()
        try:
            self._socket.sendall(request)
            return self._receive(self._socket)
        except TimeoutError:
            self.close()
            raise errors.CommandError(
                f"the master daemon did not answer {method} within {ANSWER_TIMEOUT_SECONDS:.0f} s"
            ) from None
        except OSError as error:
            self.close()
            raise errors.ConnectionLostError(
                f"lost the connection to the master daemon: {error.strerror or error}",
                hint=f"see {machine.master_log()}",
            ) from None
        except BaseException:  # interrupted: the rest of this answer must not be taken for that of the next request
            self.close()
            raise

    def _answer(self, raw: bytes) -> dict[str, object]:
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or "success" not in answer:
            raise errors.CommandError(f"unexpected answer of the master daemon: {raw[:200]!r}")
        return answer

    def _result(self, answer: Mapping[str, object]) -> object:
        """Return the result in an answer; print a new notice about it, such as that it may be out of date."""
        notice = str(answer.get("notice") or "")
        if notice and notice != self._notice:
            print(f"Warning: {notice}", file=sys.stderr)
        self._notice = notice
        if answer["success"]:
            result: object = answer.get("result")
            return result
        raise server_error(answer.get("result"))

    def _connect(self) -> socket.socket:
        for attempt in range(self._attempts):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(CONNECT_TIMEOUT_SECONDS)
            try:
                connection.connect(self._path)
            except (ConnectionRefusedError, BlockingIOError, TimeoutError):
                connection.close()
                if attempt + 1 < self._attempts:
                    time.sleep(BACK_OFF_SECONDS)
                continue
            except OSError as error:
                connection.close()
                raise self._unreachable(error) from None
            connection.settimeout(ANSWER_TIMEOUT_SECONDS)
            return connection
        raise errors.CommandError(
            f"the master daemon does not answer on {self._path}",
            hint=f"is gantry-masterd running? see {machine.master_log()}",
        )

    def _unreachable(self, error: OSError) -> errors.CommandError:
        if isinstance(error, FileNotFoundError):
            return machine.without_master()
        if isinstance(error, PermissionError):
            return errors.CommandError(
                f"no permission to use {self._path}",
                hint="run the command as root, or as a user in the group gantry (to read) or gantry-admin (to change)",
            )
        return errors.CommandError(f"cannot connect to {self._path}: {error.strerror or error}")

    def _receive(self, connection: socket.socket) -> bytes:
        parts = [self._buffer]
        while ETX not in parts[-1]:
            part = connection.recv(1 << 18)
            if not part:
                raise ConnectionResetError("it closed the connection before its answer was complete")
            parts.append(part)
        message, _, self._buffer = b"".join(parts).partition(ETX)
        return message

    def submit(self, opcodes: Sequence[Opcode]) -> int:
        """Submit a job and return its number."""
        return expect(self.call("SubmitJob", opcodes), int)

    def read(self, opcode: Opcode) -> tuple[object, list[object]]:
        """Return the result and the warnings of an opcode that only reads."""
        result, warnings = expect(self.call("ReadOpcode", opcode), list)
        return result, expect(warnings, list)

    def submit_many(self, jobs: Sequence[Sequence[Opcode]]) -> list[tuple[bool, object]]:
        """Submit jobs; return for each true and its number, or false and the error."""
        return expect(self.call("SubmitManyJobs", jobs), list)

    def wait_for_change(
        self,
        job: int,
        fields: Sequence[str],
        *,
        previous: Sequence[object] | None,
        serial: int | None,
        timeout_seconds: float,
    ) -> Change | None:
        """Wait until fields differ from ``previous`` or the log passed ``serial``; None after the timeout."""
        answer = self.call("WaitForJobChange", job, fields, previous, serial, timeout_seconds)
        if answer is None:
            raise errors.ServerError("JobLost", [f"job {job} does not exist"])
        if answer == "nochange":
            return None
        values, log = expect(answer, list)
        return Change(expect(values, list), log or [])

    def jobs(self, ids: Sequence[int], fields: Sequence[str]) -> list[list[object] | None]:
        """Return the fields of jobs, a row for each number; None for a job that does not exist."""
        rows = expect(self.call("QueryJobs", ids, fields), list)
        columns = [index for index, field in enumerate(fields) if field != "id"]
        return [None if row is None or all(row[index] is None for index in columns) else row for row in rows]

    def query(self, resource: str, fields: Sequence[str], *, where: object = None) -> Table:
        """Return the fields of the objects that match the filter ``where``."""
        answer = expect(self.call("Query", resource, fields, where), dict)
        return Table(_fields(answer), expect(answer.get("data"), list))

    def fields(self, resource: str, names: Sequence[str] | None = None) -> list[Field]:
        """Return the fields of a resource: the named fields, or all without names."""
        return _fields(expect(self.call("QueryFields", resource, names), dict))

    def records(self, resource: str, fields: Sequence[str], *, where: object = None) -> list[dict[str, object]]:
        """Query objects as dictionaries, without missing values."""
        table = self.query(resource, fields, where=where)
        names = [field.name for field in table.fields]
        return [
            {name: value for name, (status, value) in zip(names, row, strict=True) if status == 0} for row in table.rows
        ]

    def cluster_info(self) -> dict[str, object]:
        """Return the description and settings of the cluster (contracts/luxi.md#queryclusterinfo)."""
        return expect(self.call("QueryClusterInfo"), dict)


def _fields(answer: Mapping[str, object]) -> list[Field]:
    return [
        Field(field["name"], field.get("title") or field["name"], field.get("kind", "other"), field.get("doc", ""))
        for field in expect(answer.get("fields"), list)
    ]


def server_error(encoded: object, *, prefix: str = "") -> errors.CommandError:
    """Return the exception for an error of LUXI or of a job result, which is a class name with arguments."""
    match encoded:
        case [str(name), [*arguments]]:
            return errors.ServerError(name, arguments, prefix=prefix)
    return errors.CommandError(f"{prefix}{encoded}")

"""A job: opcodes that run one after the other, with their status, results and logs.

The structs have the keys of a job file, so that existing readers can read the file. Times are pairs of seconds and
microseconds. The structs are exempt from garbage collection (``gc=False``): there are thousands of them, and they have
no reference cycles.

See contracts/jobs.md#job-object and contracts/jobs.md#status.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

from gantry.model import access, opcodes

Timestamp = tuple[int, int]
LogEntry = tuple[int, Timestamp, str, object]
"""Serial number in the job, time, type of message, message."""


class Status(StrEnum):
    """The state of an opcode and of a job."""

    QUEUED = "queued"
    WAITING = "waiting"
    CANCELING = "canceling"
    RUNNING = "running"
    CANCELED = "canceled"
    SUCCESS = "success"
    ERROR = "error"


FINAL = frozenset({Status.CANCELED, Status.SUCCESS, Status.ERROR})


def timestamp(seconds: float) -> Timestamp:
    """Return seconds since the epoch as a pair of seconds and microseconds."""
    whole = int(seconds)
    return whole, int((seconds - whole) * 1_000_000)


class Step(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An opcode of a job; at ``start`` it began to wait for its locks, at ``exec`` it had acquired them.

    ``right`` is by which right it began: the access rules that decided, or that the submitter is an administrator; it
    is empty if the opcode needs none, or the cluster itself submitted it.
    """

    input: opcodes.AnyOpcode
    status: Status = Status.QUEUED
    result: object = None
    log: tuple[LogEntry, ...] = ()
    priority: int = 0
    start_timestamp: Timestamp | None = None
    exec_timestamp: Timestamp | None = None
    end_timestamp: Timestamp | None = None
    right: str = ""


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job with its number, unique in the life of the cluster.

    ``submitter`` made the request; None is the cluster itself, or a version that did not record it. ``request`` is the
    id of the request (``runtime.request_ids``), empty if it had none.
    """

    id: int
    ops: Annotated[tuple[Step, ...], msgspec.Meta(min_length=1)]
    received_timestamp: Timestamp | None = None
    start_timestamp: Timestamp | None = None
    end_timestamp: Timestamp | None = None
    submitter: access.Subject | None = None
    request: str = ""

    @property
    def status(self) -> Status:
        """Return the job's state, which follows from the states of its opcodes (contracts/jobs.md#status)."""
        if len(self.ops) == 1:
            return self.ops[0].status
        result = Status.QUEUED
        succeeded = 0
        for step in self.ops:
            if step.status is Status.QUEUED:
                continue
            if step.status is Status.SUCCESS:
                succeeded += 1
                continue
            result = step.status
            if step.status in (Status.CANCELING, Status.ERROR, Status.CANCELED):
                break
        return Status.SUCCESS if succeeded == len(self.ops) else result

    @property
    def priority(self) -> int:
        """Return the smallest priority number of the opcodes that have not ended; small numbers run first."""
        return min((step.priority for step in self.ops if step.status not in FINAL), default=0)

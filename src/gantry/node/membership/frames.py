"""What a node reads in the journal's frames (``lib_files.frame``): the position after one, and jobs. Pure.

The records of a frame are ``{"serial", "epoch", "changes", ...}``, a change ``["put", kind, object]`` or ``["delete",
kind, key]``. A node copies frames verbatim; it interprets only this and the jobs that they put and archive.
"""

import itertools
from collections.abc import Iterator, Sequence

import msgspec

from gantry.lib_files import frame
from gantry.rpc import calls

FETCH_LIMIT, FETCH_BYTES = 1000, 1 << 20
"""The maximum number of frames in an answer, and of their bytes unless a single frame has more."""


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a replica: last serial, chain hash, epoch, highest job number. ``config.data`` has the same fields."""

    serial: calls.Count = 0
    digest: str = ""
    epoch: calls.Epoch = 0
    last_job: calls.Count = 0


START = Position()
"""The end of an empty replica."""


class _Record(msgspec.Struct, frozen=True):
    serial: calls.Count
    epoch: calls.Epoch
    changes: tuple[tuple[str, str, msgspec.Raw], ...]


class _Body(msgspec.Struct, frozen=True):
    previous: str
    records: tuple[_Record, ...]


class _Head(msgspec.Struct, frozen=True):
    previous: str


class _Job(msgspec.Struct, frozen=True):
    id: int


class _Checkpoint(msgspec.Struct, frozen=True):
    journal: Position


class _Jobs(msgspec.Struct, frozen=True):
    jobs: dict[int, str] = {}


class _List(msgspec.Struct, frozen=True):
    journal: _Jobs


_BODY = msgspec.json.Decoder(_Body)
_HEAD = msgspec.json.Decoder(_Head)
_JOB = msgspec.json.Decoder(_Job)
_KEY = msgspec.json.Decoder(str)
_CHECKPOINT = msgspec.json.Decoder(_Checkpoint)


def checkpoint(data: bytes) -> Position:
    """Return the position of a ``config.data``; ValueError if the data is not a configuration."""
    try:
        return _CHECKPOINT.decode(data).journal
    except msgspec.DecodeError as error:
        raise ValueError(f"not a configuration: {error}") from None


def listed_jobs(data: bytes) -> dict[int, str]:
    """Return the jobs that a valid ``config.data`` lists, with the digests of their files."""
    return msgspec.json.decode(data, type=_List).journal.jobs


def follow(end: Position, line: bytes) -> Position:
    """Return the position after a frame; ValueError if the frame does not continue a replica that ends at ``end``."""
    if fault := frame.fault(line):
        raise ValueError(f"the frame is incomplete or damaged: {fault}")
    try:
        body = _BODY.decode(frame.body(line))
        jobs = [_job(change) for record in body.records for change in record.changes]
    except msgspec.DecodeError as error:
        raise ValueError(f"the frame is from another version: {error}") from None
    serials = [record.serial for record in body.records]
    if body.previous != end.digest or serials != list(range(end.serial + 1, end.serial + 1 + len(serials))):
        raise ValueError("the frame does not follow the one before it")
    return Position(
        serial=end.serial + len(serials),
        digest=frame.digest(line),
        epoch=max([end.epoch, *(record.epoch for record in body.records)]),
        last_job=max([end.last_job, *jobs]),
    )


def jobs(line: bytes) -> Iterator[tuple[int, bytes | None]]:
    """Yield the job changes of a complete frame in order: number and new content, None for an archived job."""
    for record in _BODY.decode(frame.body(line)).records:
        for verb, kind, value in record.changes:
            if kind == "jobs" and verb == "put":
                yield _JOB.decode(value).id, bytes(value)
            elif kind == "jobs":
                yield int(_KEY.decode(value)), None


def first(lines: Sequence[bytes]) -> Sequence[bytes]:
    """Return the first of some frames, as many as an answer may have."""
    sizes = itertools.accumulate(map(len, lines))
    count = sum(1 for _ in itertools.takewhile(lambda size: size <= FETCH_BYTES, sizes))
    return lines[: min(max(count, 1), FETCH_LIMIT)]


def previous(line: bytes) -> str | None:
    """Return the chain hash of the frame before a frame, without checking the frame; None if it is not a frame."""
    try:
        return _HEAD.decode(frame.body(line)).previous
    except (ValueError, msgspec.DecodeError):
        return None


def _job(change: tuple[str, str, msgspec.Raw]) -> int:
    """Return the number of a job that a change stores, 0 for any other change."""
    verb, kind, value = change
    return _JOB.decode(value).id if (verb, kind) == ("put", "jobs") else 0

"""What a node reads of the journal's frames: whether one is whole, and how far it reaches. Pure.

A frame is one line, ``<crc32 of the JSON, 8 hexadecimal digits> <length of the JSON> <JSON>``, the JSON
``{"previous": <SHA-256 of the line before>, "records": [{"serial", "epoch", "changes", ...}, ...]}``, a change
``["put", kind, object]`` or ``["delete", kind, key]``. A node copies frames verbatim and understands no more of them
than this, and which jobs they put and archive.
"""

import hashlib
import re
import zlib
from collections.abc import Iterator

import msgspec

_LINE = re.compile(rb"([0-9a-f]{8}) ([1-9][0-9]{0,11}) (.*)\n", re.DOTALL)


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Where a copy ends: last serial, chain hash, epoch, highest job number. Also ``config.data``'s own words."""

    serial: int = 0
    digest: str = ""
    epoch: int = 0
    last_job: int = 0


START = Position()
"""Where a copy ends that holds nothing."""


class _Record(msgspec.Struct, frozen=True):
    serial: int
    epoch: int
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


_BODY = msgspec.json.Decoder(_Body)
_HEAD = msgspec.json.Decoder(_Head)
_JOB = msgspec.json.Decoder(_Job)
_KEY = msgspec.json.Decoder(str)
_CHECKPOINT = msgspec.json.Decoder(_Checkpoint)


def checkpoint(data: bytes) -> Position:
    """Return the position that a ``config.data`` stands for; ValueError when it is none."""
    try:
        return _CHECKPOINT.decode(data).journal
    except msgspec.DecodeError as error:
        raise ValueError(f"no configuration: {error}") from None


def follow(end: Position, line: bytes) -> Position:
    """Return the position after a frame that continues a copy ending at ``end``; ValueError when it does not."""
    found = _LINE.fullmatch(line)
    if not found or len(found[3]) != int(found[2]) or zlib.crc32(found[3]) != int(found[1], 16):
        raise ValueError("no whole frame")
    try:
        body = _BODY.decode(found[3])
        jobs = [_job(change) for record in body.records for change in record.changes]
    except msgspec.DecodeError as error:
        raise ValueError(f"a frame of another version: {error}") from None
    serials = [record.serial for record in body.records]
    if body.previous != end.digest or serials != list(range(end.serial + 1, end.serial + 1 + len(serials))):
        raise ValueError("the frame does not follow the one before it")
    return Position(
        serial=end.serial + len(serials),
        digest=hashlib.sha256(line).hexdigest(),
        epoch=max([end.epoch, *(record.epoch for record in body.records)]),
        last_job=max([end.last_job, *jobs]),
    )


def jobs(line: bytes) -> Iterator[tuple[int, bytes | None]]:
    """Yield what a whole frame says of jobs, in order: number and new content, None for one that is archived."""
    for record in _BODY.decode(line[line.index(b"{") :]).records:
        for verb, kind, value in record.changes:
            if kind == "jobs" and verb == "put":
                yield _JOB.decode(value).id, bytes(value)
            elif kind == "jobs":
                yield int(_KEY.decode(value)), None


def previous(line: bytes) -> str | None:
    """Return the chain hash that a frame follows, without checking the frame; None for what is no frame."""
    try:
        return _HEAD.decode(line[line.index(b"{") :]).previous
    except (ValueError, msgspec.DecodeError):
        return None


def _job(change: tuple[str, str, msgspec.Raw]) -> int:
    """Return the number of a job that a change stores, 0 for any other change."""
    verb, kind, value = change
    return _JOB.decode(value).id if (verb, kind) == ("put", "jobs") else 0

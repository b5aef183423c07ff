r"""A frame: one group commit as one line of the journal, and the difference between a damaged and a torn line. Pure.

    <crc32 of the JSON, 8 hexadecimal digits> <length of the JSON in bytes> <JSON>\n

The JSON is ``{"previous": <chain hash of the frame before>, "records": [...]}``. The chain hash of a frame is the
SHA-256 of its whole line, in hexadecimal; before the first frame it is empty. So a changed byte anywhere breaks the
frame's own checksum or the chain.

A torn frame is the last frame after a crash during its write, never acknowledged: a beginning without its end, or
sectors that were never written and read as zeros. JSON holds no newline and no zero byte, so nothing else looks like
it. Anything else that does not fit is damage.
"""

import hashlib
import itertools
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

GENESIS = ""
"""The chain hash before the first frame."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not JSON of the expected type, not UTF-8, or nested too deeply."""

SECTOR = 512
_HEADER = re.compile(rb"([0-9a-f]{8}) ([1-9][0-9]{0,11}) ")


class _Body(msgspec.Struct, frozen=True):
    previous: str
    records: tuple[msgspec.Raw, ...]


_BODY = msgspec.json.Decoder(_Body)


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame with its line and where it begins in its section; ``records`` are still encoded."""

    offset: int
    line: bytes
    previous: str
    records: tuple[msgspec.Raw, ...]

    @property
    def digest(self) -> str:
        """Return the chain hash."""
        return digest(self.line)


class DamageError(Exception):
    """Bytes at ``offset`` that are neither a frame nor a torn frame."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset = offset
        self.what = what


class TornError(DamageError):
    """The file ends in a frame that was not written to its end."""


def digest(line: bytes) -> str:
    """Return the chain hash of a frame's line."""
    return hashlib.sha256(line).hexdigest()


def pack(previous: str, records: Sequence[bytes]) -> bytes:
    """Return the line of a frame that follows the one with chain hash ``previous``."""
    text = b'{"previous":"%s","records":[%s]}' % (previous.encode(), b",".join(records))
    return b"%08x %d %s\n" % (zlib.crc32(text), len(text), text)


def body(line: bytes) -> bytes:
    """Return the JSON of a frame's line, without checking the line; ValueError if there is none."""
    return line[line.index(b"{") :]


def scan(data: bytes) -> Iterator[Frame]:
    """Yield the frames of a section in order; raises TornError or DamageError where one does not fit."""
    offset = 0
    while offset < len(data):
        frame = _read(data, offset)
        yield frame
        offset += len(frame.line)


def _read(data: bytes, offset: int) -> Frame:
    end = data.find(b"\n", offset) + 1
    line = data[offset : end or len(data)]
    what = fault(line)
    if not what:
        try:
            content = _BODY.decode(body(line))
        except (*UNREADABLE, ValueError) as error:
            raise DamageError(offset, f"the frame holds no records: {error}") from None
        return Frame(offset, line, content.previous, content.records)
    if offset + len(line) < len(data):
        raise DamageError(offset, what)
    if _is_short(line) or _has_unwritten_sector(line, offset):
        raise TornError(offset, what)
    raise DamageError(offset, what)


def fault(line: bytes) -> str:
    """Return why ``line`` is not a frame; empty if it is a frame."""
    header = _HEADER.match(line)
    if not header:
        return "no frame begins here"
    remaining = line[header.end() :]
    if not remaining.endswith(b"\n") or len(remaining) - 1 != int(header[2]):
        return f"the frame has {len(remaining)} bytes, its header says {int(header[2]) + 1}"
    if zlib.crc32(remaining[:-1]) != int(header[1], 16):
        return "the checksum does not fit"
    return ""


def _is_short(tail: bytes) -> bool:
    """Return whether the last bytes of a file are a beginning of a frame, without its end."""
    if tail.endswith(b"\n"):
        return False
    header = _HEADER.match(tail)
    if header:
        return len(tail) < header.end() + int(header[2]) + 1
    return re.fullmatch(rb"[0-9a-f]{0,8}|[0-9a-f]{8} ([1-9][0-9]{0,11})?", tail) is not None


def _has_unwritten_sector(tail: bytes, offset: int) -> bool:
    """Return whether a sector of the last frame is all zeros, or the frame ends in 16 zero bytes."""
    if tail.endswith(bytes(16)):
        return True
    first = SECTOR - offset % SECTOR
    cuts = [0, *range(first, len(tail), SECTOR), len(tail)]
    return any(not any(tail[start:stop]) for start, stop in itertools.pairwise(cuts))

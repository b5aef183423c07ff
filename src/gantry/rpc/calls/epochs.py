"""The lines in which a node keeps the highest epoch that it has seen: the file ``lib/epoch``.

    <epoch> <UUID of its master's node> <CRC-32 of the text before it, 8 hex digits>

The UUID is left out while it is not known. ``node.membership.fence`` writes the file, with the same line twice, and
``state.evidence`` reads it on the master's machine. Earlier versions wrote one line, without UUID and checksum.
"""

import re
import zlib

from gantry.rpc.calls.base import EPOCH_DIGITS

_NUMBER = re.compile(rb"[0-9]{1,%d}" % EPOCH_DIGITS)


def _checksum(content: bytes) -> bytes:
    return b"%08x" % zlib.crc32(content)


def encode(epoch: int, owner: str) -> bytes:
    """Return the content of the file for an epoch, and the UUID of its master's node or ``""``.

    >>> encode(7, "u1")
    b'7 u1 7763d46d\\n7 u1 7763d46d\\n'
    """
    text = b"%d %s" % (epoch, owner.encode()) if owner else b"%d" % epoch
    return b"%s %s\n" % (text, _checksum(text)) * 2


def decode(content: bytes) -> list[tuple[int, str]]:
    """Return epoch and UUID of each line that is whole; the UUID is ``""`` if it is not known.

    >>> decode(b"7 u1 7763d46d\\n8 u1 7763d46d\\n")
    [(7, 'u1')]
    """
    lines = content.splitlines()
    if len(lines) == 1 and _NUMBER.fullmatch(lines[0]):
        return [(int(lines[0]), "")]
    return [newest for newest in map(_decode_line, lines) if newest]


def _decode_line(line: bytes) -> tuple[int, str] | None:
    text, _, checksum = line.rpartition(b" ")
    number, _, owner = text.partition(b" ")
    if not (_NUMBER.fullmatch(number) and checksum == _checksum(text)):
        return None
    return int(number), owner.decode(errors="replace")

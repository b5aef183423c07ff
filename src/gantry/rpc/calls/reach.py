"""How far the changes of a cluster are acknowledged: a position in the journal of which masters tell every node.

    x-gantry-acknowledged: EPOCH-SERIAL     in each call of a confirmed master
    <epoch> <serial> <CRC-32 of the text before it, 8 hex digits>       the file ``acknowledged`` of a node, twice

``state.replication`` says what the position counts as, ``node.membership.acknowledged`` keeps the highest that a node
has heard of, and ``daemons.vote`` compares it with the copy of a node that wants to be the master.
"""

import re
import zlib

from gantry.rpc.calls.base import EPOCH_DIGITS
from gantry.runtime import interface, paths

HEADER = "x-gantry-acknowledged"
SERIAL_DIGITS = 15

_HEADER = re.compile(rf"([0-9]{{1,{EPOCH_DIGITS}}})-([0-9]{{1,{SERIAL_DIGITS}}})", re.ASCII)
_LINE = re.compile(rb"(([0-9]{1,%d}) ([0-9]{1,%d})) ([0-9a-f]{8})" % (EPOCH_DIGITS, SERIAL_DIGITS))

Reach = tuple[int, int]
"""Epoch and serial of the last acknowledged record; zeros if none is known."""

UNKNOWN: Reach = (0, 0)


def to_header(reach: Reach) -> str:
    """Return the header for a position.

    >>> to_header((2, 41))
    '2-41'
    """
    return f"{reach[0]}-{reach[1]}"


def from_header(header: str) -> Reach | None:
    """Return the position in a header; None if it has another form.

    >>> from_header("2-41"), from_header("2"), from_header("-1-4")
    ((2, 41), None, None)
    """
    form = _HEADER.fullmatch(header)
    return (int(form[1]), int(form[2])) if form else None


def encode(reach: Reach) -> bytes:
    r"""Return the content of the file for a position.

    >>> encode((2, 41))
    b'2 41 a9df5a1b\n2 41 a9df5a1b\n'
    """
    text = b"%d %d" % reach
    return b"%s %08x\n" % (text, zlib.crc32(text)) * 2


def decode(content: bytes) -> Reach | None:
    r"""Return the highest position in the file that is whole; None if there is none.

    >>> decode(encode((2, 41))), decode(b"2 41 00000000\n")
    ((2, 41), None)
    """
    forms = filter(None, map(_LINE.fullmatch, content.splitlines()))
    valid = [(int(form[2]), int(form[3])) for form in forms if int(form[4], 16) == zlib.crc32(form[1])]
    return max(valid, default=None)


def files(folders: paths.Paths) -> tuple[str, str]:
    """Return the paths of the two files on a node: on the disk, and in memory until the machine starts again.

    The second one shows that the disk was restored from a backup on a machine that runs.
    """
    return f"{folders.lib}/acknowledged", f"{folders.run}/acknowledged"


def read(disk: interface.Disk, folders: paths.Paths) -> tuple[Reach, tuple[str, ...]]:
    """Return the highest position in the files of a node, and what is wrong with a file that cannot be read."""
    highest, faults = UNKNOWN, []
    for path in files(folders):
        if not disk.exists(path):
            continue
        try:
            reach = decode(disk.read(path))
        except OSError as error:
            faults.append(f"{path}: {error.strerror or error}")
            continue
        if reach is None:
            faults.append(f"{path}: no line is valid")
        else:
            highest = max(highest, reach)
    return highest, tuple(faults)

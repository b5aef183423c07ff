"""How far the changes of a cluster are acknowledged: a position in the journal of which masters tell every node.

    x-gantry-acknowledged: EPOCH-SERIAL     in each call of a confirmed master
    <epoch> <serial> <CRC-32 of the text before it, 8 hex digits>       a line of the file ``acknowledged`` of a node

``state.candidates.replication`` says what the position counts as, ``node.membership.acknowledged`` keeps the highest
that a node has heard of, and ``mastership.vote`` compares it with the copy of a node that wants to be the master.
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


def encode(*positions: Reach) -> bytes:
    r"""Return the content of the file for positions; each has two lines.

    >>> encode((2, 41))
    b'2 41 a9df5a1b\n2 41 a9df5a1b\n'
    """
    texts = [b"%d %d" % position for position in positions]
    return b"".join(b"%s %08x\n" % (text, zlib.crc32(text)) * 2 for text in texts)


def decode(content: bytes) -> list[Reach]:
    r"""Return the positions in the file of which a line is whole, in order.

    >>> decode(encode((2, 41), (1, 7))), decode(b"2 41 00000000\n")
    ([(1, 7), (2, 41)], [])
    """
    forms = filter(None, map(_LINE.fullmatch, content.splitlines()))
    return sorted({(int(form[2]), int(form[3])) for form in forms if int(form[4], 16) == zlib.crc32(form[1])})


def files(folders: paths.Paths) -> tuple[str, str]:
    """Return the paths of the two files on a node: on the disk, and in memory until the machine starts again.

    The second one shows that the disk was restored from a backup on a machine that runs.
    """
    return f"{folders.lib}/acknowledged", f"{folders.run}/acknowledged"


def read(disk: interface.Disk, folders: paths.Paths) -> Reach:
    """Return the highest position in the files of a node; a file that cannot be read does not count."""
    return max(read_all(disk, folders)[0], default=UNKNOWN)


def read_all(disk: interface.Disk, folders: paths.Paths) -> tuple[list[Reach], list[str]]:
    """Return the positions in the files of a node, in order, and what is wrong with a file that cannot be read."""
    positions, faults = set[Reach](), list[str]()
    for path in files(folders):
        if not disk.exists(path):
            continue
        try:
            in_file = decode(disk.read(path))
        except OSError as error:
            faults.append(f"{path}: {error.strerror or error}")
            continue
        if not in_file:
            faults.append(f"{path}: no line is valid")
        positions.update(in_file)
    return sorted(positions), faults

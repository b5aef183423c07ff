"""Which masters a node obeys, what it granted and what it gave up: three files that a master reads too. Pure.

    lib/epoch       <epoch> <UUID of its master's node> proven <CRC-32 of the text before it, 8 hex digits>
                    <epoch> <UUID of its master's node> unproven <CRC-32>
    lib/promise     {"epoch", "node", "uuid"}: the last granted epoch and the node that it was granted to
    lib/given-up    [epoch, serial]: the highest of the replicas that the node has deleted

The first line of ``epoch`` is the last epoch of which the node has seen the proof (``rpc.calls.proofs``). The second is
there while the node obeys a master without one, which came after it. Each line is written twice. A UUID that is not
known is left out. ``node.membership.fence`` writes the files; a master daemon, which has its own node daemon's lock,
writes the grants of its node itself (``mastership.grants``).

Earlier versions wrote the lines without the word, and the first ones wrote a single line without UUID and checksum.
They believed any epoch, so theirs are unproven.
"""

import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec

from gantry.rpc import calls

_NUMBER = re.compile(rb"[0-9]{1,%d}" % calls.EPOCH_DIGITS)
T = TypeVar("T")

_PROVEN, _UNPROVEN = b"proven", b"unproven"


class Mastership(NamedTuple):
    """An epoch, the UUID of its master's node or ``""``, and whether a majority has granted it to that node."""

    epoch: int = 0
    owner: str = ""
    is_proven: bool = False


def _checksum(content: bytes) -> bytes:
    return b"%08x" % zlib.crc32(content)


def encode(masterships: Sequence[Mastership]) -> bytes:
    """Return the content of the file.

    >>> encode([Mastership(7, "u1", is_proven=True)])
    b'7 u1 proven 10ec9e22\\n7 u1 proven 10ec9e22\\n'
    """
    return b"".join(_line(mastership) * 2 for mastership in masterships)


def _line(mastership: Mastership) -> bytes:
    kind = _PROVEN if mastership.is_proven else _UNPROVEN
    words = (str(mastership.epoch).encode(), mastership.owner.encode(), kind)
    text = b" ".join(filter(None, words))
    return b"%s %s\n" % (text, _checksum(text))


def decode(content: bytes) -> list[Mastership]:
    """Return what each line that is whole says.

    >>> decode(b"7 u1 proven 10ec9e22\\n8 u1 7763d46d\\n7 u1 7763d46d\\n")
    [Mastership(epoch=7, owner='u1', is_proven=True), Mastership(epoch=7, owner='u1', is_proven=False)]
    """
    lines = content.splitlines()
    if len(lines) == 1 and _NUMBER.fullmatch(lines[0]):
        return [Mastership(int(lines[0]))]
    return [mastership for mastership in map(_decode_line, lines) if mastership]


def _decode_line(line: bytes) -> Mastership | None:
    text, _, checksum = line.rpartition(b" ")
    number, *words = text.split(b" ")
    if not (_NUMBER.fullmatch(number) and checksum == _checksum(text)):
        return None
    is_proven = bool(words) and words[-1] == _PROVEN
    owner = b" ".join(word for word in words if word not in (_PROVEN, _UNPROVEN))
    return Mastership(int(number), owner.decode(errors="replace"), is_proven)


def encode_grant(grant: calls.GrantedEpoch) -> bytes:
    """Return the content of the file ``promise``."""
    return msgspec.json.encode(grant)


def decode_grant(content: bytes) -> calls.GrantedEpoch:
    """Return the grant in a file; ValueError if it is damaged."""
    return _decoded(content, calls.GrantedEpoch)


def encode_given_up(epoch: int, serial: int) -> bytes:
    """Return the content of the file ``given-up``."""
    return msgspec.json.encode((epoch, serial))


def decode_given_up(content: bytes) -> tuple[int, int]:
    """Return epoch and serial in a file ``given-up``; ValueError if it is damaged."""
    return _decoded(content, tuple[calls.Epoch, calls.Count])


def _decoded(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None

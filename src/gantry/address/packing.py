"""Packs owners for storage in memory: a UUID as an integer, which takes half the memory of its text; others as text.

``holdings``, which may have a million owners, calls it. Invariant: ``unpack(pack(owner)) == owner``, so a UUID that is
not in the usual form (RFC 9562: lower case, groups of 8, 4, 4, 4 and 12 digits) stays text.
"""

import functools
import re
from collections.abc import Sequence
from typing import TypeAlias

Packed: TypeAlias = str | int

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_LENGTH = 36
_is_uuid = re.compile(_UUID).fullmatch
_are_uuids = re.compile(f"(?:{_UUID}\n)*+").fullmatch


# A reservation packs its owner twice: for the check and for the change.
@functools.lru_cache(maxsize=16)
def pack(owner: str) -> Packed:
    """Return the packed form of an owner."""
    return int(owner.replace("-", ""), 16) if len(owner) == _LENGTH and _is_uuid(owner) else owner


def pack_all(owners: Sequence[str]) -> list[Packed]:
    """Return the packed forms of many owners; faster than ``pack`` for each if all of them are UUIDs."""
    lines = "\n".join([*owners, ""])
    if len(lines) != (_LENGTH + 1) * len(owners) or not _are_uuids(lines):
        return list(map(pack, owners))
    digits = bytes.fromhex(lines.replace("-", ""))
    return [int.from_bytes(digits[start : start + 16]) for start in range(0, len(digits), 16)]


def unpack(owner: Packed) -> str:
    """Return the text of a packed owner."""
    if isinstance(owner, str):
        return owner
    digits = owner.to_bytes(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

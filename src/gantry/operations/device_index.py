"""NICs and disks of an instance as requests name them: by index, name or UUID; a new part by the index it gets."""

from collections.abc import Sequence

from gantry import errors
from gantry.model import instance


def find(parts: Sequence[instance.Nic | instance.Disk], ident: str, *, noun: str) -> int:
    """Return the index of a part, the last part if ``ident`` is empty; raises NotFoundError, InvalidError."""
    count = len(parts)
    known = f"the instance has {count}, numbered from 0; gnt-instance info shows names and UUIDs"
    if ident.isdecimal() or not ident:
        index = int(ident) if ident else count - 1
        if not 0 <= index < count:
            raise errors.NotFoundError(f"the instance has no {noun} {ident}".strip(), hint=known)
        return index
    matching_indexes = [index for index, part in enumerate(parts) if ident in (part.name, part.uuid)]
    if len(matching_indexes) != 1:
        fault = errors.InvalidError if matching_indexes else errors.NotFoundError
        raise fault(f"the instance has {len(matching_indexes) or 'no'} {noun}s named {ident}", hint=known)
    return matching_indexes[0]


def insert_index(count: int, ident: str, *, noun: str) -> int:
    """Return the index for a new part among ``count`` parts, ``count`` if ``ident`` is empty; raises InvalidError."""
    if ident and (not ident.isdecimal() or int(ident) > count):
        raise errors.InvalidError(
            f"a {noun} cannot be added at index {ident!r}", hint=f"valid indexes are 0 to {count}; -1 appends"
        )
    return int(ident) if ident else count

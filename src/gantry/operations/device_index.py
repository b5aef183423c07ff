"""NICs and disks of an instance as requests name them: by index, name or UUID, and by the place where one is put in."""

from collections.abc import Sequence

from gantry import errors
from gantry.model import instance


def find(parts: Sequence[instance.Nic | instance.Disk], ident: str, *, noun: str) -> int:
    """Return the index of a part, the last one where ``ident`` is empty; raises NotFoundError, InvalidError."""
    count = len(parts)
    known = f"there are {count}, numbered from 0; gnt-instance info shows names and UUIDs"
    if ident.isdecimal() or not ident:
        index = int(ident) if ident else count - 1
        if not 0 <= index < count:
            raise errors.NotFoundError(f"the instance has no {noun} {ident}".strip(), hint=known)
        return index
    found = [index for index, one in enumerate(parts) if ident in (one.name, one.uuid)]
    if len(found) != 1:
        fault = errors.InvalidError if found else errors.NotFoundError
        raise fault(f"the instance has {len(found) or 'no'} {noun}s named {ident}", hint=known)
    return found[0]


def place(count: int, ident: str, *, noun: str) -> int:
    """Return where a new part is put in among so many, behind the last where ``ident`` is empty; InvalidError."""
    if ident and (not ident.isdecimal() or int(ident) > count):
        raise errors.InvalidError(
            f"a {noun} cannot be added at {ident!r}", hint=f"places are 0 to {count}, -1 is behind the last"
        )
    return int(ident) if ident else count

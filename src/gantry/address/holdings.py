"""Holdings: which owner has which number, for which request, since when; indexed by number and by owner.

Layout: blocks of at most ``SIZE`` numbers, sorted; a block has a column each for numbers, owners, keys and times.
Numbers are stored as their distance from ``base``, which fits into eight bytes in all but a few blocks. So a number
costs at most four slots of eight bytes and no object of its own, whether its neighbours have owners or not.
``_bounds`` has the lowest distance of each block, and an end above all. A number is found by a binary search in
``_bounds`` and another in its block; the block of the last search is tried first, because successive calls mostly
concern neighbours. Owners are stored in the form of ``packing``. An owner of a single number is indexed with its block,
an owner of several numbers with all of its numbers.

Invariants: there is always a block, the first block has no lower bound, and no other block is empty; an owner has at
most one number under a key. Only ``reservations`` uses it.
"""

import bisect
from array import array
from collections.abc import Iterator, Sequence
from typing import Self, TypeAlias

from gantry import errors
from gantry.address import packing, ranges

SIZE = 96
INITIAL_SIZE = 72
"""The maximum and the initial length of a block: larger blocks cost time, smaller blocks memory."""

END = 1 << 129

Entry = tuple[str, str, float]
"""Owner, key and time."""

_Column: TypeAlias = "list[int] | array[int]"
_KEYLESS = ("",) * SIZE


def _column(numbers: Sequence[int]) -> _Column:
    """Return the numbers in eight bytes each, or as a list if any of them does not fit."""
    try:
        return array("Q", numbers)
    except OverflowError:
        return list(numbers)


class _Block:
    """Sorted numbers, with owner, key and time of each at the same index of the other columns.

    ``keys`` is None while all keys are empty.
    """

    __slots__ = ("keys", "numbers", "owners", "times")

    def __init__(
        self, numbers: _Column, owners: list[packing.Packed], keys: list[str] | None, times: "array[float]"
    ) -> None:
        self.numbers = numbers
        self.owners = owners
        self.keys = keys
        self.times = times

    def split(self, at: int) -> "_Block":
        """Move everything from index ``at`` on to a new block."""
        upper = _Block(self.numbers[at:], self.owners[at:], self.keys and self.keys[at:], self.times[at:])
        del self.numbers[at:], self.owners[at:], self.times[at:]
        if self.keys:
            del self.keys[at:]
        return upper

    def insert(self, index: int, number: int, owner: packing.Packed, key: str, time: float) -> None:
        try:
            self.numbers.insert(index, number)
        except OverflowError:
            self.numbers = list(self.numbers)
            self.numbers.insert(index, number)
        if key and self.keys is None:
            self.keys = [""] * len(self.owners)
        if self.keys is not None:
            self.keys.insert(index, key)
        self.owners.insert(index, owner)
        self.times.insert(index, time)

    def pop(self, index: int) -> Entry:
        del self.numbers[index]
        owner = packing.unpack(self.owners.pop(index))
        return owner, self.keys.pop(index) if self.keys else "", self.times.pop(index)

    def key(self, index: int) -> str:
        return self.keys[index] if self.keys else ""


class Holdings:
    """Numbers, each with its owner, key and time; most compact from ``base`` upwards.

    A call costs at most two binary searches, whatever the count of numbers.
    """

    __slots__ = ("_base", "_blocks", "_bounds", "_last", "_owned", "_size")

    def __init__(self, *, base: int = 0) -> None:
        self._base = base
        self._bounds = [-END, END]
        self._blocks = [_Block(array("Q"), [], None, array("d"))]
        self._last = 0
        self._size = 0
        # The block of an owner's only number, or a dictionary from keys to distances. Most owners have a single number.
        self._owned: dict[packing.Packed, _Block | dict[str, int]] = {}

    @classmethod
    def of(
        cls,
        numbers: Sequence[int],
        owners: Sequence[str],
        *,
        keys: Sequence[str],
        times: Sequence[float],
        base: int = 0,
    ) -> Self:
        """Return the holdings of many numbers, which must be sorted; much faster than ``add`` for each.

        NotUniqueError if an owner has two numbers under one key.
        """
        new = cls(base=base)
        if not numbers:
            return new
        distances = [number - base for number in numbers] if base else numbers
        packed = packing.pack_all(owners)
        several: dict[packing.Packed, dict[str, int]] = {}
        if len(set(packed)) < len(numbers):
            several, packed = _several(distances, packed, keys)
        new._blocks = []
        for start in range(0, len(numbers), INITIAL_SIZE):
            part = slice(start, start + INITIAL_SIZE)
            own = packed[part]
            block = _Block(
                _column(distances[part]), own, list(keys[part]) if any(keys[part]) else None, array("d", times[part])
            )
            new._blocks.append(block)
            new._owned.update(dict.fromkeys(own, block))
        new._owned.update(several)
        new._bounds = [-END, *(block.numbers[0] for block in new._blocks[1:]), END]
        new._size = len(numbers)
        return new

    def __len__(self) -> int:
        return self._size

    def __contains__(self, number: int) -> bool:
        return self.get(number) is not None

    def __iter__(self) -> Iterator[tuple[int, Entry]]:
        """Yield numbers with their entries, sorted by number. The holdings must not change meanwhile."""
        base = self._base
        for block in self._blocks:
            entries = zip(map(packing.unpack, block.owners), block.keys or _KEYLESS, block.times, strict=False)
            yield from zip((base + distance for distance in block.numbers), entries, strict=True)

    def get(self, number: int) -> Entry | None:
        """Return owner, key and time of the number; None if it has no owner."""
        distance = number - self._base
        block, index = self._position(distance)
        if index == len(block.numbers) or block.numbers[index] != distance:
            return None
        return packing.unpack(block.owners[index]), block.key(index), block.times[index]

    def owner_of(self, number: int) -> str:
        """Return the owner of a number, which must have an owner."""
        block, index = self._position(number - self._base)
        return packing.unpack(block.owners[index])

    def find(self, owner: str, key: str) -> int | None:
        """Return the number that the owner has under the key, or None. Cost: a search in a block if it is the only."""
        packed = packing.pack(owner)
        owned = self._owned.get(packed)
        if owned is None:
            return None
        if isinstance(owned, dict):
            distance = owned.get(key)
            return None if distance is None else self._base + distance
        index = owned.owners.index(packed)
        return self._base + owned.numbers[index] if owned.key(index) == key else None

    def numbers_of(self, owner: str) -> list[int]:
        """Return all numbers of an owner, sorted."""
        packed = packing.pack(owner)
        owned = self._owned.get(packed, {})
        if isinstance(owned, dict):
            return sorted(self._base + distance for distance in owned.values())
        return [self._base + owned.numbers[owned.owners.index(packed)]]

    def within(self, run: ranges.Range) -> list[int]:
        """Return the numbers of a range that have an owner, sorted. Cost: their count."""
        base = self._base
        first, last = run.first - base, run.last - base
        held_numbers: list[int] = []
        for index in range(self._index(first), len(self._blocks)):
            if self._bounds[index] > last:
                break
            numbers = self._blocks[index].numbers
            part = numbers[bisect.bisect_left(numbers, first) : bisect.bisect_right(numbers, last)]
            held_numbers += [base + distance for distance in part]
        return held_numbers

    def add(self, number: int, owner: str, key: str, *, time: float) -> None:
        """Add a number without an owner; the owner must have no number under the key."""
        distance = number - self._base
        index = self._index(distance)
        block = self._blocks[index]
        packed = packing.pack(owner)
        owned = self._owned.get(packed)
        if owned is None:
            self._owned[packed] = block
        elif isinstance(owned, dict):
            owned[key] = distance
        else:
            only = owned.owners.index(packed)
            self._owned[packed] = {owned.key(only): owned.numbers[only], key: distance}
        position = bisect.bisect_left(block.numbers, distance)
        block.insert(position, distance, packed, key, time)
        self._size += 1
        if len(block.numbers) > SIZE:
            # Numbers that are added in ascending order leave blocks behind that are more than half full.
            self._split(index, INITIAL_SIZE if position == SIZE else SIZE // 2)

    def _split(self, index: int, at: int) -> None:
        lower = self._blocks[index]
        upper = lower.split(at)
        for owner in upper.owners:
            if self._owned[owner] is lower:
                self._owned[owner] = upper
        self._blocks.insert(index + 1, upper)
        self._bounds.insert(index + 1, upper.numbers[0])

    def pop(self, number: int) -> Entry | None:
        """Remove a number and return its owner, key and time; None if it had no owner."""
        distance = number - self._base
        index = self._index(distance)
        block = self._blocks[index]
        numbers = block.numbers
        position = bisect.bisect_left(numbers, distance)
        if position == len(numbers) or numbers[position] != distance:
            return None
        packed = block.owners[position]
        entry = block.pop(position)
        self._size -= 1
        if not numbers and len(self._blocks) > 1:
            del self._blocks[index], self._bounds[index]
            self._bounds[0] = -END
            self._last = 0
        owned = self._owned[packed]
        if isinstance(owned, dict) and len(owned) > 1:
            del owned[entry[1]]
        else:
            del self._owned[packed]
        return entry

    def _index(self, distance: int) -> int:
        """Return the index of the block for a distance."""
        index, bounds = self._last, self._bounds
        if not bounds[index] <= distance < bounds[index + 1]:
            self._last = index = bisect.bisect_right(bounds, distance) - 1
        return index

    def _position(self, distance: int) -> tuple[_Block, int]:
        """Return the block of a distance, and its index there, or the index where it would be inserted."""
        block = self._blocks[self._index(distance)]
        return block, bisect.bisect_left(block.numbers, distance)


def _several(
    distances: Sequence[int], owners: Sequence[packing.Packed], keys: Sequence[str]
) -> tuple[dict[packing.Packed, dict[str, int]], list[packing.Packed]]:
    """Return the numbers by key of each owner of several, and the owners with the same object for equal owners."""
    first_indexes: dict[packing.Packed, int] = {}
    several: dict[packing.Packed, dict[str, int]] = {}
    shared = []
    for index, owner in enumerate(owners):
        first = first_indexes.setdefault(owner, index)
        shared.append(owners[first])
        if first == index:
            continue
        known = several.setdefault(owners[first], {keys[first]: distances[first]})
        if keys[index] in known:
            raise errors.NotUniqueError(f"{packing.unpack(owner)} has two numbers under the key '{keys[index]}'")
        known[keys[index]] = distances[index]
    return several, shared

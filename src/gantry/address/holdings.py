"""Holdings: who holds which number, for which request, since when; looked up by number and by owner.

Layout: blocks of at most ``SIZE`` numbers, sorted; a block has a column each for numbers, owners, keys and times.
Numbers are told by their distance from ``base``, which fits into eight bytes in all but a few blocks. So a number
costs four slots of eight bytes at most and no object of its own, whether its neighbours are held or not. ``_bounds``
has the distance from which on a block is the place, and an end above all. A number is found by a binary search there
and one in its block; the block that was used last is looked at first, because calls that follow each other are mostly
about neighbours. Owners are kept as ``packing`` has them. An owner of one number is known with its block, an owner of
several with all of them.

Invariants: there is always a block, the first has no lower bound, and no other one is empty; an owner holds one number
at most under a key. ``reservations`` keeps one and is the only caller.
"""

import bisect
from array import array
from collections.abc import Iterator, Sequence
from typing import Self, TypeAlias

from gantry import errors
from gantry.address import packing, ranges

SIZE = 96
USUAL = 72
"""The most numbers of a block, and how many one of many has at first: larger blocks cost time, smaller ones memory."""

END = 1 << 129

Holder = tuple[str, str, float]
"""Owner, key and time."""

_Column: TypeAlias = "list[int] | array[int]"
_KEYLESS = ("",) * SIZE


def _column(numbers: Sequence[int]) -> _Column:
    """Return the numbers in eight bytes each, or as they are if one does not fit."""
    try:
        return array("Q", numbers)
    except OverflowError:
        return list(numbers)


class _Block:
    """Some numbers in order, and what belongs to each at the same place of the other columns.

    ``keys`` is None while all of them are empty.
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
        """Move everything from a place on to a new block."""
        upper = _Block(self.numbers[at:], self.owners[at:], self.keys and self.keys[at:], self.times[at:])
        del self.numbers[at:], self.owners[at:], self.times[at:]
        if self.keys:
            del self.keys[at:]
        return upper

    def insert(self, place: int, number: int, owner: packing.Packed, key: str, time: float) -> None:
        try:
            self.numbers.insert(place, number)
        except OverflowError:
            self.numbers = list(self.numbers)
            self.numbers.insert(place, number)
        if key and self.keys is None:
            self.keys = [""] * len(self.owners)
        if self.keys is not None:
            self.keys.insert(place, key)
        self.owners.insert(place, owner)
        self.times.insert(place, time)

    def pop(self, place: int) -> Holder:
        del self.numbers[place]
        owner = packing.unpack(self.owners.pop(place))
        return owner, self.keys.pop(place) if self.keys else "", self.times.pop(place)

    def key(self, place: int) -> str:
        return self.keys[place] if self.keys else ""


class Holdings:
    """Numbers, each with its holder; cheapest from ``base`` upwards.

    A call costs two binary searches at most, however many are held.
    """

    __slots__ = ("_base", "_blocks", "_bounds", "_last", "_owned", "_size")

    def __init__(self, *, base: int = 0) -> None:
        self._base = base
        self._bounds = [-END, END]
        self._blocks = [_Block(array("Q"), [], None, array("d"))]
        self._last = 0
        self._size = 0
        # The block of an owner's only number, or a dictionary from keys to distances: most owners have one.
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
        """Return the holdings of all these numbers, which are sorted; much faster than adding one after the other.

        NotUniqueError if an owner has two numbers under one key.
        """
        made = cls(base=base)
        if not numbers:
            return made
        distances = [number - base for number in numbers] if base else numbers
        packed = packing.pack_all(owners)
        several: dict[packing.Packed, dict[str, int]] = {}
        if len(set(packed)) < len(numbers):
            several, packed = _several(distances, packed, keys)
        made._blocks = []
        for start in range(0, len(numbers), USUAL):
            part = slice(start, start + USUAL)
            own = packed[part]
            block = _Block(
                _column(distances[part]), own, list(keys[part]) if any(keys[part]) else None, array("d", times[part])
            )
            made._blocks.append(block)
            made._owned.update(dict.fromkeys(own, block))
        made._owned.update(several)
        made._bounds = [-END, *(block.numbers[0] for block in made._blocks[1:]), END]
        made._size = len(numbers)
        return made

    def __len__(self) -> int:
        return self._size

    def __contains__(self, number: int) -> bool:
        return self.get(number) is not None

    def __iter__(self) -> Iterator[tuple[int, Holder]]:
        """Yield numbers and holders, sorted by number. Not to be changed meanwhile."""
        base = self._base
        for block in self._blocks:
            holders = zip(map(packing.unpack, block.owners), block.keys or _KEYLESS, block.times, strict=False)
            yield from zip((base + distance for distance in block.numbers), holders, strict=True)

    def get(self, number: int) -> Holder | None:
        """Return who holds the number, or None."""
        distance = number - self._base
        block, place = self._place(distance)
        if place == len(block.numbers) or block.numbers[place] != distance:
            return None
        return packing.unpack(block.owners[place]), block.key(place), block.times[place]

    def owner_of(self, number: int) -> str:
        """Return the owner of a number that is held."""
        block, place = self._place(number - self._base)
        return packing.unpack(block.owners[place])

    def find(self, owner: str, key: str) -> int | None:
        """Return the number that the owner holds under the key, or None. Cost: a look at a block if it has only one."""
        packed = packing.pack(owner)
        owned = self._owned.get(packed)
        if owned is None:
            return None
        if isinstance(owned, dict):
            found = owned.get(key)
            return None if found is None else self._base + found
        place = owned.owners.index(packed)
        return self._base + owned.numbers[place] if owned.key(place) == key else None

    def numbers_of(self, owner: str) -> list[int]:
        """Return all numbers of an owner, sorted."""
        packed = packing.pack(owner)
        owned = self._owned.get(packed, {})
        if isinstance(owned, dict):
            return sorted(self._base + distance for distance in owned.values())
        return [self._base + owned.numbers[owned.owners.index(packed)]]

    def within(self, run: ranges.Range) -> list[int]:
        """Return the held numbers of a range, sorted. Cost: what is held in it."""
        base = self._base
        first, last = run.first - base, run.last - base
        found: list[int] = []
        for index in range(self._index(first), len(self._blocks)):
            if self._bounds[index] > last:
                break
            numbers = self._blocks[index].numbers
            part = numbers[bisect.bisect_left(numbers, first) : bisect.bisect_right(numbers, last)]
            found += [base + distance for distance in part]
        return found

    def add(self, number: int, owner: str, key: str, *, time: float) -> None:
        """Put in a number that is not held; nor is the owner's key in use."""
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
            place = owned.owners.index(packed)
            self._owned[packed] = {owned.key(place): owned.numbers[place], key: distance}
        place = bisect.bisect_left(block.numbers, distance)
        block.insert(place, distance, packed, key, time)
        self._size += 1
        if len(block.numbers) > SIZE:
            # What is filled upwards leaves blocks behind that are fuller than half.
            self._split(index, USUAL if place == SIZE else SIZE // 2)

    def _split(self, index: int, at: int) -> None:
        lower = self._blocks[index]
        upper = lower.split(at)
        for owner in upper.owners:
            if self._owned[owner] is lower:
                self._owned[owner] = upper
        self._blocks.insert(index + 1, upper)
        self._bounds.insert(index + 1, upper.numbers[0])

    def pop(self, number: int) -> Holder | None:
        """Take a number out and return who held it, or None."""
        distance = number - self._base
        index = self._index(distance)
        block = self._blocks[index]
        numbers = block.numbers
        place = bisect.bisect_left(numbers, distance)
        if place == len(numbers) or numbers[place] != distance:
            return None
        packed = block.owners[place]
        holder = block.pop(place)
        self._size -= 1
        if not numbers and len(self._blocks) > 1:
            del self._blocks[index], self._bounds[index]
            self._bounds[0] = -END
            self._last = 0
        owned = self._owned[packed]
        if isinstance(owned, dict) and len(owned) > 1:
            del owned[holder[1]]
        else:
            del self._owned[packed]
        return holder

    def _index(self, distance: int) -> int:
        """Return which block a distance belongs to."""
        index, bounds = self._last, self._bounds
        if not bounds[index] <= distance < bounds[index + 1]:
            self._last = index = bisect.bisect_right(bounds, distance) - 1
        return index

    def _place(self, distance: int) -> tuple[_Block, int]:
        """Return the block and the place in it where a distance is or would be."""
        block = self._blocks[self._index(distance)]
        return block, bisect.bisect_left(block.numbers, distance)


def _several(
    distances: Sequence[int], owners: Sequence[packing.Packed], keys: Sequence[str]
) -> tuple[dict[packing.Packed, dict[str, int]], list[packing.Packed]]:
    """Return those that have several numbers, by key, and the owners with one object for all numbers of one."""
    places: dict[packing.Packed, int] = {}
    several: dict[packing.Packed, dict[str, int]] = {}
    same = []
    for place, owner in enumerate(owners):
        first = places.setdefault(owner, place)
        same.append(owners[first])
        if first == place:
            continue
        known = several.setdefault(owners[first], {keys[first]: distances[first]})
        if keys[place] in known:
            raise errors.NotUniqueError(f"{packing.unpack(owner)} has two numbers under the key '{keys[place]}'")
        known[keys[place]] = distances[place]
    return several, same

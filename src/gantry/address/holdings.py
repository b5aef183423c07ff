"""Holdings: who holds which number, for which request, since when; looked up by number and by owner.

Layout: blocks of at most ``SIZE`` numbers, sorted; a block has a column each for numbers, owners, keys and times. So
a number costs four slots of eight bytes and no object of its own, whether its neighbours are held or not.
``_bounds`` has the number from which on a block is the place, and an end above all numbers. A number is found by a
binary search there and one in its block; the block that was used last is looked at first, because calls that follow
each other are mostly about neighbours.

Invariants: there is always a block, the first begins at 0, and no other one is empty; an owner holds one number at most
under a key. ``reservations`` keeps one and is the only caller.
"""

import bisect
from array import array
from collections.abc import Iterator, Sequence
from typing import Self

from gantry import errors
from gantry.address import ranges

SIZE = 96
USUAL = 72
"""The most numbers of a block, and how many one of many has at first: larger blocks cost time, smaller ones memory."""

END = 1 << 129

Holder = tuple[str, str, float]
"""Owner, key and time."""


class _Block:
    """Some numbers in order, and what belongs to each at the same place of the other columns."""

    __slots__ = ("keys", "numbers", "owners", "times")

    def __init__(self, numbers: list[int], owners: list[str], keys: list[str], times: "array[float]") -> None:
        self.numbers = numbers
        self.owners = owners
        self.keys = keys
        self.times = times

    def cut(self, start: int, stop: int | None = None) -> "_Block":
        part = slice(start, stop)
        return _Block(self.numbers[part], self.owners[part], self.keys[part], self.times[part])


class Holdings:
    """Numbers, 0 or greater, each with its holder. A call costs two binary searches at most, however many are held."""

    __slots__ = ("_blocks", "_bounds", "_last", "_owned", "_size")

    def __init__(self) -> None:
        self._bounds = [0, END]
        self._blocks = [_Block([], [], [], array("d"))]
        self._last = 0
        self._size = 0
        # The number of an owner's only key, or a dictionary from keys to numbers: most owners have one.
        self._owned: dict[str, int | dict[str, int]] = {}

    @classmethod
    def of(cls, numbers: Sequence[int], owners: Sequence[str], *, keys: Sequence[str], times: Sequence[float]) -> Self:
        """Return the holdings of all these numbers, which are sorted; much faster than adding one after the other.

        NotUniqueError if an owner has two numbers under one key.
        """
        made = cls()
        made._owned.update(zip(owners, numbers, strict=True))
        if len(made._owned) < len(numbers):
            made._owned, owners = _by_owner(numbers, owners, keys)
        whole = _Block(list(numbers), list(owners), list(keys), array("d", times))
        if numbers:
            made._blocks = [whole.cut(start, start + USUAL) for start in range(0, len(numbers), USUAL)]
            made._bounds = [0, *(block.numbers[0] for block in made._blocks[1:]), END]
            made._size = len(numbers)
        return made

    def __len__(self) -> int:
        return self._size

    def __contains__(self, number: int) -> bool:
        return self.get(number) is not None

    def __iter__(self) -> Iterator[tuple[int, Holder]]:
        """Yield numbers and holders, sorted by number. Not to be changed meanwhile."""
        for block in self._blocks:
            yield from zip(block.numbers, zip(block.owners, block.keys, block.times, strict=True), strict=True)

    def get(self, number: int) -> Holder | None:
        """Return who holds the number, or None."""
        block, place = self._place(number)
        if place == len(block.numbers) or block.numbers[place] != number:
            return None
        return block.owners[place], block.keys[place], block.times[place]

    def owner_of(self, number: int) -> str:
        """Return the owner of a number that is held."""
        block, place = self._place(number)
        return block.owners[place]

    def find(self, owner: str, key: str) -> int | None:
        """Return the number that the owner holds under the key, or None."""
        owned = self._owned.get(owner)
        if isinstance(owned, int):
            return owned if self._key_of(owned) == key else None
        return owned.get(key) if owned else None

    def numbers_of(self, owner: str) -> list[int]:
        """Return all numbers of an owner, sorted."""
        owned = self._owned.get(owner, {})
        return [owned] if isinstance(owned, int) else sorted(owned.values())

    def within(self, run: ranges.Range) -> list[int]:
        """Return the held numbers of a range, sorted. Cost: what is held in it."""
        found: list[int] = []
        for index in range(self._index(run.first), len(self._blocks)):
            if self._bounds[index] > run.last:
                break
            numbers = self._blocks[index].numbers
            found += numbers[bisect.bisect_left(numbers, run.first) : bisect.bisect_right(numbers, run.last)]
        return found

    def add(self, number: int, owner: str, key: str, *, time: float) -> None:
        """Put in a number that is not held; nor is the owner's key in use."""
        owned = self._owned.get(owner)
        if owned is None:
            self._owned[owner] = number
        elif isinstance(owned, int):
            self._owned[owner] = {self._key_of(owned): owned, key: number}
        else:
            owned[key] = number
        index = self._index(number)
        block = self._blocks[index]
        place = bisect.bisect_left(block.numbers, number)
        block.numbers.insert(place, number)
        block.owners.insert(place, owner)
        block.keys.insert(place, key)
        block.times.insert(place, time)
        self._size += 1
        if len(block.numbers) > SIZE:
            # What is filled upwards leaves blocks behind that are fuller than half.
            half = USUAL if place == SIZE else SIZE // 2
            self._blocks[index : index + 1] = block.cut(0, half), block.cut(half)
            self._bounds.insert(index + 1, block.numbers[half])

    def pop(self, number: int) -> Holder | None:
        """Take a number out and return who held it, or None."""
        index = self._index(number)
        block = self._blocks[index]
        numbers = block.numbers
        place = bisect.bisect_left(numbers, number)
        if place == len(numbers) or numbers[place] != number:
            return None
        del numbers[place]
        self._size -= 1
        if not numbers and len(self._blocks) > 1:
            del self._blocks[index], self._bounds[index]
            self._bounds[0] = self._last = 0
        owner, key = block.owners.pop(place), block.keys.pop(place)
        owned = self._owned[owner]
        if isinstance(owned, int) or len(owned) == 1:
            del self._owned[owner]
        else:
            del owned[key]
        return owner, key, block.times.pop(place)

    def _index(self, number: int) -> int:
        """Return which block the number belongs to."""
        index, bounds = self._last, self._bounds
        if not bounds[index] <= number < bounds[index + 1]:
            self._last = index = bisect.bisect_right(bounds, number) - 1
        return index

    def _place(self, number: int) -> tuple[_Block, int]:
        """Return the block and the place in it where the number is or would be."""
        block = self._blocks[self._index(number)]
        return block, bisect.bisect_left(block.numbers, number)

    def _key_of(self, number: int) -> str:
        block, place = self._place(number)
        return block.keys[place]


def _by_owner(
    numbers: Sequence[int], owners: Sequence[str], keys: Sequence[str]
) -> tuple[dict[str, int | dict[str, int]], list[str]]:
    """Return the index by owner, and the owners with one string object for all numbers of one."""
    owned: dict[str, int | dict[str, int]] = {}
    places: dict[str, int] = {}
    same = []
    for place, owner in enumerate(owners):
        first = places.setdefault(owner, place)
        same.append(owners[first])
        if first == place:
            owned[owner] = numbers[place]
            continue
        known = owned[owner]
        if isinstance(known, int):
            known = owned[owner] = {keys[first]: known}
        if keys[place] in known:
            raise errors.NotUniqueError(f"{owner} has two numbers under the key '{keys[place]}'")
        known[keys[place]] = numbers[place]
    return owned, same

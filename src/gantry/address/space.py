"""Space: which numbers are used; the engine under pools, segments, minors and ports.

Layout: a radix of 256-bit integers, one dictionary a level. Bit ``b`` of node ``k`` on level 0 is the number
``256 k + b``, set while it is used; bit ``b`` of node ``k`` on level ``n + 1`` marks node ``256 k + b`` of level ``n``
as full. Levels exist up to the highest mark that was ever needed: one while there are none, 17 at most for IPv6.
Inside, a number is told by its distance from ``base``, so that those of an IPv6 subnet are small integers too.

Invariant: a node without bits is not stored, and a full one is either stored or marked, never both; nothing is stored
below a mark; all numbers from ``_asked`` up to ``_answer`` are used. So a node is missing only when its bits are all
alike. Filling a node does not mark it; the search that passes it does, which keeps taking and giving flat. A range
costs two nodes a level to take or to give, whatever its size, and an empty /64 nothing.

Who calls it: ``pools`` and ``reservations`` (explanation/addresses.md#spaces). Numbers are 0 or greater; there is
no I/O, no clock and no randomness.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import Self

from gantry.address import ranges

_FULL = (1 << 256) - 1
# Shared objects: a node with one used number costs no integer of its own.
_BITS = tuple(1 << bit for bit in range(256))


def _mask(low: int, high: int) -> int:
    """Return the bits ``low`` to ``high``, both included."""
    return (2 << high) - (1 << low)


def _ones(word: int) -> int:
    """Return how many ones the word ends with, which is the place of its lowest zero."""
    return (word ^ (word + 1)).bit_length() - 1


def _bit_runs(word: int) -> Iterator[tuple[int, int]]:
    """Yield first and last place of each run of ones, upwards."""
    place = 0
    while word:
        zeros = (word & -word).bit_length() - 1
        word >>= zeros
        ones = _ones(word)
        word >>= ones
        place += zeros + ones
        yield place - ones, place - 1


def _between(nodes: dict[int, int], low: int, high: int) -> list[tuple[int, int]]:
    """Return the nodes with ``low <= key <= high``, unordered, by the cheaper of two ways."""
    if high - low < len(nodes):
        return [(key, nodes[key]) for key in range(low, high + 1) if key in nodes]
    return [item for item in nodes.items() if low <= item[0] <= high]


class Space:
    """The set of used numbers. All searches cost the same at any fill, size and pattern: a few dictionary look-ups."""

    __slots__ = ("_answer", "_asked", "_base", "_levels", "_words")

    def __init__(self, *, base: int = 0) -> None:
        self._base = base
        self._words: dict[int, int] = {}
        self._levels = [self._words]
        # Where the last search began and what it found: the next one often begins there too.
        self._asked = self._answer = 0

    @classmethod
    def of(cls, runs: Iterable[ranges.Range], *, base: int = 0) -> Self:
        """Return the space in which exactly these numbers are used; the runs may overlap and come in any order."""
        space = cls(base=base)
        for run in runs:
            if run.first == run.last:
                space.take(run.first)
            else:
                space.take_range(run)
        return space

    def is_used(self, number: int) -> bool:
        """Tell whether the number is used."""
        index = number - self._base
        word = self._words.get(index >> 8)
        if word is None:
            return self._full(0, index >> 8)
        return bool(word & _BITS[index & 255])

    def take(self, number: int) -> bool:
        """Mark the number as used; False if it was used before."""
        index = number - self._base
        key = index >> 8
        bit = _BITS[index & 255]
        word = self._words.get(key)
        if word is None:
            if len(self._levels) > 1 and self._full(0, key):
                return False
            self._words[key] = bit
            return True
        if word & bit:
            return False
        self._words[key] = word | bit
        return True

    def give(self, number: int) -> bool:
        """Mark the number as free; False if it was free before."""
        index = number - self._base
        key = index >> 8
        bit = _BITS[index & 255]
        word = self._words.get(key)
        if word is None:
            if not self._split(0, key):
                return False
            word = _FULL
        elif not word & bit:
            return False
        word ^= bit
        if word:
            self._words[key] = word
        else:
            del self._words[key]
        if self._asked <= index < self._answer:
            self._answer = index
        return True

    def take_range(self, run: ranges.Range) -> None:
        """Mark all numbers of the range as used. Cost: the nodes that it swallows, and two a level."""
        for level, key, mask in self._cover(run):
            self._set(level, key, mask)

    def take_all(self, numbers: Iterable[int]) -> None:
        """Mark numbers as used, all of which are free and in no full node; fast if they are sorted."""
        words, base = self._words, self._base
        key, word = -1 - base, 0
        for number in numbers:
            index = number - base
            if index >> 8 == key:
                word |= _BITS[index & 255]
                continue
            words[key] = word
            key, word = index >> 8, _BITS[index & 255]
            if key in words:
                word |= words[key]
        words[key] = word
        del words[-1 - base]

    def give_range(self, run: ranges.Range) -> None:
        """Mark all numbers of the range as free. Cost: the nodes that it drops, and two a level."""
        for level, key, mask in self._cover(run):
            self._clear(level, key, mask)
        self._answer = max(self._asked, min(self._answer, run.first - self._base))

    def next_free(self, start: int, last: int) -> int | None:
        """Return the lowest free number from ``start`` to ``last``, None if there is none.

        It climbs while the rest of a node is used, then descends to the lowest free number of what it found.
        Full nodes that it meets without a mark get one, at most one for 256 numbers taken.
        """
        index = start - self._base
        if index != self._asked:
            self._asked = self._answer = index
        self._answer = index = self._lowest_free(self._answer)
        number = index + self._base
        return number if number <= last else None

    def _lowest_free(self, start: int) -> int:
        levels = self._levels
        if len(levels) == 1 and start >> 8 not in self._words:
            return start
        while True:
            index = floor = start
            depth = 0
            for nodes in levels:
                key = index >> 8
                word = nodes.get(key)
                if word is None:
                    # Bits all clear or all set, the level above knows; if clear, the way down begins at ``floor``.
                    index = key
                else:
                    tail = word >> (index & 255)
                    ones = (tail ^ (tail + 1)).bit_length() - 1
                    if (index & 255) + ones < 256:
                        index += ones
                        break
                    if word == _FULL:
                        self._join(depth, key)
                    index = key + 1
                    floor = index << 8 * (depth + 1)
                depth += 1
            while depth:
                depth -= 1
                word = levels[depth].get(index)
                if word is None:
                    index = max(index << 8, floor >> 8 * depth)
                    continue
                ones = (word ^ (word + 1)).bit_length() - 1
                if ones == 256:
                    self._join(depth, index)
                    start = (index + 1) << 8 * (depth + 1)
                    break
                index = (index << 8) + ones
            else:
                return index

    def wrapped_free(self, first: int, last: int, *, start: int) -> int | None:
        """Return the lowest free number from ``start`` to ``last``, or else from ``first`` to ``start``."""
        number = self.next_free(start, last)
        return self.next_free(first, start - 1) if number is None else number

    def count(self, run: ranges.Range) -> int:
        """Return how many numbers of the range are used. Cost: its partly used nodes, a word each."""
        total = 0
        first, last = run.first - self._base, run.last - self._base
        for level, nodes in enumerate(self._levels):
            shift = 8 * level
            low, high = first >> shift, last >> shift
            for _, word in self._clipped(level, low, high):
                total += word.bit_count() << shift
            # A mark that reaches over an end of the range counts in part.
            if nodes.get(low >> 8, 0) & _BITS[low & 255]:
                total -= first - (low << shift)
            if nodes.get(high >> 8, 0) & _BITS[high & 255]:
                total -= ((high + 1) << shift) - 1 - last
        return total

    def used_runs(self, run: ranges.Range) -> Iterator[ranges.Range]:
        """Return the longest runs of used numbers inside the range, upwards. Not to be changed meanwhile."""
        levels = range(len(self._levels))
        return ranges.joined(heapq.merge(*(self._level_runs(level, run) for level in levels)))

    def free_runs(self, run: ranges.Range) -> Iterator[ranges.Range]:
        """Yield the longest runs of free numbers inside the range, upwards. Not to be changed meanwhile."""
        start = run.first
        for used in self.used_runs(run):
            if start < used.first:
                yield ranges.Range(start, used.first - 1)
            start = used.last + 1
        if start <= run.last:
            yield ranges.Range(start, run.last)

    def _full(self, level: int, key: int) -> bool:
        """Tell whether a node that is not stored is full rather than empty."""
        levels = self._levels
        for above in range(level + 1, len(levels)):
            word = levels[above].get(key >> 8)
            if word is not None:
                return bool(word & _BITS[key & 255])
            key >>= 8
        return False

    def _split(self, level: int, key: int) -> bool:
        """Take the mark off a node that is not stored, to be stored by the caller; False if it was not full."""
        level += 1
        if level == len(self._levels):
            return False
        nodes = self._levels[level]
        bit = _BITS[key & 255]
        key >>= 8
        word = nodes.get(key)
        if word is None:
            if not self._split(level, key):
                return False
            word = _FULL
        elif not word & bit:
            return False
        word ^= bit
        if word:
            nodes[key] = word
        else:
            del nodes[key]
        return True

    def _join(self, level: int, key: int) -> None:
        """Replace a full node by its mark."""
        del self._levels[level][key]
        self._set(level + 1, key >> 8, _BITS[key & 255])

    def _set(self, level: int, key: int, mask: int) -> None:
        """Set bits of a node."""
        while level >= len(self._levels):
            self._levels.append({})
        nodes = self._levels[level]
        if key in nodes or not self._full(level, key):
            nodes[key] = nodes.get(key, 0) | mask

    def _clear(self, level: int, key: int, mask: int) -> None:
        """Clear bits of a node."""
        if level >= len(self._levels):
            return
        nodes = self._levels[level]
        word = nodes.get(key)
        if word is None:
            if not self._split(level, key):
                return
            word = _FULL
        word &= ~mask
        if word:
            nodes[key] = word
        else:
            nodes.pop(key, None)

    def _cover(self, run: ranges.Range) -> Iterator[tuple[int, int, int]]:
        """Yield the bits (level, node, mask) that make up the range, and drop the nodes that lie wholly inside."""
        low, high, level = run.first - self._base, run.last - self._base, 0
        while low <= high:
            left, right = low >> 8, high >> 8
            if left == right:
                yield level, left, _mask(low & 255, high & 255)
                return
            if low & 255:
                yield level, left, _mask(low & 255, 255)
                left += 1
            if high & 255 != 255:
                yield level, right, _mask(0, high & 255)
                right -= 1
            if level < len(self._levels):
                nodes = self._levels[level]
                for key, _ in _between(nodes, left, right):
                    del nodes[key]
            low, high, level = left, right, level + 1

    def _clipped(self, level: int, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield the nodes of a level with the bits from index ``low`` to ``high`` only, unordered."""
        for key, word in _between(self._levels[level], low >> 8, high >> 8):
            if key == low >> 8:
                word &= _mask(low & 255, 255)
            if key == high >> 8:
                word &= _mask(0, high & 255)
            yield key, word

    def _level_runs(self, level: int, run: ranges.Range) -> Iterator[tuple[int, int]]:
        """Yield the used runs that one level knows of, clipped to the range, upwards."""
        shift, base = 8 * level, self._base
        for key, word in sorted(self._clipped(level, run.first - base >> shift, run.last - base >> shift)):
            for low, high in _bit_runs(word):
                first, end = (key << 8) + low << shift, (key << 8) + high + 1 << shift
                yield max(base + first, run.first), min(base + end - 1, run.last)

"""Space: a set of used numbers, on which pools, segments, minors and ports are built.

Layout: a radix tree of 256-bit integers, with a dictionary per level. Bit ``b`` of node ``k`` on level 0 is the number
``256 k + b``, set while the number is used; bit ``b`` of node ``k`` on level ``n + 1`` marks node ``256 k + b`` of
level ``n`` as full. Levels exist up to the highest mark so far: a single level without marks, at most 17 for IPv6.
Internally a number is its distance from ``base``, so that the numbers of an IPv6 subnet are small integers too.

Invariant: a node without bits is not stored; a full node is either stored or marked, never both; nothing is stored
below a mark; all numbers from ``_search_start`` up to, not including, ``_search_end`` are used. So the bits of a node
that is not stored are all equal. Filling a node does not mark it; the next search that passes the node does, which
keeps the cost of allocation and release constant. Allocating or releasing a range costs two nodes per level, whatever
its size, and an empty /64 costs nothing.

``pools``, ``segments``, IPAM's ledgers and the pools of claims use it (explanation/addresses.md#spaces). Numbers are 0
or greater; there is no I/O, no clock and no randomness.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import Self

from gantry.address import ranges

_FULL = (1 << 256) - 1
# Shared objects: a node with a single used number needs no integer of its own.
_BITS = tuple(1 << bit for bit in range(256))


def _mask(low: int, high: int) -> int:
    """Return the bits ``low`` to ``high``, both included."""
    return (2 << high) - (1 << low)


def _trailing_ones(word: int) -> int:
    """Return the count of ones at the end of the word, which is the index of its lowest zero."""
    return (word ^ (word + 1)).bit_length() - 1


def _bit_runs(word: int) -> Iterator[tuple[int, int]]:
    """Yield first and last index of each run of ones, upwards."""
    index = 0
    while word:
        zeros = (word & -word).bit_length() - 1
        word >>= zeros
        run = _trailing_ones(word)
        word >>= run
        index += zeros + run
        yield index - run, index - 1


def _between(nodes: dict[int, int], low: int, high: int) -> list[tuple[int, int]]:
    """Return the nodes with ``low <= key <= high``, unordered, with the cheaper of two algorithms."""
    if high - low < len(nodes):
        return [(key, nodes[key]) for key in range(low, high + 1) if key in nodes]
    return [item for item in nodes.items() if low <= item[0] <= high]


class Space:
    """A set of used numbers. A search costs a few dictionary look-ups, at any fill, size and pattern."""

    __slots__ = ("_base", "_levels", "_search_end", "_search_start", "_words")

    def __init__(self, *, base: int = 0) -> None:
        self._base = base
        self._words: dict[int, int] = {}
        self._levels = [self._words]
        # Start and result of the last search: the next search often begins at the same number.
        self._search_start = self._search_end = 0

    @classmethod
    def of(cls, runs: Iterable[ranges.Range], *, base: int = 0) -> Self:
        """Return the space in which exactly the numbers of the runs are used; the runs may overlap, in any order."""
        space = cls(base=base)
        for run in runs:
            if run.first == run.last:
                space.allocate(run.first)
            else:
                space.allocate_range(run)
        return space

    def is_used(self, number: int) -> bool:
        """Return whether the number is used."""
        index = number - self._base
        word = self._words.get(index >> 8)
        if word is None:
            return self._full(0, index >> 8)
        return bool(word & _BITS[index & 255])

    def allocate(self, number: int) -> bool:
        """Mark the number as used; return False if it was used before."""
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

    def release(self, number: int) -> bool:
        """Mark the number as free; return False if it was free before."""
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
        if self._search_start <= index < self._search_end:
            self._search_end = index
        return True

    def allocate_range(self, run: ranges.Range) -> None:
        """Mark all numbers of the range as used. Cost: the nodes inside the range, and two per level."""
        for level, key, mask in self._cover(run):
            self._set(level, key, mask)

    def release_range(self, run: ranges.Range) -> None:
        """Mark all numbers of the range as free. Cost: the nodes inside the range, and two per level."""
        for level, key, mask in self._cover(run):
            self._clear(level, key, mask)
        self._search_end = max(self._search_start, min(self._search_end, run.first - self._base))

    def next_free(self, start: int, last: int) -> int | None:
        """Return the lowest free number from ``start`` to ``last``, None if there is none.

        The search climbs while the remaining bits of a node are used, then descends to the lowest free number. Full
        nodes on its way that are not marked get their mark, at most one per 256 allocated numbers.
        """
        index = start - self._base
        if index != self._search_start:
            self._search_start = self._search_end = index
        self._search_end = index = self._lowest_free(self._search_end)
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
                    # All bits are equal, the level above has their value; if clear, the descent begins at ``floor``.
                    index = key
                else:
                    tail = word >> (index & 255)
                    used = (tail ^ (tail + 1)).bit_length() - 1
                    if (index & 255) + used < 256:
                        index += used
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
                used = (word ^ (word + 1)).bit_length() - 1
                if used == 256:
                    self._join(depth, index)
                    start = (index + 1) << 8 * (depth + 1)
                    break
                index = (index << 8) + used
            else:
                return index

    def count(self, run: ranges.Range) -> int:
        """Return the count of used numbers in the range. Cost: its partly used nodes, a word each."""
        total = 0
        first, last = run.first - self._base, run.last - self._base
        for level, nodes in enumerate(self._levels):
            shift = 8 * level
            low, high = first >> shift, last >> shift
            for _, word in self._clipped(level, low, high):
                total += word.bit_count() << shift
            # A mark across an end of the range counts only with its numbers inside.
            if nodes.get(low >> 8, 0) & _BITS[low & 255]:
                total -= first - (low << shift)
            if nodes.get(high >> 8, 0) & _BITS[high & 255]:
                total -= ((high + 1) << shift) - 1 - last
        return total

    def used_runs(self, run: ranges.Range) -> Iterator[ranges.Range]:
        """Return the longest runs of used numbers inside the range, upwards. The space must not change meanwhile."""
        levels = range(len(self._levels))
        return ranges.joined(heapq.merge(*(self._level_runs(level, run) for level in levels)))

    def free_runs(self, run: ranges.Range) -> Iterator[ranges.Range]:
        """Yield the longest runs of free numbers inside the range, upwards. The space must not change meanwhile."""
        start = run.first
        for used in self.used_runs(run):
            if start < used.first:
                yield ranges.Range(start, used.first - 1)
            start = used.last + 1
        if start <= run.last:
            yield ranges.Range(start, run.last)

    def _full(self, level: int, key: int) -> bool:
        """Return whether a node that is not stored is full, not empty."""
        levels = self._levels
        for above in range(level + 1, len(levels)):
            word = levels[above].get(key >> 8)
            if word is not None:
                return bool(word & _BITS[key & 255])
            key >>= 8
        return False

    def _split(self, level: int, key: int) -> bool:
        """Remove the mark of a node that is not stored, which the caller then stores; False if it was not full."""
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
        """Yield the bits (level, node, mask) of the range, and delete the nodes that are completely inside."""
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
        """Yield the nodes of a level, with only the bits from index ``low`` to ``high``, unordered."""
        for key, word in _between(self._levels[level], low >> 8, high >> 8):
            if key == low >> 8:
                word &= _mask(low & 255, 255)
            if key == high >> 8:
                word &= _mask(0, high & 255)
            yield key, word

    def _level_runs(self, level: int, run: ranges.Range) -> Iterator[tuple[int, int]]:
        """Yield the used runs of a level, clipped to the range, upwards."""
        shift, base = 8 * level, self._base
        for key, word in sorted(self._clipped(level, run.first - base >> shift, run.last - base >> shift)):
            for low, high in _bit_runs(word):
                first, end = (key << 8) + low << shift, (key << 8) + high + 1 << shift
                yield max(base + first, run.first), min(base + end - 1, run.last)

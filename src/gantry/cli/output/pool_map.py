"""Pools drawn as text: a mark for each address, or for a large pool a line for each run of equal marks.

``gnt-network map`` calls ``draw`` for each pool; this module is pure. The marks are those of a pool's map (``X`` and
``.``, contracts/networks.md#queries), and further marks for addresses that are reserved for another reason than use.
"""

import bisect
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from gantry.cli.output import documents, network_view

ROW = 64
"""Marks per row; halved until a row fits into the width."""

CONDENSED = 4096
"""Maximum addresses of a pool that is drawn with a mark for each; a larger pool is drawn as runs."""

QUARANTINED = 64
"""Maximum addresses in quarantine that are listed below a pool."""

MARKS = {
    ".": "free",
    "X": "in use",
    "E": "reserved externally",
    "B": "in use and reserved externally",
    "G": "gateway",
    "N": "end of the subnet",
    "H": "not allocatable",
}
COLOURS = {"X": "31", "E": "33", "B": "35", "G": "36", "N": "2", "H": "34"}


class Run(NamedTuple):
    """Consecutive addresses with the same mark, from the first to the last."""

    first: int
    last: int
    mark: str


class Canvas(NamedTuple):
    """The width of the output in characters, 0 for any width, and whether it has colours."""

    width: int = 0
    colours: bool = False


def draw(
    pool: network_view.Pool,
    subnet: network_view.Subnet,
    used: Collection[int],
    *,
    quarantine: Sequence[network_view.Quarantine] = (),
    canvas: Canvas,
) -> Iterator[str]:
    """Yield the lines of a pool: a heading of one or two lines, marks or runs, then the addresses in quarantine.

    ``used`` are the addresses in use, as integers.
    """
    name = f"pool {pool.name}" if pool.name else "pool"
    share = f"{pool.free} free, {pool.utilization:g} % in use"
    title, counts = f"{name} {pool.range} of subnet {subnet.label}:", f"{pool.range.size} addresses, {share}"
    if canvas.width and len(title) + 1 + len(counts) > canvas.width:
        yield from (title, f"  {counts}")
    else:
        yield f"{title} {counts}"
    draw_runs = _rows if pool.range.size <= CONDENSED else _condensed
    yield from draw_runs(pool.range, runs(pool, subnet, used), canvas)
    inside = [
        each
        for each in quarantine
        if each.address.version == pool.range.version and pool.range.first <= int(each.address) <= pool.range.last
    ]
    for each in inside[:QUARANTINED]:
        yield f"  {each.address} quarantined until {documents.clock(each.until)}, was {each.owner}"
    if len(inside) > QUARANTINED:
        yield f"  and {len(inside) - QUARANTINED} more in quarantine: gnt-network list -o quarantine"


def legend(canvas: Canvas) -> Iterator[str]:
    """Yield the lines that explain the marks, wrapped to the width."""
    line, length = "", 0
    for mark, text in MARKS.items():
        entry = f"{_coloured(mark, mark, canvas)} {text}"
        extended = length + len(text) + 4
        if line and canvas.width and extended > canvas.width:
            yield line
            line, length = entry, len(text) + 2
        else:
            line, length = f"{line}  {entry}" if line else entry, extended if line else len(text) + 2
    yield line


def runs(pool: network_view.Pool, subnet: network_view.Subnet, used: Collection[int]) -> Iterator[Run]:
    """Yield a pool's addresses as runs of equal marks, in order. Cost: a sort of the addresses that are not free."""
    first, last = pool.range.first, pool.range.last
    marker = _Marker(pool, subnet, used)
    cuts = sorted({first, *(cut for cut in marker.cuts() if first < cut <= last)})
    parts = (Run(start, end - 1, marker.mark(start)) for start, end in itertools.pairwise([*cuts, last + 1]))
    for mark, group in itertools.groupby(parts, key=lambda part: part.mark):
        equal = list(group)
        yield Run(equal[0].first, equal[-1].last, mark)


class _Marker:
    """Computes the mark of each address of a pool."""

    def __init__(self, pool: network_view.Pool, subnet: network_view.Subnet, used: Collection[int]) -> None:
        self._used = frozenset(used)
        self._external = subnet.external
        self._gateway = None if subnet.gateway is None else int(subnet.gateway)
        ends = (subnet.range.first, subnet.range.last)[: 2 if subnet.range.version == 4 else 1]
        self._ends = ends if subnet.cidr.prefixlen < subnet.cidr.max_prefixlen - 1 else ()
        self._not_allocatable = frozenset(
            pool.range.first + index for index, mark in enumerate(pool.map) if mark == "X"
        )

    def cuts(self) -> Iterator[int]:
        """Yield the addresses at which the mark may change."""
        known = () if self._gateway is None else (self._gateway,)
        for number in itertools.chain(self._used, self._not_allocatable, known, self._ends):
            yield from (number, number + 1)
        for run in self._external:
            yield from (run.first, run.last + 1)

    def mark(self, number: int) -> str:
        """Return the mark of an address; ``H`` if the master's map excludes the address for an unknown reason."""
        index = bisect.bisect_right(self._external, number, key=lambda run: run.first)
        external = index > 0 and number <= self._external[index - 1].last
        if number in self._used:
            return "B" if external else "X"
        if number == self._gateway:
            return "G"
        if number in self._ends:
            return "N"
        return "E" if external else "H" if number in self._not_allocatable else "."


def _rows(span: network_view.Range, pool_runs: Iterator[Run], canvas: Canvas) -> Iterator[str]:
    text = "".join(run.mark * (run.last - run.first + 1) for run in pool_runs)
    edge = max(len(str(network_view.address(span.version, number))) for number in (span.first, span.last)) + 4
    length = ROW
    while canvas.width and length > 8 and edge + length > canvas.width:
        length //= 2
    for start in range(0, len(text), length):
        row = "".join(
            _coloured("".join(equal), mark, canvas) for mark, equal in itertools.groupby(text[start : start + length])
        )
        yield f"  {network_view.address(span.version, span.first + start)!s:{edge - 2}}{row}"


def _condensed(span: network_view.Range, pool_runs: Iterator[Run], canvas: Canvas) -> Iterator[str]:
    lines = [(str(network_view.Range(span.version, run.first, run.last)), run) for run in pool_runs]
    edge = max(len(text) for text, _ in lines)
    size = max(len(str(run.last - run.first + 1)) for _, run in lines)
    for text, run in lines:
        mark = _coloured(run.mark, run.mark, canvas)
        yield f"  {text:{edge}}  {run.last - run.first + 1:{size}}  {mark} {MARKS[run.mark]}"


def _coloured(text: str, mark: str, canvas: Canvas) -> str:
    return f"\x1b[{COLOURS[mark]}m{text}\x1b[0m" if canvas.colours and mark in COLOURS else text

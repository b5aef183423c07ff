"""The reservations of a network as CSV: what ``export-reservations`` writes and ``import-reservations`` reads.

Pure. A line of the export is an address, or a range of external ones, with the columns ``COLUMNS``; a line of the
import is an address, a range or a CIDR, then a comment for people. The columns behind the first are not looked at, so
what one cluster exported another can import: it then keeps its hands off everything that the first one uses.
"""

import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gantry.cli import errors
from gantry.cli.output import network_view

COLUMNS = ("address", "kind", "instance", "nic", "pool")
KINDS = ("instance", "port", "external", "gateway")

LARGE = 65536
"""A range of more addresses has to be written as a CIDR, lest a slip of the finger reserves a continent."""


class Line(NamedTuple):
    """A line of an import: its number, and the addresses that it names."""

    number: int
    range: network_view.Range


class Found(NamedTuple):
    """What an import comes to: the ranges to reserve, and how many addresses are left out, for which reason."""

    missing: list[network_view.Range]
    external: int
    used: int
    gateways: int

    @property
    def size(self) -> int:
        """Return how many addresses are to be reserved."""
        return sum(one.size for one in self.missing)


def export(network: network_view.Network) -> str:
    """Return all reservations of a network, in the order of their addresses."""
    rows = sorted(_rows(network), key=lambda row: (row[0], KINDS.index(str(row[1]))))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    return file.getvalue()


def _rows(network: network_view.Network) -> Iterator[tuple[network_view.Range, str, str, int | str, str]]:
    for address, nic in network.users():
        one = _single(address)
        yield one, "instance", nic.instance, nic.number, _pools(network, one)
    for port in network.ports:
        for one in map(_single, port.addresses):
            yield one, "port", port.called, "", _pools(network, one)
    for subnet in network.subnets:
        if subnet.gateway is not None:
            one = _single(subnet.gateway)
            yield one, "gateway", "", "", _pools(network, one)
        for run in subnet.external:
            yield run, "external", "", "", _pools(network, run)


def _single(address: network_view.Address) -> network_view.Range:
    return network_view.Range(address.version, int(address), int(address))


def _pools(network: network_view.Network, run: network_view.Range) -> str:
    """Name the pools that a range lies in, in part or whole; one without a name by its range."""
    return " ".join(
        pool.name or str(pool.range)
        for subnet in network.subnets
        for pool in subnet.pools
        if pool.range.version == run.version and pool.range.first <= run.last and run.first <= pool.range.last
    )


def parse(text: str, network: network_view.Network, *, path: str) -> list[Line]:
    """Read an import; InvalidError names the first line that cannot be reserved, and why.

    Empty lines, lines that begin with ``#`` and a heading are passed over.
    """
    lines: list[Line] = []
    # spreadsheets begin a file with a byte order mark
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), strict=True)
    try:
        for row in reader:
            first = row[0].strip() if row else ""
            if first and not first.startswith("#") and not (first.lower() == COLUMNS[0] and not lines):
                lines.append(Line(reader.line_num, _range(first, network)))
    except (ValueError, csv.Error) as error:
        raise errors.InvalidError(
            f"{path}, line {max(reader.line_num, 1)}: {error}", hint="nothing was reserved"
        ) from None
    return lines


def _range(text: str, network: network_view.Network) -> network_view.Range:
    run = network_view.parse_range(text)
    if not any(subnet.range.covers(run) for subnet in network.subnets):
        known = ", ".join(str(subnet.cidr) for subnet in network.subnets) or "none"
        raise ValueError(f"{text} is outside every subnet of network {network.name} ({known})")
    if run.size > LARGE and "/" not in text:
        raise ValueError(f"{text} has {run.size} addresses; write it as a CIDR if it is meant")
    return run


def find(lines: Sequence[Line], network: network_view.Network) -> Found:
    """Tell what of an import is not reserved yet, each range inside one subnet; an address counts once."""
    external = [run for subnet in network.subnets for run in subnet.external]
    gateways = [_single(subnet.gateway) for subnet in network.subnets if subnet.gateway is not None]
    used = list(map(_single, network.used()))
    wanted = [run for subnet in sorted(network.subnets, key=_first) for run in _joined(_inside(subnet, lines))]
    left = _without(wanted, external)
    free = _without(left, gateways)
    missing = _without(free, used)
    return Found(missing, _size(wanted) - _size(left), _size(free) - _size(missing), _size(left) - _size(free))


def _first(subnet: network_view.Subnet) -> network_view.Range:
    return subnet.range


def _inside(subnet: network_view.Subnet, lines: Iterable[Line]) -> Iterator[network_view.Range]:
    return (line.range for line in lines if subnet.range.covers(line.range))


def _size(found: Iterable[network_view.Range]) -> int:
    return sum(one.size for one in found)


def _joined(found: Iterable[network_view.Range]) -> list[network_view.Range]:
    """Return the same addresses in the fewest ranges, sorted."""
    joined: list[network_view.Range] = []
    for run in sorted(found):
        last = joined[-1] if joined else None
        if last and last.version == run.version and run.first <= last.last + 1:
            joined[-1] = last._replace(last=max(last.last, run.last))
        else:
            joined.append(run)
    return joined


def _without(found: Iterable[network_view.Range], taken: Iterable[network_view.Range]) -> list[network_view.Range]:
    """Return the addresses of sorted ranges apart from each other that are in none of ``taken``."""
    holes = _joined(taken)
    left: list[network_view.Range] = []
    index = 0
    for run in found:
        start = run.first
        while index < len(holes) and (holes[index].version, holes[index].last) < (run.version, start):
            index += 1
        for hole in itertools.islice(holes, index, None):
            if hole.version != run.version or hole.first > run.last:
                break
            if start < hole.first:
                left.append(run._replace(first=start, last=hole.first - 1))
            start = hole.last + 1
        if start <= run.last:
            left.append(run._replace(first=start))
    return left

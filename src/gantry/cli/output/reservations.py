"""The reservations of a network as CSV, for ``export-reservations`` and ``import-reservations``; pure.

A line of the export is an address or a range of external reservations, with the columns ``COLUMNS``. A line of the
import is an address, a range or a CIDR in the first column. The import ignores the other columns, so a cluster can
import the export of another cluster, and then never allocates an address that the other cluster uses.
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
"""A range of more addresses must be written as a CIDR, so that a typing error does not reserve a huge range."""


class Line(NamedTuple):
    """A line of an import: its number in the file, and its addresses."""

    number: int
    range: network_view.Range


class Changes(NamedTuple):
    """The result of an import: the ranges to reserve, and how many addresses are skipped for each reason."""

    missing: list[network_view.Range]
    external: int
    used: int
    gateways: int

    @property
    def size(self) -> int:
        """Return the number of addresses to reserve."""
        return sum(run.size for run in self.missing)


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
        single = _single(address)
        yield single, "instance", nic.instance, nic.number, _pools(network, single)
    for port in network.ports:
        for single in map(_single, port.addresses):
            yield single, "port", port.label, "", _pools(network, single)
    for subnet in network.subnets:
        if subnet.gateway is not None:
            single = _single(subnet.gateway)
            yield single, "gateway", "", "", _pools(network, single)
        for run in subnet.external:
            yield run, "external", "", "", _pools(network, run)


def _single(address: network_view.Address) -> network_view.Range:
    return network_view.Range(address.version, int(address), int(address))


def _pools(network: network_view.Network, run: network_view.Range) -> str:
    """Return the names of the pools that overlap a range; the range of a pool without a name."""
    return " ".join(
        pool.name or str(pool.range)
        for subnet in network.subnets
        for pool in subnet.pools
        if pool.range.version == run.version and pool.range.first <= run.last and run.first <= pool.range.last
    )


def parse(text: str, network: network_view.Network, *, path: str) -> list[Line]:
    """Parse an import; raises InvalidError with the number of the first invalid line and its problem.

    Empty lines, lines that begin with ``#`` and a heading are skipped.
    """
    lines: list[Line] = []
    # Spreadsheets begin a file with a byte order mark.
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
        raise ValueError(f"{text} is not in a subnet of network {network.name} (subnets: {known})")
    if run.size > LARGE and "/" not in text:
        raise ValueError(f"{text} has {run.size} addresses; write such a large range as a CIDR")
    return run


def compare(lines: Sequence[Line], network: network_view.Network) -> Changes:
    """Return the addresses of an import that are not reserved yet, as ranges inside one subnet; counts are distinct."""
    external = [run for subnet in network.subnets for run in subnet.external]
    gateways = [_single(subnet.gateway) for subnet in network.subnets if subnet.gateway is not None]
    used = list(map(_single, network.used()))
    requested = [run for subnet in sorted(network.subnets, key=_first) for run in _joined(_inside(subnet, lines))]
    not_external = _without(requested, external)
    not_gateways = _without(not_external, gateways)
    missing = _without(not_gateways, used)
    return Changes(
        missing,
        external=_size(requested) - _size(not_external),
        used=_size(not_gateways) - _size(missing),
        gateways=_size(not_external) - _size(not_gateways),
    )


def _first(subnet: network_view.Subnet) -> network_view.Range:
    return subnet.range


def _inside(subnet: network_view.Subnet, lines: Iterable[Line]) -> Iterator[network_view.Range]:
    return (line.range for line in lines if subnet.range.covers(line.range))


def _size(ranges: Iterable[network_view.Range]) -> int:
    return sum(run.size for run in ranges)


def _joined(ranges: Iterable[network_view.Range]) -> list[network_view.Range]:
    """Return the same addresses as the fewest ranges, sorted."""
    joined: list[network_view.Range] = []
    for run in sorted(ranges):
        last = joined[-1] if joined else None
        if last and last.version == run.version and run.first <= last.last + 1:
            joined[-1] = last._replace(last=max(last.last, run.last))
        else:
            joined.append(run)
    return joined


def _without(ranges: Iterable[network_view.Range], excluded: Iterable[network_view.Range]) -> list[network_view.Range]:
    """Return the addresses of ``ranges``, which are sorted and disjoint, without those of ``excluded``."""
    holes = _joined(excluded)
    remaining: list[network_view.Range] = []
    index = 0
    for run in ranges:
        start = run.first
        while index < len(holes) and (holes[index].version, holes[index].last) < (run.version, start):
            index += 1
        for hole in itertools.islice(holes, index, None):
            if hole.version != run.version or hole.first > run.last:
                break
            if start < hole.first:
                remaining.append(run._replace(first=start, last=hole.first - 1))
            start = hole.last + 1
        if start <= run.last:
            remaining.append(run._replace(first=start))
    return remaining

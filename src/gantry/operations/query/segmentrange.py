"""Getters of the segment range fields; what is used and free comes from the ledger of segments.

Each costs what it shows and no more: nothing is computed for a field that nobody asks for, and a range of 16 million
ids is told by its first free ones, by runs, and by counts (contracts/segment-ranges.md#attributes).
"""

import itertools
from collections.abc import Iterator

from gantry.ipam import segments as ledgers
from gantry.model import network
from gantry.operations.query import cells

AVAILABLE_LIMIT = 1000
"""How many free ids are listed one by one; ``available_count`` says how many there are."""

RUNS_LIMIT = 256
"""How many runs of free ids are listed."""


def _used(context: cells.Context, one: network.SegmentRange) -> dict[str, str]:
    """Return the ids in use, with the project of the network that has each."""
    key, state = ledgers.scope_of(one), context.state
    place = context.ledger.segments.ids_of(one)
    numbers = (number for run in place.used.used_runs(ledgers.run_of(one)) for number in range(run.first, run.last + 1))
    return {str(number): state.networks[state.segments[(*key, number)]].project for number in numbers}


def _used_count(context: cells.Context, one: network.SegmentRange) -> int:
    return context.ledger.segments.ids_of(one).used.count(ledgers.run_of(one))


def _free(context: cells.Context, one: network.SegmentRange) -> Iterator[tuple[int, int]]:
    """Yield first and last id of each run of free ids."""
    runs = context.ledger.segments.ids_of(one).used.free_runs(ledgers.run_of(one))
    return ((run.first, run.last) for run in runs)


def _available(context: cells.Context, one: network.SegmentRange) -> list[int]:
    numbers = (number for first, last in _free(context, one) for number in range(first, last + 1))
    return list(itertools.islice(numbers, AVAILABLE_LIMIT))


def _available_ranges(context: cells.Context, one: network.SegmentRange) -> list[str]:
    runs = itertools.islice(_free(context, one), RUNS_LIMIT)
    return [str(first) if first == last else f"{first}-{last}" for first, last in runs]


def _available_count(context: cells.Context, one: network.SegmentRange) -> int:
    return ledgers.run_of(one).size - _used_count(context, one)


def order(one: object) -> tuple[object, ...]:
    """Return where a range stands in a list: by what it has ids of, since names may be empty."""
    if not isinstance(one, network.SegmentRange):
        return ()
    return ledgers.ORDER[one.network_type], one.physical_network, one.minimum, not one.default, one.uuid


GETTERS: dict[str, cells.Getter[network.SegmentRange]] = {
    "name": lambda _, one: one.name,
    "default": lambda _, one: one.default,
    "shared": lambda _, one: one.shared,
    "project": lambda _, one: one.project,
    "network_type": lambda _, one: one.network_type,
    "physical_network": lambda _, one: one.physical_network,
    "minimum": lambda _, one: one.minimum,
    "maximum": lambda _, one: one.maximum,
    "description": lambda _, one: one.description,
    "used": _used,
    "used_count": _used_count,
    "available": _available,
    "available_count": _available_count,
    "available_ranges": _available_ranges,
}

"""Getters of the segment range fields; the used and free ids come from the ledger of segments.

The cost of a field is proportional to what it displays: nothing is computed for a field that is not requested, and a
range of 16 million ids is described by its first free ids, by runs, and by counts
(contracts/segment-ranges.md#attributes).
"""

import itertools
from collections.abc import Iterator

from gantry.ipam import segments as ledgers
from gantry.model import network
from gantry.operations.query import cells

AVAILABLE_LIMIT = 1000
"""The maximum number of free ids that are listed; ``available_count`` is their total number."""

RUNS_LIMIT = 256
"""The maximum number of runs of free ids that are listed."""


def _used(context: cells.Context, segment_range: network.SegmentRange) -> dict[str, str]:
    """Return the ids in use, each with the project of its network."""
    key, state = ledgers.scope_of(segment_range), context.state
    space = context.ledger.segments.ids_of(segment_range)
    numbers = (
        number
        for run in space.used.used_runs(ledgers.run_of(segment_range))
        for number in range(run.first, run.last + 1)
    )
    # The ledger is ahead of the acknowledged state.
    owners = ((number, state.segments.get((*key, number))) for number in numbers)
    return {str(number): state.networks[owner].project for number, owner in owners if owner}


def _used_count(context: cells.Context, segment_range: network.SegmentRange) -> int:
    return context.ledger.segments.ids_of(segment_range).used.count(ledgers.run_of(segment_range))


def _free(context: cells.Context, segment_range: network.SegmentRange) -> Iterator[tuple[int, int]]:
    """Yield the first and last id of each run of free ids."""
    runs = context.ledger.segments.ids_of(segment_range).used.free_runs(ledgers.run_of(segment_range))
    return ((run.first, run.last) for run in runs)


def _available(context: cells.Context, segment_range: network.SegmentRange) -> list[int]:
    numbers = (number for first, last in _free(context, segment_range) for number in range(first, last + 1))
    return list(itertools.islice(numbers, AVAILABLE_LIMIT))


def _available_ranges(context: cells.Context, segment_range: network.SegmentRange) -> list[str]:
    runs = itertools.islice(_free(context, segment_range), RUNS_LIMIT)
    return [str(first) if first == last else f"{first}-{last}" for first, last in runs]


def _available_count(context: cells.Context, segment_range: network.SegmentRange) -> int:
    return ledgers.run_of(segment_range).size - _used_count(context, segment_range)


def order(entity: object) -> tuple[object, ...]:
    """Return the sort key of a range: by its ids, because names may be empty."""
    if not isinstance(entity, network.SegmentRange):
        return ()
    return ledgers.ORDER[entity.network_type], entity.physical_network, entity.minimum, not entity.default, entity.uuid


GETTERS: dict[str, cells.Getter[network.SegmentRange]] = {
    "name": lambda _, segment_range: segment_range.name,
    "default": lambda _, segment_range: segment_range.default,
    "shared": lambda _, segment_range: segment_range.shared,
    "project": lambda _, segment_range: segment_range.project,
    "network_type": lambda _, segment_range: segment_range.network_type,
    "physical_network": lambda _, segment_range: segment_range.physical_network,
    "minimum": lambda _, segment_range: segment_range.minimum,
    "maximum": lambda _, segment_range: segment_range.maximum,
    "description": lambda _, segment_range: segment_range.description,
    "used": _used,
    "used_count": _used_count,
    "available": _available,
    "available_count": _available_count,
    "available_ranges": _available_ranges,
    "managed": lambda context, _: context.state.the_cluster.segment_ranges,
}

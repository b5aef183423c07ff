"""The query method of LUXI for a monitoring system: what the master has counted and timed since it began."""

from collections.abc import Iterator

from gantry.doors.luxi.services import Services
from gantry.jobs import ended, locks
from gantry.rpc import client
from gantry.runtime import measures
from gantry.runtime.measures import Family, Kind, Measure, Sample
from gantry.state.store import transaction

REQUESTS = Measure(
    "gantry_luxi_request_duration_seconds",
    Kind.DURATION,
    ("method", "outcome"),
    "Requests to the master, by the method of LUXI and the outcome: done, or the kind of the error. Some wait, such as "
    "WaitForJobChange.",
)
STALLED = Measure(
    "gantry_replication_stalled", Kind.GAUGE, (), "1 while nothing can be changed, because too few candidates answer."
)
LAG = Measure(
    "gantry_replication_lag_records",
    Kind.GAUGE,
    ("node",),
    "Changes that a master candidate is not known to have yet; missing while the end of its copy is not known.",
)

MEASURES = (
    REQUESTS, STALLED, LAG, client.CALLS, transaction.WRITES, transaction.RECORDS, transaction.COPYING,
    locks.WAITS, ended.ENDED,
)  # fmt: skip
"""All measures of the master; the reference page is generated from this table."""


async def query(services: Services) -> list[Family]:
    """Return what was counted, and how far the candidates are (not in Ganeti).

    What was counted is about the requests of everybody, so it is empty for who does not see everything.
    """
    if services.view() is not None:
        return []
    return [*services.counts.families(), *_replication(services)]


def _replication(services: Services) -> Iterator[Family]:
    candidates = services.candidates
    newest = candidates.chain.head.serial
    yield _family(STALLED, [Sample([], float(candidates.stalled.is_set()))])
    positions = zip(candidates.targets(), candidates.positions(), strict=True)
    behind = [Sample([target.name], float(newest - at)) for target, at in positions if at is not None]
    yield _family(LAG, behind)


def _family(measure: measures.Measure, samples: list[Sample]) -> Family:
    return Family(measure.name, measure.kind, list(measure.labels), measure.text, samples)

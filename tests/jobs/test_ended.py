"""What the metrics say of jobs that end."""

import pytest
from msgspec import structs
from tests.state import build

from gantry.jobs import ended
from gantry.model import job
from gantry.runtime import measures
from gantry.state.journal import record
from gantry.state.objects import snapshot


def durations(*jobs: job.Job) -> list[tuple[str | float, ...]]:
    """Return status, number and total time of the jobs that have ended, after a record of all of them."""
    counts = measures.Measures()
    journal_record = record.Record(
        serial=1, time=1.0, epoch=1, cause=build.CAUSE, changes=tuple(map(snapshot.Put, jobs))
    )
    ended.Ended(counts).follow(journal_record, snapshot.Snapshot())
    (family,) = [family for family in counts.families() if family.name == ended.ENDED.name]
    return [(*sample.labels, sum(sample.classes), sample.value) for sample in family.samples]


@pytest.mark.parametrize(
    ("start", "end", "seconds"),
    [
        ((100, 0), (107, 250_000), 7.25),
        ((100, 750_000), (107, 250_000), 6.5),
        ((100, 0), (99, 0), 0.0),  # the clock was set back
        (None, (107, 0), 0.0),
        ((100, 0), None, 0.0),
    ],
)
def test_a_job_that_ended_counts_once_with_the_time_since_its_start(
    start: tuple[int, int] | None, end: tuple[int, int] | None, seconds: float
) -> None:
    success = structs.replace(build.ended(build.queued(1)), start_timestamp=start, end_timestamp=end)
    assert durations(success, build.queued(2)) == [(success.status.value, 1, seconds)]


def test_a_job_that_had_ended_before_does_not_count_again() -> None:
    success = build.ended(build.queued(1))
    counts = measures.Measures()
    before = snapshot.Snapshot().apply([snapshot.Put(success)], serial=1)
    again = record.Record(serial=2, time=1.0, epoch=1, cause=build.CAUSE, changes=(snapshot.Put(success),))
    ended.Ended(counts).follow(again, before)
    assert counts.families() == []

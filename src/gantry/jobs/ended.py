"""What became of jobs, for a monitoring system: how many ended, how, and how long they ran.

``Ended.follow`` follows the acknowledged changes of the store: a job counts when its end can not be lost any more.
"""

from gantry.model import job as jobs
from gantry.runtime import measures
from gantry.state.journal import record
from gantry.state.objects import snapshot as states

ENDED = measures.Measure(
    "gantry_job_duration_seconds",
    measures.Kind.DURATION,
    ("status",),
    "Jobs that ended, by status, with the time from the start of their first opcode; 0 for a job that never started.",
)


class Ended:
    """Counts the jobs that end."""

    def __init__(self, counts: measures.Measures) -> None:
        self._counts = counts

    def follow(self, journal_record: record.Record, before: states.Snapshot) -> None:
        """Count the jobs that end with a record; ``before`` is the state before it."""
        for change in journal_record.changes:
            job = change.value if isinstance(change, states.Put) else None
            if not isinstance(job, jobs.Job) or (status := job.status) not in jobs.FINAL:
                continue
            former = before.jobs.get(str(job.id))
            if former is None or former.status not in jobs.FINAL:
                self._counts.took(ENDED, _seconds(job), status.value)


def _seconds(job: jobs.Job) -> float:
    if job.start_timestamp is None or job.end_timestamp is None:
        return 0.0
    (begin, begin_part), (end, end_part) = job.start_timestamp, job.end_timestamp
    return max(0.0, end - begin + (end_part - begin_part) / 1e6)

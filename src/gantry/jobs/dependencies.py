"""Dependencies of a job: the jobs that must end before it, and the effect of their ends.

``jobs.queue`` checks them at submission and whenever a job ends. A job stays queued until all dependencies of all its
opcodes have ended; then its first opcode runs. A dependency is a job that was submitted earlier, so there are no
circles.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import structs

from gantry import errors
from gantry.model import job as jobs
from gantry.model import opcodes

StatusOf = Callable[[int], jobs.Status | None]
"""The status of a job by number, including archived jobs; None if there is no such job."""


def absolute(
    ops: Sequence[opcodes.AnyOpcode], number: int, *, earlier: Sequence[int | errors.GantryError], status_of: StatusOf
) -> tuple[opcodes.AnyOpcode, ...]:
    """Return the opcodes of job ``number`` with job numbers instead of negative dependencies.

    ``earlier`` are the preceding jobs of the submission, -1 is the last (contracts/jobs.md#dependencies). Raises
    InvalidError for a dependency on the job itself, on a later or on a missing job.
    """
    return tuple(
        structs.replace(
            op, depends=tuple(_resolve(dependency, number, earlier, status_of) for dependency in op.depends)
        )
        if op.depends
        else op
        for op in ops
    )


def _resolve(
    dependency: opcodes.Dependency, number: int, earlier: Sequence[int | errors.GantryError], status_of: StatusOf
) -> opcodes.Dependency:
    number_or_offset = dependency.job
    if number_or_offset < 0:
        if -number_or_offset > len(earlier):
            raise errors.InvalidError(f"dependency {number_or_offset} is before the first job of the submission")
        earlier_job = earlier[number_or_offset]
        if isinstance(earlier_job, errors.GantryError):
            raise errors.InvalidError(
                f"the job of dependency {number_or_offset} was not accepted: {earlier_job.message}"
            )
        return opcodes.Dependency(earlier_job, dependency.statuses)
    if number_or_offset >= number or (number_or_offset not in earlier and status_of(number_or_offset) is None):
        raise errors.InvalidError(
            f"dependency on job {number_or_offset}, which does not exist", hint="gnt-job list shows jobs"
        )
    return dependency


def of(job: jobs.Job) -> Iterator[opcodes.Dependency]:
    """Yield all dependencies of a job."""
    return (dependency for step in job.ops for dependency in step.input.depends or ())


def pending(job: jobs.Job, status_of: StatusOf) -> bool:
    """Return whether a job must still wait.

    Raises JobCanceledError if a dependency was canceled, and ExecutionError if a dependency ended in another status
    than the job requires.
    """
    waits = False
    for dependency in of(job):
        status = status_of(dependency.job)
        if status is None:
            raise errors.ExecutionError(f"job {dependency.job}, which this job depends on, does not exist any more")
        if status not in jobs.FINAL:
            waits = True
        elif dependency.statuses and status.value not in dependency.statuses:
            if status is jobs.Status.CANCELED:
                raise errors.JobCanceledError(f"job {dependency.job}, which this job depends on, was canceled")
            raise errors.ExecutionError(
                f"job {dependency.job}, which this job depends on, ended with status {status}, "
                f"not {', '.join(dependency.statuses)}"
            )
    return waits

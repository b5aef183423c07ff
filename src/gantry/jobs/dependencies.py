"""What a job waits for: the jobs that must have ended before it, and what their ends mean for it.

``jobs.queue`` asks at submission and whenever a job ends. All dependencies of all opcodes are waited for before the
first opcode runs; until then the job is queued. A dependency leads to a job that was submitted earlier, so there are
no circles.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import structs

from gantry import errors
from gantry.model import job as jobs
from gantry.model import opcodes

StatusOf = Callable[[int], jobs.Status | None]
"""The status of a job by number, archived ones included; None when there is no such job."""


def absolute(
    ops: Sequence[opcodes.AnyOpcode], number: int, *, earlier: Sequence[int | errors.GantryError], status_of: StatusOf
) -> tuple[opcodes.AnyOpcode, ...]:
    """Return the opcodes of job ``number`` with job numbers in place of negative dependencies.

    ``earlier`` are the jobs before it in its submission, -1 being the last (contracts/jobs.md#dependencies). Raises
    InvalidError for a dependency on itself, a later or a missing job.
    """
    return tuple(
        structs.replace(op, depends=tuple(_resolve(wish, number, earlier, status_of) for wish in op.depends))
        if op.depends
        else op
        for op in ops
    )


def _resolve(
    wish: opcodes.Dependency, number: int, earlier: Sequence[int | errors.GantryError], status_of: StatusOf
) -> opcodes.Dependency:
    wanted = wish.job
    if wanted < 0:
        if -wanted > len(earlier):
            raise errors.InvalidError(f"dependency {wanted} leads before the first job of the submission")
        found = earlier[wanted]
        if isinstance(found, errors.GantryError):
            raise errors.InvalidError(f"the job of dependency {wanted} was not accepted: {found.message}")
        return opcodes.Dependency(found, wish.statuses)
    if wanted >= number or (wanted not in earlier and status_of(wanted) is None):
        raise errors.InvalidError(f"dependency on job {wanted}, which does not exist", hint="gnt-job list shows jobs")
    return wish


def of(job: jobs.Job) -> Iterator[opcodes.Dependency]:
    """Yield all dependencies of a job."""
    return (wish for step in job.ops for wish in step.input.depends or ())


def pending(job: jobs.Job, status_of: StatusOf) -> bool:
    """Tell whether a job must wait still.

    Raises JobCanceledError when a dependency was canceled, and ExecutionError when one ended in another way than the
    job wants.
    """
    waits = False
    for wish in of(job):
        status = status_of(wish.job)
        if status is None:
            raise errors.ExecutionError(f"job {wish.job}, which this job depends on, does not exist any more")
        if status not in jobs.FINAL:
            waits = True
        elif wish.statuses and status.value not in wish.statuses:
            if status is jobs.Status.CANCELED:
                raise errors.JobCanceledError(f"job {wish.job}, which this job depends on, was canceled")
            raise errors.ExecutionError(
                f"job {wish.job}, which this job depends on, ended with status {status}, not {', '.join(wish.statuses)}"
            )
    return waits

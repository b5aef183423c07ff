"""``gnt-job``: the jobs of the master daemon."""

import sys
from collections.abc import Callable, Sequence

from gantry.cli import client, errors
from gantry.cli.commands import job_list
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import filters, syntax
from gantry.cli.output import documents, object_info, terminal

ABOUT = "Shows jobs, waits for them, cancels and archives them."


def info(call: command.Call) -> int:
    """Show jobs in full."""
    ids = _ids(call)
    rows = call.client.jobs(ids, object_info.JOB_FIELDS)
    missing = [str(job) for job, row in zip(ids, rows, strict=True) if row is None]
    print(documents.document([object_info.job(row) for row in rows if row is not None]))
    if missing:
        raise errors.InvalidError(f"there is no job {', '.join(missing)}")
    return 0


def _ids(call: command.Call) -> list[int]:
    return [syntax.number(word) for word in call.arguments]


def watch(call: command.Call) -> int:
    """Show a job's log from the beginning until it ends."""
    (job,) = _ids(call)
    print(f"Output from job {job} follows")
    print("-" * 24, flush=True)
    submit.results(call.client, job, log=sys.stdout)
    print(f"Job {job} ended with success")
    return 0


def wait(call: command.Call) -> int:
    """Wait for a job without printing its log."""
    (job,) = _ids(call)
    submit.results(call.client, job, log=None)
    return 0


def cancel(call: command.Call) -> int:
    """Cancel jobs that have not started; with ``--kill``, also running jobs."""
    extra = [True] if call.options.kill else []
    if extra and not call.options.yes_do_it:
        raise errors.InvalidError("--kill ends jobs in the middle of their work", hint="add --yes-do-it to confirm")
    ids = _selected_jobs(call, "cancel")
    return _each(ids, lambda job: call.client.call("CancelJob", job, *extra))


def change_priority(call: command.Call) -> int:
    """Change the priority of jobs."""
    if not call.options.priority:
        raise errors.InvalidError("the priority is missing", hint="give --priority low, normal or high")
    priority = command.PRIORITIES[call.options.priority]
    ids = _selected_jobs(call, "change the priority of")
    return _each(ids, lambda job: call.client.call("ChangeJobPriority", job, priority))


def _selected_jobs(call: command.Call, verb: str) -> list[int]:
    """Return the jobs of the arguments, or after a confirmation the jobs in the selected states."""
    states = job_list.selected_states(call)
    if bool(call.arguments) == bool(states):
        raise errors.InvalidError("give either job numbers, or an option that selects jobs by state, as --pending")
    if call.arguments:
        return _ids(call)
    records = call.client.records("job", ["id", "summary"], where=filters.any_of("status", states))
    lines = [f"{record['id']} {record.get('summary')}" for record in records]
    if lines and not call.options.force:
        terminal.confirm(f"This will {verb} these jobs:", names=lines)
    return [client.expect(record["id"], int) for record in records]


def _each(ids: Sequence[int], change: Callable[[int], object]) -> int:
    """Call ``change`` for each job and print the result; the exit code is 1 if a job was not changed."""
    results = []
    for job in ids:
        success, message = client.expect(change(job), list)
        print(message)
        results.append(bool(success))
    return 0 if all(results) else 1


def archive(call: command.Call) -> int:
    """Move finished jobs to the archive."""
    results = []
    for job in _ids(call):
        results.append(bool(call.client.call("ArchiveJob", job)))
        if not results[-1]:
            print(f"Job {job} was not archived: it does not exist, or has not ended", file=sys.stderr)
    return 0 if all(results) else 1


def autoarchive(call: command.Call) -> int:
    """Archive all jobs that ended at least the given time ago."""
    age = call.arguments[0]
    seconds = -1 if age == "all" else syntax.seconds(age)
    archived, unchecked = client.expect(call.client.call("AutoArchiveJobs", seconds, 60), list)
    print(f"Archived {archived} jobs, {unchecked} unchecked left")
    return 0


def _states(*names: str) -> tuple[command.Option, ...]:
    return tuple(
        command.Option((f"--{name}",), f"Select jobs with status {' or '.join(job_list.STATES[name])}")
        for name in names
    )


LIST_TEXT = """
    Jobs are listed from the oldest to the newest. The columns user, age and error are in the table
    with titles; with --no-headers or --separator, and in other formats, only if -o names them.
"""
SELECTED_JOBS = (command.Argument("JOB", minimum=0, maximum=None, completes="job"),)
JOBS = (command.Argument("JOB", maximum=None, completes="job"),)
JOB = (command.Argument("JOB", completes="job"),)
_LIST, _LIST_FIELDS = query.commands(job_list.LISTING, "jobs", arguments=SELECTED_JOBS)


COMMANDS = (
    _LIST._replace(
        function=job_list.show,
        options=(
            *_states("pending", "running", "error", "finished"),
            job_list.NEWEST,
            job_list.ARCHIVED,
            *_LIST.options,
        ),
        text=f"{LIST_TEXT}{_LIST.text}",
    ),
    _LIST_FIELDS._replace(function=job_list.show_fields),
    command.Command("info", info, "Show jobs in full", JOBS, aliases=("show",)),
    command.Command("watch", watch, "Show a job's log until it ends", JOB),
    command.Command("wait", wait, "Wait until a job has ended, without its log", JOB),
    command.Command(
        "cancel",
        cancel,
        "Cancel jobs that have not started",
        SELECTED_JOBS,
        (
            command.FORCE,
            command.Option(("--kill",), "Also end running jobs; what they did is undone, or their logs name it"),
            command.Option(("--yes-do-it",), "Confirm --kill"),
            *_states("pending", "queued", "waiting"),
        ),
    ),
    command.Command("archive", archive, "Move finished jobs to the archive", JOBS),
    command.Command(
        "autoarchive",
        autoarchive,
        "Archive all jobs that ended at least AGE ago, as in 3d; or all",
        (command.Argument("AGE"),),
    ),
    command.Command(
        "change-priority",
        change_priority,
        "Change the priority of jobs",
        SELECTED_JOBS,
        (command.FORCE, *command.PRIORITY, *_states("pending", "queued", "waiting")),
    ),
)

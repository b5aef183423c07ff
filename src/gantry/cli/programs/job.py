"""``gnt-job``: the jobs of the master daemon."""

import sys
from collections.abc import Callable, Sequence

from gantry.cli import client, errors
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import filters, syntax
from gantry.cli.output import documents, object_info, terminal

ABOUT = "Shows jobs, waits for them, cancels and archives them."

LISTING = query.Listing(
    "job",
    ("id", "status", "summary"),
    name="id",
    formatters=dict.fromkeys(("received_ts", "start_ts", "end_ts"), documents.moment),
)
STATES = {
    "pending": ("queued", "waiting"),
    "queued": ("queued",),
    "waiting": ("waiting",),
    "running": ("running", "canceling"),
    "error": ("error",),
    "finished": submit.FINAL,
}
"""What the options of that name choose."""
REFUSED = 13
"""The exit code when somebody does not agree to work on many jobs."""


def show_list(call: command.Call) -> int:
    """List jobs."""
    if call.options.archived:
        call.options.output = f"{call.options.output or '+'},archived".replace("+,", "+")
    return query.show(call, LISTING, where=filters.any_of("status", _chosen_states(call)))


def _chosen_states(call: command.Call) -> list[str]:
    return [state for name, states in STATES.items() if call.option(name) for state in states]


def info(call: command.Call) -> int:
    """Show jobs in full."""
    ids = _ids(call)
    rows = call.client.jobs(ids, object_info.JOB_FIELDS)
    lost = [str(one) for one, row in zip(ids, rows, strict=True) if row is None]
    print(documents.document([object_info.job(row) for row in rows if row is not None]))
    if lost:
        raise errors.InvalidError(f"there is no job {', '.join(lost)}")
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
    """Wait for a job without its log."""
    (job,) = _ids(call)
    submit.results(call.client, job, log=None)
    return 0


def cancel(call: command.Call) -> int:
    """Cancel jobs that have not begun."""
    extra = [True] if call.options.kill else []
    if extra and not call.options.yes_do_it:
        raise errors.InvalidError("--kill may leave things half done", hint="if you mean it, add --yes-do-it")
    ids = _chosen(call, "cancel")
    return _each(ids, lambda job: call.client.call("CancelJob", job, *extra))


def change_priority(call: command.Call) -> int:
    """Change which jobs go first."""
    if not call.options.priority:
        raise errors.InvalidError("say which priority, by --priority low, normal or high")
    priority = command.PRIORITIES[call.options.priority]
    ids = _chosen(call, "change the priority of")
    return _each(ids, lambda job: call.client.call("ChangeJobPriority", job, priority))


def _chosen(call: command.Call, verb: str) -> list[int]:
    """Return the jobs named, or those in the chosen states after asking."""
    states = _chosen_states(call)
    if bool(call.arguments) == bool(states):
        raise errors.InvalidError("name jobs, or choose some by their state, as with --pending")
    if call.arguments:
        return _ids(call)
    found = call.client.records("job", ["id", "summary"], where=filters.any_of("status", states))
    lines = [f"{record['id']} {record.get('summary')}" for record in found]
    if lines and not call.options.force:
        terminal.confirm(f"This will {verb} these jobs:", names=lines, exit_code=REFUSED)
    return [client.expect(record["id"], int) for record in found]


def _each(ids: Sequence[int], act: Callable[[int], object]) -> int:
    """Do something to each job and print what came of it; the exit code is 1 if one did not let it happen."""
    done = []
    for job in ids:
        good, message = client.expect(act(job), list)
        print(message)
        done.append(bool(good))
    return 0 if all(done) else 1


def archive(call: command.Call) -> int:
    """Put finished jobs into the archive."""
    done = []
    for job in _ids(call):
        done.append(bool(call.client.call("ArchiveJob", job)))
        if not done[-1]:
            print(f"Job {job} was not archived: there is no such job, or it has not ended", file=sys.stderr)
    return 0 if all(done) else 1


def autoarchive(call: command.Call) -> int:
    """Put all jobs into the archive that ended some time ago."""
    age = call.arguments[0]
    seconds = -1 if age == "all" else syntax.seconds(age)
    done, left = client.expect(call.client.call("AutoArchiveJobs", seconds, 60), list)
    print(f"Archived {done} jobs, {left} unchecked left")
    return 0


def _states(*names: str) -> tuple[command.Option, ...]:
    return tuple(command.Option((f"--{name}",), f"Jobs that are {' or '.join(STATES[name])}") for name in names)


SOME = (command.Argument("JOB", least=0, most=None, completes="job"),)
MANY = (command.Argument("JOB", most=None, completes="job"),)
ONE = (command.Argument("JOB", completes="job"),)
_LIST, _LIST_FIELDS = query.commands(LISTING, "jobs", arguments=SOME)
ARCHIVED = command.Option(("--archived",), "Also jobs in the archive, with a column that says so")

COMMANDS = (
    _LIST._replace(
        function=show_list,
        options=(*_states("pending", "running", "error", "finished"), ARCHIVED, *_LIST.options),
    ),
    _LIST_FIELDS,
    command.Command("info", info, "Show jobs in full", MANY, aliases=("show",)),
    command.Command("watch", watch, "Show a job's log until it ends", ONE),
    command.Command("wait", wait, "Wait until a job has ended, without its log", ONE),
    command.Command(
        "cancel",
        cancel,
        "Cancel jobs that have not begun",
        SOME,
        (
            command.FORCE,
            command.Option(("--kill",), "Also those that have begun, which may leave things half done"),
            command.Option(("--yes-do-it",), "Mean --kill"),
            *_states("pending", "queued", "waiting"),
        ),
    ),
    command.Command("archive", archive, "Put finished jobs into the archive", MANY),
    command.Command(
        "autoarchive",
        autoarchive,
        "Archive all jobs that ended at least AGE ago, as in 3d; or all",
        (command.Argument("AGE"),),
    ),
    command.Command(
        "change-priority",
        change_priority,
        "Change which jobs go first",
        SOME,
        (command.FORCE, *command.PRIORITY, *_states("pending", "queued", "waiting")),
    ),
)

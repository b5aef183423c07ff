"""Job submission: submit opcodes, wait for the job, print its log, return its results or raise its error.

The log goes to stdout, as clients expect. While the job's status does not change, stderr says what the job waits for:
a progress line on a terminal, otherwise one notice. Ctrl-C ends the command, never the job; the message says how to
watch the job again (contracts/jobs.md#waiting-for-a-change).
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gantry.cli import client, errors
from gantry.cli.framework import command, nearest, refusals
from gantry.cli.output import terminal

FINAL = ("success", "error", "canceled")
PROGRESS_SECONDS = 1.0
"""Seconds to wait for a change while the progress line is displayed."""
FIRST_WAIT_SECONDS = 2.0
"""Seconds to wait for a change before the first notice."""
NEXT_WAIT_SECONDS = 60.0
"""Seconds to wait for a change after the notice; a daemon allows 89."""

NOTICES = {
    "queued": "Job {} is waiting in queue",
    "waiting": "Job {} is trying to acquire all necessary locks",
    "running": "Job {} is running",
    "canceling": "Job {} is being canceled",
}


class Log(Protocol):
    """What the messages of a job are printed to, such as standard output."""

    def write(self, text: str, /) -> object:
        """Print text."""

    def flush(self) -> object:
        """Let the user see what was printed."""


def carry_out(call: command.Call, op: Mapping[str, object], *, report: Callable[[object], None] | None = None) -> int:
    """Submit one opcode and wait for it, unless ``--submit``; print a dry run's plan, or ``report`` the result."""
    job = submit(call, op)
    if call.option("submit"):
        return 0
    for result in results(call.client, job, log=sys.stdout):
        if call.option("dry_run"):
            print_plan(result)
        elif report:
            report(result)
    return 0


def submit(call: command.Call, op: Mapping[str, object]) -> int:
    """Submit one opcode, and print the job's number if options request it."""
    job = call.client.submit([prepare(call, op)])
    if call.option("print_jobid"):
        print(job, flush=True)
    if call.option("submit"):
        print(f"JobID: {job}", file=sys.stderr)
    return job


def query(call: command.Call, op: Mapping[str, object]) -> object:
    """Return the result of an opcode that only reads, without a job; its warnings go to stderr."""
    result, warnings = call.client.read(prepare(call, op))
    for warning in warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    return result


def carry_out_many(
    call: command.Call,
    named: Sequence[tuple[str, Mapping[str, object]]],
    *,
    report: Callable[[str], None] | None = None,
) -> int:
    """Submit a job for each name and opcode, all at once, and wait for them; the exit code is 1 if one failed.

    ``report`` is called with the name after the success of its job, unless the options ask for less.
    """
    if len(named) == 1:
        name, op = named[0]
        return carry_out(call, op, report=(lambda _: report(name)) if report else None)
    answers = call.client.submit_many([[prepare(call, op)] for _, op in named])
    accepted = []
    for (name, _), (success, answer) in zip(named, answers, strict=True):
        if success:
            accepted.append((name, client.expect(answer, int)))
        else:
            reason = refusals.text(str(answer), call.label)
            print(f"Failed to submit job for {name}: {reason}", file=sys.stderr)
    if call.option("submit"):
        for name, job in accepted:
            print(f"{job}: {name}")
        return 0 if len(accepted) == len(named) else 1
    if accepted:
        print(f"Submitted jobs {', '.join(str(job) for _, job in accepted)}")
    succeeded = [wait_for_job(call, name, job, report=report) for name, job in accepted]
    return 0 if all(succeeded) and len(accepted) == len(named) else 1


def wait_for_job(call: command.Call, name: str, job: int, *, report: Callable[[str], None] | None = None) -> bool:
    """Wait for one of several jobs and print how the job ended; return whether it succeeded."""
    print(f"Waiting for job {job} for {name} ...")
    try:
        values = results(call.client, job, log=sys.stdout)
    except errors.ServerError as error:
        text = nearest.hinted(error, call.client).text()
        print(f"Job {job} for {name} has failed: {text}", file=sys.stderr)
        return False
    if call.option("dry_run"):
        print_plan(values[0])
    elif report:
        report(name)
    return True


def print_plan(result: object) -> None:
    """Print the steps that a dry run planned, one per line."""
    for line in result if isinstance(result, list) else []:
        print(line)


def prepare(call: command.Call, op: Mapping[str, object]) -> dict[str, object]:
    """Return the opcode with the fields that all opcodes have: reason, dry run, priority, debug level."""
    prepared = dict(op)
    now = time.time_ns()
    reason = [["gnt:user", call.option("reason"), now]] if call.option("reason") else []
    prepared["reason"] = [*reason, [f"gnt:client:{call.program}", call.command.name, now]]
    if call.option("dry_run"):
        prepared["dry_run"] = True
    if call.option("priority"):
        prepared["priority"] = command.PRIORITIES[call.option("priority")]
    if call.option("debug"):
        prepared["debug_level"] = min(call.option("debug"), 9)
    return prepared


def results(luxi: client.Client, job: int, *, log: Log | None) -> list[object]:
    """Wait for a job and return the result of each opcode.

    An opcode whose result is a list of submitted jobs is replaced by the results of these jobs. Raises the error that
    the job ended with, and LeftRunningError on Ctrl-C.
    """
    follow(luxi, job, log=log)
    values: list[object] = []
    for result in outcome(luxi, job):
        if isinstance(result, dict) and isinstance(result.get("jobs"), list):
            for success, answer in result["jobs"]:
                if not success:
                    raise errors.CommandError(f"job {job} could not submit another job: {answer}")
                values += results(luxi, client.expect(answer, int), log=log)
        else:
            values.append(result)
    return values


def follow(luxi: client.Client, job: int, *, log: Log | None) -> str:
    """Wait until a job has ended and return its status; write each message to ``log`` when it arrives."""
    watch = _Watch(luxi, job, log)
    try:
        while watch.status not in FINAL:
            change = luxi.wait_for_change(
                job,
                ["status", "progress"],
                previous=watch.previous,
                serial=watch.serial,
                timeout_seconds=watch.timeout_seconds,
            )
            watch.update(change)
    except KeyboardInterrupt:
        raise errors.LeftRunningError(
            f"Interrupted; job {job} continues", hint=f"to watch it again: gnt-job watch {job}"
        ) from None
    except errors.ConnectionLostError as error:
        error.hint = f"job {job} may still run; to watch it: gnt-job watch {job}"
        raise
    finally:
        watch.progress.clear()
    return watch.status


class _Watch:
    """The status and log position of a job that the command waits for."""

    def __init__(self, luxi: client.Client, job: int, log: Log | None) -> None:
        self.status = ""
        self.serial: int | None = None
        self.timeout_seconds = FIRST_WAIT_SECONDS
        self.progress = terminal.Progress()
        self._luxi = luxi
        self._job = job
        self._log = log
        self._timed_status = ""
        self._began = 0.0
        self._printed: set[str] = set()
        self._values: list[object] | None = None

    @property
    def previous(self) -> list[object] | None:
        return self._values

    def update(self, change: client.Change | None) -> None:
        unchanged = change is None or (not change.log and change.values == self.previous)
        if change is not None:
            self._print(change)
            self._values = change.values
            self.status = str(change.values[0])
        if self.progress.visible:
            self.timeout_seconds = PROGRESS_SECONDS
        else:
            self.timeout_seconds = NEXT_WAIT_SECONDS if unchanged else FIRST_WAIT_SECONDS
        if self.status not in FINAL:
            self._report(unchanged)

    def _print(self, change: client.Change) -> None:
        for serial, (seconds, _), kind, message in change.log:
            self.serial = serial
            if self._log is not None:
                self.progress.clear()
                print(time.ctime(seconds), message_text(kind, message), file=self._log, flush=True)

    def _report(self, unchanged: bool) -> None:
        notice = NOTICES.get(self.status, "Job {} is " + self.status).format(self._job)
        if self.progress.visible:
            work = str(self._values[1]) if self._values and len(self._values) > 1 else ""
            self.progress.show(work or f"{notice}, {self._seconds():.0f} s")
        elif unchanged and self.status in ("queued", "waiting") and notice not in self._printed:
            self._printed.add(notice)
            print(notice, file=sys.stderr, flush=True)

    def _seconds(self) -> float:
        """Return for how long the job has run; before it runs, how long ago it was submitted."""
        if self.status != self._timed_status:
            fields = ["received_ts"] if self.status in ("queued", "waiting") else ["start_ts"]
            (row,) = self._luxi.jobs([self._job], fields)
            moment = row[0] if row else None
            # The clock is the master's: the socket is on the same machine.
            self._began = moment[0] + moment[1] / 1e6 if isinstance(moment, list) else time.time()
            self._timed_status = self.status
        return max(0.0, time.time() - self._began)


def message_text(kind: str, message: object) -> str:
    """Return a log entry's message as text; messages of some types are structures."""
    if isinstance(message, str):
        return message
    if kind == "message-list" and isinstance(message, list):
        return "\n  ".join(str(line) for line in message)
    return json.dumps(message)


def outcome(luxi: client.Client, job: int) -> list[object]:
    """Return the results of a job that has ended; raises the error that the job ended with."""
    (row,) = luxi.jobs([job], ["status", "opstatus", "opresult"])
    if row is None:
        raise errors.ServerError("JobLost", [f"job {job} does not exist"])
    status, opstatus, opresult = row
    states, values = client.expect(opstatus, list), client.expect(opresult, list)
    if status == "success":
        return values
    if status == "error":
        index = states.index("error")
        prefix = f"partial failure (opcode {index}): " if "success" in states[:index] else ""
        raise client.server_error(values[index], prefix=prefix)
    if status == "canceled":
        raise errors.ServerError("JobCanceled", [f"job {job} was canceled"])
    raise errors.CommandError(f"job {job} has not ended: it is {status}", hint=f"to wait for it: gnt-job watch {job}")

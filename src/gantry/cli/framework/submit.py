"""From an opcode to its result: submit the job, wait for it with its log, raise what it ended with.

The log goes to stdout as clients expect it. While nothing happens, stderr says what the job waits for: a progress
line on a terminal, otherwise a notice once. Ctrl-C ends the command, never the job: the message says how to come
back (contracts/jobs.md#waiting-for-a-change).
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from gantry.cli import client, errors
from gantry.cli.framework import command, refusals
from gantry.cli.output import terminal

FINAL = ("success", "error", "canceled")
TICK = 1.0
"""Seconds between two looks when somebody watches the progress line."""
SHORT = 2.0
LONG = 60.0
"""Seconds without a change until the first notice, and until we ask again after it; a daemon allows 89."""

NOTICES = {
    "queued": "Job {} is waiting in queue",
    "waiting": "Job {} is trying to acquire all necessary locks",
    "running": "Job {} is running",
    "canceling": "Job {} is being canceled",
}


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
    """Submit one opcode and tell the job's number where options ask for it."""
    job = call.client.submit([prepare(call, op)])
    if call.option("print_jobid"):
        print(job, flush=True)
    if call.option("submit"):
        print(f"JobID: {job}", file=sys.stderr)
    return job


def ask(call: command.Call, op: Mapping[str, object]) -> object:
    """Run an opcode that only answers, and return its result; its log is not part of the output."""
    job = call.client.submit([prepare(call, op)])
    return results(call.client, job, log=sys.stderr)[0]


def carry_out_many(call: command.Call, named: Sequence[tuple[str, Mapping[str, object]]]) -> int:
    """Submit an opcode a job for each name, all at once, and wait for them; the exit code is 1 if one failed."""
    if len(named) == 1:
        return carry_out(call, named[0][1])
    answers = call.client.submit_many([[prepare(call, op)] for _, op in named])
    accepted = []
    for (name, _), (good, answer) in zip(named, answers, strict=True):
        if good:
            accepted.append((name, client.expect(answer, int)))
        else:
            why = refusals.text(str(answer), call.label)
            print(f"Failed to submit job for {name}: {why}", file=sys.stderr)
    if call.option("submit"):
        for name, job in accepted:
            print(f"{job}: {name}")
        return 0 if len(accepted) == len(named) else 1
    if accepted:
        print(f"Submitted jobs {', '.join(str(job) for _, job in accepted)}")
    succeeded = [waited_for(call, name, job) for name, job in accepted]
    return 0 if all(succeeded) and len(accepted) == len(named) else 1


def waited_for(call: command.Call, name: str, job: int) -> bool:
    """Wait for one of several jobs and say how it ended; tell whether it ended well."""
    print(f"Waiting for job {job} for {name} ...")
    try:
        found = results(call.client, job, log=sys.stdout)
    except errors.ServerError as error:
        print(f"Job {job} for {name} has failed: {error.text()}", file=sys.stderr)
        return False
    if call.option("dry_run"):
        print_plan(found[0])
    return True


def print_plan(result: object) -> None:
    """Print what a dry run would have done, a line each."""
    for line in result if isinstance(result, list) else []:
        print(line)


def prepare(call: command.Call, op: Mapping[str, object]) -> dict[str, object]:
    """Add what every opcode takes: dry run, priority, debug level, and who asks why."""
    made = dict(op)
    now = time.time_ns()
    reason = [["gnt:user", call.option("reason"), now]] if call.option("reason") else []
    made["reason"] = [*reason, [f"gnt:client:{call.program}", call.command.name, now]]
    if call.option("dry_run"):
        made["dry_run"] = True
    if call.option("priority"):
        made["priority"] = command.PRIORITIES[call.option("priority")]
    if call.option("debug"):
        made["debug_level"] = min(call.option("debug"), 9)
    return made


def results(luxi: client.Client, job: int, *, log: TextIO | None) -> list[object]:
    """Wait for a job and return the result of each opcode; jobs that an opcode submitted are waited for instead.

    Raises what the job ended with, and LeftRunningError on Ctrl-C.
    """
    follow(luxi, job, log=log)
    found: list[object] = []
    for result in outcome(luxi, job):
        if isinstance(result, dict) and isinstance(result.get("jobs"), list):
            for good, answer in result["jobs"]:
                if not good:
                    raise errors.CommandError(f"job {job} could not submit another one: {answer}")
                found += results(luxi, client.expect(answer, int), log=log)
        else:
            found.append(result)
    return found


def follow(luxi: client.Client, job: int, *, log: TextIO | None) -> str:
    """Wait until a job has ended and return its status; messages go to ``log`` as they come."""
    watch = _Watch(job, log)
    try:
        while watch.status not in FINAL:
            change = luxi.wait_for_change(
                job, ["status"], previous=watch.previous, serial=watch.serial, limit=watch.limit
            )
            watch.take(change)
    except KeyboardInterrupt:
        raise errors.LeftRunningError(
            f"Interrupted; job {job} goes on", hint=f"come back to it with: gnt-job watch {job}"
        ) from None
    except errors.ConnectionLostError as error:
        error.hint = f"job {job} may go on: gnt-job watch {job}"
        raise
    finally:
        watch.progress.clear()
    return watch.status


class _Watch:
    """What is known of a job that somebody waits for."""

    def __init__(self, job: int, log: TextIO | None) -> None:
        self.status = ""
        self.serial: int | None = None
        self.limit = SHORT
        self.progress = terminal.Progress()
        self._job = job
        self._log = log
        self._began = time.monotonic()
        self._told: set[str] = set()

    @property
    def previous(self) -> list[object] | None:
        return [self.status] if self.status else None

    def take(self, change: client.Change | None) -> None:
        same = change is None or (not change.log and change.values == self.previous)
        if change is not None:
            self._print(change)
            self.status = str(change.values[0])
        if self.progress.visible:
            self.limit = TICK
        else:
            self.limit = LONG if same else SHORT
        if self.status not in FINAL:
            self._tell(same)

    def _print(self, change: client.Change) -> None:
        for serial, (seconds, _), kind, message in change.log:
            self.serial = serial
            if self._log is not None:
                self.progress.clear()
                print(time.ctime(seconds), message_text(kind, message), file=self._log, flush=True)

    def _tell(self, same: bool) -> None:
        notice = NOTICES.get(self.status, "Job {} is " + self.status).format(self._job)
        if self.progress.visible:
            self.progress.show(f"{notice}, {time.monotonic() - self._began:.0f} s")
        elif same and self.status in ("queued", "waiting") and notice not in self._told:
            self._told.add(notice)
            print(notice, file=sys.stderr, flush=True)


def message_text(kind: str, message: object) -> str:
    """Return a log entry's message as text; only some types are plain text."""
    if isinstance(message, str):
        return message
    if kind == "message-list" and isinstance(message, list):
        return "\n  ".join(str(line) for line in message)
    return json.dumps(message)


def outcome(luxi: client.Client, job: int) -> list[object]:
    """Return the results of a job that has ended; raises what it ended with."""
    (row,) = luxi.jobs([job], ["status", "opstatus", "opresult"])
    if row is None:
        raise errors.ServerError("JobLost", [f"job {job} does not exist"])
    status, statuses, found = row
    states, values = client.expect(statuses, list), client.expect(found, list)
    if status == "success":
        return values
    if status == "error":
        index = states.index("error")
        prefix = f"partial failure (opcode {index}): " if "success" in states[:index] else ""
        raise client.server_error(values[index], prefix=prefix)
    if status == "canceled":
        raise errors.ServerError("JobCanceled", [f"job {job} was canceled"])
    raise errors.CommandError(f"job {job} is {status}, it has not ended", hint=f"gnt-job watch {job}")

"""``gnt-debug``: test jobs, and the list of locks."""

import json
import sys
import time

from gantry.cli import client, errors, machine
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import syntax
from gantry.cli.output import tables

ABOUT = "Tests the job queue and shows the locks."


def _waiters(value: object) -> str:
    """Format ``[mode, [owners]]`` entries as ``mode:owner/owner``."""
    entries = value if isinstance(value, list) else []
    return ",".join(f"{mode}:{tables.text(owners, separator='/')}" for mode, owners in entries) or "-"


def _waits(value: object) -> str:
    """Format ``[job, [[job, reason], ...]]`` entries as ``job for job (reason), job (reason)``."""
    entries = value if isinstance(value, list) else []
    texts = [(job, ", ".join(f"{blocker} ({reason})" for blocker, reason in blockers)) for job, blockers in entries]
    return "; ".join(f"{job} for {blockers}" for job, blockers in texts) or "-"


LOCKS = query.Listing(
    "lock", ("name", "mode", "owner", "pending", "waits"), formatters={"pending": _waiters, "waits": _waits}
)


def delay(call: command.Call) -> int:
    """Submit a job that sleeps."""
    return submit.carry_out(call, call.opcode(DELAY, duration=_seconds(call.arguments[0])))


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise errors.InvalidError(f"{text!r} is not a number of seconds") from None


def submit_job(call: command.Call) -> int:
    """Submit a job for each file of opcodes, and wait for all jobs."""
    options = call.options
    jobs = []
    for path in call.arguments:
        ops = _read_opcodes(path)
        jobs += [[submit.prepare(call, op) for op in ops * options.op_repeat]] * options.job_repeat
    start = time.monotonic()
    ids = [call.client.submit(ops) for ops in jobs] if options.each else _submitted(call.client.submit_many(jobs))
    submitted = time.monotonic()
    print(f"Submitted {len(ids)} jobs: {', '.join(str(job) for job in ids)}", flush=True)
    for job in ids:
        for result in submit.results(call.client, job, log=sys.stdout):
            if options.verbose:
                print(f"Job {job}: {json.dumps(result)}")
    if options.timing_stats:
        _print_times(start, submitted, jobs=len(ids), opcodes=sum(len(ops) for ops in jobs))
    return 0


def _print_times(start: float, submitted: float, *, jobs: int, opcodes: int) -> None:
    end = time.monotonic()
    rate = jobs / (end - start) if end > start else 0
    print(f"Submitting took {submitted - start:.3f} s, running {end - submitted:.3f} s")
    print(f"{jobs} jobs with {opcodes} opcodes in {end - start:.3f} s: {rate:.1f} jobs/s")


def _read_opcodes(path: str) -> list[dict[str, object]]:
    try:
        ops = json.loads(machine.read_file(path))
    except ValueError as error:
        raise errors.InvalidError(f"{path} is not JSON: {error}") from None
    if not isinstance(ops, list) or not all(isinstance(op, dict) for op in ops):
        raise errors.InvalidError(f'{path} is not a list of opcodes like [{{"OP_ID": "OP_TEST_DELAY", ...}}]')
    return ops


def _submitted(answers: list[tuple[bool, object]]) -> list[int]:
    problems = [str(answer) for success, answer in answers if not success]
    if problems:
        raise errors.CommandError(f"{len(problems)} jobs were not accepted, the first because: {problems[0]}")
    return [client.expect(answer, int) for _, answer in answers]


def locks(call: command.Call) -> int:
    """Show the locks, the jobs that hold them and the jobs that wait for them."""
    while (code := query.show(call, LOCKS)) == 0 and call.options.interval:
        sys.stdout.flush()
        time.sleep(call.options.interval)
        print()
    return code


COUNT = "COUNT"
DELAY = "OP_TEST_DELAY"
COMMANDS = (
    command.Command(
        "delay",
        delay,
        "Submit a job that sleeps",
        (command.Argument("SECONDS"),),
        (
            command.field_option(DELAY, "on_master", "--no-master", help="Do not sleep on the master", negated=True),
            command.field_option(
                DELAY,
                "on_nodes",
                "-n",
                "--node",
                help="Also sleep on this node",
                metavar="NODE",
                repeatable=True,
                completes="node",
            ),
            command.field_option(DELAY, "repeat", "-r", "--repeat", metavar=COUNT),
            command.field_option(DELAY, "no_locks", "-l", "--no-locks"),
            command.accepted("-i", "--interruptible", because="gnt-job cancel --kill ends any job"),
            *command.JOB,
        ),
    ),
    command.Command(
        "submit-job",
        submit_job,
        "Submit jobs from files, each a JSON list of opcodes",
        (command.Argument("FILE", maximum=None, completes="file"),),
        (
            command.Option(("-v", "--verbose"), "Print the results"),
            command.Option(("--op-repeat",), "Repeat the opcodes in a job", COUNT, parse=syntax.number, default=1),
            command.Option(("--job-repeat",), "Repeat the jobs", COUNT, parse=syntax.number, default=1),
            command.Option(("--timing-stats",), "Print how long submitting and running took"),
            command.Option(("--each",), "Submit the jobs one after the other instead of all at once"),
            *command.DRY_RUN,
            *command.PRIORITY,
        ),
    ),
    command.Command(
        "locks",
        locks,
        "Show the locks, the jobs that hold them and the jobs that wait for them",
        options=(
            command.Option(("--interval",), "Show the locks again every SECONDS", "SECONDS", parse=syntax.number),
            *command.QUERY,
        ),
    ),
)

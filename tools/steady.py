"""Looks for unstable tests: ``make steady RUNS=10`` runs the gate's tests again and again under changing conditions.

In turn they run quietly, beside four busy loops, in random order, and on one processor; ``FIRST=4`` continues with the
fourth of them, as eight runs take an hour and more. Each run prints a line; at the end stands each test that did not
pass in all runs, with the runs in which it failed and the first failure. What pytest printed is in
``build/stages/steady-N.log``.

It is run by Debian's Python before the virtual environment exists, so it imports the standard library only.
"""

import argparse
import contextlib
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.gate import DISTRIBUTION, MARKS, REAL, WORKERS
from tools.stages import ROOT, Stage

BUSY_LOOPS = 4
MAX_BUSY_SECONDS = 3600
"""A busy loop ends by itself, also if this process is killed."""

FAILURE = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - (.*))?$")
"""A line of pytest's summary; a test's name may contain the separator only inside its parameters."""


@dataclass(frozen=True)
class Condition:
    """What a run is made under: a command in front of pytest, further arguments, busy loops beside it."""

    name: str
    prefix: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    loops: int = 0


def conditions() -> Iterator[Condition]:
    """Return the conditions of one run after the other; of eight runs three are quiet and three beside busy loops."""
    quiet, loaded = Condition("quiet"), Condition("busy", loops=BUSY_LOOPS)
    for number in itertools.count(1):
        order = ("--random-order", f"--random-order-seed={number}")
        yield from (quiet, loaded, Condition(f"order {number}", arguments=order))
        yield from (quiet, loaded, Condition("one core", ("taskset", "-c", "0")))
        yield from (quiet, loaded)


@contextlib.contextmanager
def busy(loops: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep processors busy meanwhile, with that many processes."""
    loop = f"import time\nend = time.monotonic() + {MAX_BUSY_SECONDS}\nwhile time.monotonic() < end: pass"
    command = [sys.executable, "-c", loop]
    processes = [subprocess.Popen(command) for _ in range(loops)]
    try:
        yield processes
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def failures(lines: Sequence[str]) -> dict[str, str]:
    """Return each failure of the summary with its text.

    >>> failures(["FAILED tests/a.py::test_b[x] - assert 1 == 2", "ERROR tests/c.py::test_d", "1 failed in 2.00s"])
    {'tests/a.py::test_b[x]': 'assert 1 == 2', 'tests/c.py::test_d': ''}
    """
    return {match[1]: match[2] or "" for line in lines if (match := FAILURE.match(line))}


def main() -> int:
    """Run the tests; the exit status is 0 if all of them passed in all runs."""
    parser = argparse.ArgumentParser(prog="steady", description="Run the gate's tests under changing conditions.")
    parser.add_argument("--runs", type=int, default=8, help="how many runs (default: %(default)s)")
    parser.add_argument("--first", type=int, default=1, help="the number of the first run (default: %(default)s)")
    parser.add_argument("--workers", default=WORKERS, help="how many processes run tests (default: %(default)s)")
    options = parser.parse_args()
    failed: dict[str, list[str]] = {}
    broken = False
    last = options.first + options.runs - 1
    for number, condition in enumerate(itertools.islice(conditions(), options.first - 1, last), start=options.first):
        command = (*condition.prefix, ".venv/bin/pytest", "-m", MARKS, *DISTRIBUTION, "-n", options.workers)
        stage = Stage(ROOT, f"steady-{number}", (*command, *condition.arguments), REAL)
        print(f"{condition.name:<10}", end=" ")
        with busy(condition.loops):
            status, _ = stage.run()
        own_failures = failures(stage.lines())
        broken = broken or (status != 0 and not own_failures)
        for test, text in own_failures.items():
            failed.setdefault(test, []).append(f"  run {number} ({condition.name}): {text}")
    for test, runs in failed.items():
        print("\n".join([test, *runs]))
    print(f"{options.runs} runs, {len(failed)} tests failed in one of them", flush=True)
    return 1 if failed or broken else 0


if __name__ == "__main__":
    sys.exit(main())

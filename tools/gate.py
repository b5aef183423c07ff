"""The gate: ``make test``, which every change passes before it lands, within minutes and on any machine.

Its stages run one after the other: the libraries that are missing, the checks, the tests, the clusters of the
simulation. The checks have one processor for the types and one for the others and for the collection of the tests: it
keeps what pytest makes of each file; in a fresh checkout each worker would make that for itself at the same time.

The first failure ends the run and is printed, except that tests which fail are run once more, alone, when all others
have ended (pytest's own ``--last-failed``). If they pass then, the gate passes, and its last lines name them as
unstable with their first failure: each is a defect, and its cause is repaired next. More than ``MAX_UNSTABLE`` of them,
or a test that fails twice, are a failure.

It is run by Debian's Python before the virtual environment exists, so it imports the standard library only.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.stages import ROOT, Stage, minutes, run_together

MARKS = "(round or not (real or kube or install)) and not slow"
"""The tests of the gate: those that need neither minutes nor machines, and a short round of each real part."""

PYTEST = (".venv/bin/pytest", "-m", MARKS)

REAL = {"GANTRY_REAL": "1"}
"""Real parts take part."""

DISTRIBUTION = ("--dist", "loadfile", "--no-loadscope-reorder")
"""Workers take whole files, in the order of ``order_plugin``."""

WORKERS = str(min(2 * len(os.sched_getaffinity(0)), 8))
"""Two to a processor, because a test of daemons waits for a third of its time; each needs half a GiB."""

NEEDED_BYTES = 1 << 30
"""Bytes that must be free where the checkout is, and where temporary files go, such as guests' disks and databases."""

MAX_UNSTABLE = 3

FAILED_TESTS = 1
"""The exit status of pytest when it has run all tests and some failed."""


def first_failures(lines: Sequence[str], tests: Sequence[str]) -> dict[str, str]:
    """Return the text of pytest's summary about each test that failed.

    >>> first_failures(["FAILED tests/a.py::test_b - assert 1 == 2"], ["tests/a.py::test_b"])
    {'tests/a.py::test_b': 'assert 1 == 2'}
    """
    texts = dict.fromkeys(tests, "no text")
    for line in lines:
        for test in tests:
            for outcome in ("FAILED", "ERROR"):
                if line.startswith(begin := f"{outcome} {test} - "):
                    texts[test] = line.removeprefix(begin)
    return texts


def shortages(folders: Sequence[Path], free: Callable[[Path], int]) -> list[str]:
    """Return a line for each folder where too little is free; ``free`` returns bytes.

    >>> shortages([Path("/tmp"), Path("/home")], {Path("/tmp"): 19 << 20, Path("/home"): 7 << 30}.__getitem__)
    ['the gate needs 1024 MiB in /tmp, where 19 MiB are free']
    """
    return [
        f"the gate needs {NEEDED_BYTES >> 20} MiB in {folder}, where {free(folder) >> 20} MiB are free"
        for folder in folders
        if free(folder) < NEEDED_BYTES
    ]


def run_tests(root: Path, *arguments: str) -> list[str] | None:
    """Run tests with arguments of pytest, and those that failed once more; return a line for each unstable test.

    It is None if the tests failed.
    """
    cache = root / ".pytest_cache/v/cache/lastfailed"
    cache.unlink(missing_ok=True)
    first = Stage(root, "tests", (*PYTEST, *arguments), REAL)
    status, _ = first.run()
    if status == 0:
        return []
    failed = sorted(json.loads(cache.read_text())) if cache.exists() else []
    if status != FAILED_TESTS or not 0 < len(failed) <= MAX_UNSTABLE:
        first.show()
        return None
    again = Stage(root, "alone", (*PYTEST, "--last-failed", "--last-failed-no-failures=none"), REAL)
    if again.run()[0] != 0:
        first.show()
        again.show()
        return None
    return [f"unstable: {test}, first failure: {text}" for test, text in first_failures(first.lines(), failed).items()]


def run_target(name: str, *targets: str) -> bool:
    """Run a target of ``make``; return whether it passed."""
    stage = Stage(ROOT, name, ("make", *targets))
    passed = stage.run()[0] == 0
    if not passed:
        stage.show()
    return passed


def run_checks(root: Path) -> bool:
    """Run the checks, and collect the tests, which fails if a file of them cannot be imported; return success."""
    stages = (
        Stage(root, "types", ("make", "check-types")),
        Stage(root, "sources", ("make", "check-sources")),
        Stage(root, "collection", (*PYTEST, "--collect-only"), REAL),
    )
    failed = [stage for stage, status in zip(stages, run_together(stages), strict=True) if status]
    for stage in failed:
        stage.show()
    return not failed


def main() -> int:
    """Run all stages; the exit status is 0 if the change may land."""
    parser = argparse.ArgumentParser(prog="gate", description="Run what every change passes before it lands.")
    parser.add_argument("--workers", default=WORKERS, help="how many processes run tests (default: %(default)s)")
    parser.add_argument("--seeds", default="0-99", help="the seeds of the simulation (default: %(default)s)")
    options = parser.parse_args()
    begin = time.monotonic()
    temporary = Path(tempfile.gettempdir())
    if lines := shortages([ROOT, temporary], lambda folder: shutil.disk_usage(folder).free):
        print(*lines, sep="\n", file=sys.stderr)
        return 1
    if not (run_target("libraries", "venv", "console-if-possible") and run_checks(ROOT)):
        return 1
    unstable = run_tests(ROOT, "-n", options.workers, *DISTRIBUTION, "--durations=40")
    if unstable is None or not run_target("simulation", "simulate", f"SEEDS={options.seeds}"):
        return 1
    print("\n".join([f"the gate passed in {minutes(time.monotonic() - begin)} minutes", *unstable]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

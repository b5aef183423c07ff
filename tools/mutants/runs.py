"""Runs the tests of one mutation in a copy of the tree.

Each run is a process that is forked from one which has imported the libraries but nothing of the product: half of
what a start of pytest costs. It sees the copy alone, and so do the processes that its tests start. Tests of few files
run first, because to import all files takes longer than most tests.
"""

import contextlib
import dataclasses
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest

from tools.mutants import mutations, traces

LIBRARIES = [
    "_hypothesis_pytestplugin",
    "aiohttp.web",
    "cryptography.x509",
    "hypothesis",
    "immutables",
    "joserfc.jwt",
    "msgspec",
    "prometheus_client",
    "pytest",
    "pytest_asyncio.plugin",
    "re2",
    "tools.mutants.runs",
    "tools.promise_plugin",
    "xdist",
    "yaml",
]
"""What is imported before the fork."""

FIRST_FILES = 4
"""The first run has the tests of this many files."""

EXTRA_TIMEOUT_SECONDS = 40.0
TIMEOUT_FACTOR = 6.0
"""A run has the traced time of its tests, times ``TIMEOUT_FACTOR``, and ``EXTRA_TIMEOUT_SECONDS``."""

ENDING_SECONDS = 5.0
"""How long an interrupted run has to clean up."""

Outcome = Literal["killed", "timed out", "survived", "no test"]


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of a mutant: ``test`` is the one that noticed."""

    outcome: Outcome
    test: str = ""


class Copy:
    """A copy of a checkout, in a temporary folder; one mutant at a time is in it."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._tree = folder / "tree"
        self._base = folder / "t"
        self._log = folder / "log"
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(LIBRARIES)
        self._clock = 0
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (root / name).is_file():
                (self._tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, self._tree / name)
        (self._tree / ".venv").symlink_to(root / ".venv")

    def run(self, mutation: mutations.Mutation | None, tests: Sequence[str], seconds: dict[str, float]) -> Result:
        """Run tests, given with their traced seconds, until one fails.

        Without a mutation it is the product itself that is tested.
        """
        if not tests:
            return Result("no test")
        with self._mutated(mutation):
            for part in rounds(tests):
                outcome = self._run(part, EXTRA_TIMEOUT_SECONDS + TIMEOUT_FACTOR * sum(seconds[test] for test in part))
                if outcome.outcome != "survived":
                    return outcome
        return Result("survived")

    @contextlib.contextmanager
    def _mutated(self, mutation: mutations.Mutation | None) -> Iterator[None]:
        if mutation is None:
            yield
            return
        file = self._tree / mutation.path
        source, status = file.read_bytes(), file.stat()
        file.write_bytes(mutation.apply(source))
        # A compiled module is stale if the time of its source differs in whole seconds, or its size.
        self._clock += 1
        os.utime(file, (status.st_atime, status.st_mtime + 10 * self._clock))
        try:
            yield
        finally:
            file.write_bytes(source)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _run(self, tests: Sequence[str], limit: float) -> Result:
        process = self._context.Process(target=_pytest, args=(self._tree, self._base, self._log, tests))
        process.start()
        assert process.pid is not None
        process.join(limit)
        late = process.is_alive()
        if late:
            _end(process.pid, signal.SIGINT)
            process.join(ENDING_SECONDS)
        _end(process.pid, signal.SIGKILL)
        process.join()
        if late:
            return Result("timed out", tests[0])
        if process.exitcode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return Result("survived")
        return Result("killed", _failed(self._log.read_text(errors="replace")))


def rounds(tests: Sequence[str]) -> list[list[str]]:
    """Return tests in the order in which to run them: those of the first few files, then the others."""
    first = list(dict.fromkeys(map(traces.file_of, tests)))[:FIRST_FILES]
    parts = (
        [test for test in tests if traces.file_of(test) in first],
        [test for test in tests if traces.file_of(test) not in first],
    )
    return [part for part in parts if part]


def _failed(log: str) -> str:
    """Return the test that failed, or the last line if none did, as when a module cannot be imported."""
    failures = [line for line in log.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    line = (failures or log.splitlines()[-1:] or [""])[0]
    return line.removeprefix("FAILED ").removeprefix("ERROR ").partition(" - ")[0]


def _end(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, number)


def _pytest(tree: Path, base: Path, log: Path, tests: Sequence[str]) -> None:
    os.setsid()
    output = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.chdir(tree)
    os.environ["PYTHONPATH"] = f"{tree / 'src'}{os.pathsep}{tree}"
    # The copy keeps compiled modules, also where the machine's Python does not.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    sys.path[:0] = [str(tree / "src"), str(tree)]
    options = [
        "-x",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        "--basetemp",
        str(base),
        "--hypothesis-profile",
        "unshrunk",
    ]
    status = pytest.main([*options, *tests])
    sys.stdout.flush()
    os._exit(status)

"""What each test executes, kept in ``build/mutants/traces.json``, and the tests to run for a mutation.

The tests of all files run once under ``tracing``, which takes minutes. After that only the test files that changed
run again, until the product changes.
"""

import hashlib
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path, PurePosixPath

import msgspec

from tools.mutants import areas, mutations, tracing

SLOW_SECONDS = 2.0
"""Tests that take longer run last."""

BUDGET_SECONDS = 60.0
"""The tests of one mutation take about this long at most."""


class Traces(msgspec.Struct):
    """The record: hashes of the product and of each test file, and what each test executes."""

    product: str = ""
    files: dict[str, str] = {}
    tests: dict[str, tracing.TracedTest] = {}


def load(root: Path, kept: Path) -> Traces:
    """Return the record of a checkout; what is missing or stale in the kept one is traced first."""
    traces = msgspec.json.decode(kept.read_bytes(), type=Traces) if kept.exists() else Traces()
    product = _hash(sorted((root / "src").rglob("*.py")))
    files = {str(file.relative_to(root)): _hash([file]) for test in areas.TESTS for file in _test_files(root / test)}
    if traces.product != product:
        traces = Traces(product)
    stale = [file for file, digest in files.items() if traces.files.get(file) != digest]
    gone = {*stale, *(traces.files.keys() - files.keys())}
    traces.tests = {test: traced for test, traced in traces.tests.items() if file_of(test) not in gone}
    if stale:
        traces.tests |= _trace(root, stale, kept.with_suffix(".new"))
    traces.files = files
    kept.write_bytes(msgspec.json.encode(traces))
    return traces


def _test_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("test_*.py"))


def _hash(files: list[Path]) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def _trace(root: Path, files: list[str], target: Path) -> dict[str, tracing.TracedTest]:
    """Run test files; a test that fails is left out, and so is what a crashed run did not get to."""
    command = [sys.executable, "-m", "pytest", "-p", tracing.__name__, "-p", "no:cacheprovider", *files]
    subprocess.run(command, cwd=root, env={**os.environ, tracing.FILE: str(target)}, check=False)
    return msgspec.json.decode(target.read_bytes(), type=dict[str, tracing.TracedTest])


def file_of(test: str) -> str:
    """Return the file of a test, given by its pytest id."""
    return test.partition("::")[0]


class Selection:
    """Selects the tests that may notice a mutation."""

    def __init__(self, traces: Traces) -> None:
        self._tests = traces.tests
        self._by_line: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for test, traced in traces.tests.items():
            for path, lines in traced.lines.items():
                for line in lines:
                    self._by_line[path][line].append(test)

    def tests(self, mutation: mutations.Mutation) -> list[str]:
        """Return the tests that execute the statement of a mutation, the most promising first.

        Those are the tests of the module itself, then the quickest. For a statement that runs at import they are the
        tests that execute anything of the module and its own tests, or else those of its area. A statement that no
        traced test executes may run in a process that a test starts, or in a function that is called at import: its
        module's own tests are tried, or else those that execute anything of the module.
        """
        first, last = mutation.lines
        by_line = self._by_line[mutation.path]
        tests = {test for line in range(first, last + 1) for test in by_line.get(line, ())}
        of_module = {test for line_tests in by_line.values() for test in line_tests}
        if mutation.imported:
            tests = of_module | self._near(mutation.path, 0)
        tests = tests or self._near(mutation.path, 1 if mutation.imported else 0) or of_module
        ordered = sorted(
            tests,
            key=lambda test: (self.seconds(test) > SLOW_SECONDS, distance(mutation.path, test), self.seconds(test)),
        )
        return self._affordable(ordered)

    def seconds(self, test: str) -> float:
        """Return how long a test took when it was traced."""
        return self._tests[test].seconds

    def _near(self, path: str, most: int) -> set[str]:
        return {test for test in self._tests if distance(path, test) <= most}

    def _affordable(self, tests: list[str]) -> list[str]:
        total, affordable = 0.0, tests[:1]
        for test in tests[1:]:
            total += self.seconds(test)
            if total < BUDGET_SECONDS:
                affordable.append(test)
        return affordable


def distance(path: str, test: str) -> int:
    """Return how far a test is from a module: 0 in its own test file, 1 in a folder of the same area, else 2.

    >>> distance("src/gantry/jobs/queue.py", "tests/jobs/test_queue.py::test_a")
    0
    """
    module = PurePosixPath(path).relative_to("src/gantry")
    stem = module.parent if module.stem == "__init__" else module.with_suffix("")
    own = PurePosixPath("tests", stem.parent, f"test_{stem.name}.py")
    if file_of(test) == str(own):
        return 0
    return 1 if test.startswith(f"tests/{module.parts[0]}/") else 2

"""The pytest plugin that records which lines of the product each test executes, and how long the test takes.

It is loaded by ``-p tools.mutants.tracing`` in the process that ``traces`` starts. ``GANTRY_TRACE`` is the file that
it writes. Lines that run while a module is imported belong to no test. The lines of other processes are not recorded.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import msgspec
import pytest

from tools.mutants import areas

FILE = "GANTRY_TRACE"
"""The environment variable with the path of the file to write."""


class TracedTest(msgspec.Struct):
    """What is known of a test that passed: its seconds, and the executed lines of each file below the checkout."""

    seconds: float
    lines: dict[str, list[int]] = {}


class Tracer:
    """Traces one session; its record has only the tests that passed."""

    def __init__(self, root: Path, target: Path) -> None:
        self._root = root
        self._target = target
        self._coverage = coverage.Coverage(data_file=None, source=[str(root / area) for area in areas.FOLDERS])
        self._seconds: dict[str, float] = defaultdict(float)
        self._failed: set[str] = set()
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Count the lines of setup, call and teardown for the test."""
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the phases of a test."""
        self._seconds[report.nodeid] += report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write the record."""
        self._coverage.stop()
        tests = {test: TracedTest(s) for test, s in self._seconds.items() if test not in self._failed}
        data = self._coverage.get_data()
        for file in data.measured_files():
            path = str(Path(file).relative_to(self._root))
            for line, contexts in sorted(data.contexts_by_lineno(file).items()):
                for test in contexts:
                    if test in tests:
                        tests[test].lines.setdefault(path, []).append(line)
        self._target.write_bytes(msgspec.json.encode(tests))


def pytest_configure(config: pytest.Config) -> None:
    """Trace if this process was asked to."""
    if target := os.environ.get(FILE):
        config.pluginmanager.register(Tracer(config.rootpath, Path(target)))

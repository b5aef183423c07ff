"""The pytest plugin behind ``@pytest.mark.promise``: checks the ids, and writes down what the tests made of them.

Each test carries its ids in its report, so that under pytest-xdist the reports bring them to the controlling process;
only that one records, at the end of the session. A run is full when nothing was left out: no selection on the command
line, no early stop, nothing that could not be collected, no worker that crashed. One of a part (``make
test-real``, ``make test-kube``) is full but for the tests without that mark.
"""

import datetime
from collections.abc import Generator
from pathlib import Path

import pytest

from tools import promises

PROPERTY = "promise"
SELECTING = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "stepwise")
"""The options of pytest that leave tests out."""

PHASES = ("setup", "call", "teardown")
"""A report of any other kind is pytest-xdist's for a worker that crashed; it says nothing of the ids that were lost."""


def ids_of(item: pytest.Item) -> list[str]:
    """Return the ids that a test carries."""
    return [str(promise) for mark in item.iter_markers("promise") for promise in mark.args]


def outcome_of(report: pytest.TestReport) -> str:
    """Return the list that a phase of a test puts it on, or nothing: setup and teardown count when they go wrong."""
    if report.failed:
        return "failed"
    if report.skipped or hasattr(report, "wasxfail"):
        return "skipped"
    return "passed" if report.when == "call" else ""


class Recorder:
    """Collects the outcomes of one session."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._folder = folder
        self._results: dict[str, dict[str, str]] = {}
        selected = str(config.getoption("markexpr", ""))
        self._part = selected if selected in promises.PARTS else ""
        self._full = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not any(
            config.getoption(name, None) for name in SELECTING if not (self._part and name == "markexpr")
        )

    def pytest_deselected(self) -> None:
        """Note that a plugin left tests out, others than those that a run of a part leaves out."""
        self._full = self._full and bool(self._part)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note that a file could not be read."""
        if report.failed:
            self._full = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note one phase of one test; what went wrong once stays."""
        outcome = outcome_of(report)
        if report.when not in PHASES:
            self._full = False
        for name, promise in report.user_properties:
            if name == PROPERTY and outcome:
                tests = self._results.setdefault(str(promise), {})
                if tests.get(report.nodeid) != "failed":
                    tests[report.nodeid] = outcome

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the record."""
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        stopped = session.shouldstop or session.shouldfail
        outcomes = {promise: promises.Outcome.of(tests) for promise, tests in self._results.items()}
        date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        full = self._full and ended and not stopped
        part = self._part if full else ""
        promises.Run(date, full and not part, outcomes, part).write(self._folder)


def pytest_configure(config: pytest.Config) -> None:
    """Record in the process that sees all reports, when tests are run at all."""
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        folder = config.rootpath / promises.RECORDS.relative_to(promises.ROOT)
        config.pluginmanager.register(Recorder(config, folder), "promise-recorder")


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, object, object]:
    """Give the ids of a test to its reports; one that no list has fails the collection of its file."""
    made = yield
    for item in made if isinstance(made, list) else [made]:
        if isinstance(item, pytest.Item):
            _carry(item)
    return made


def _carry(item: pytest.Item) -> None:
    for promise in ids_of(item):
        if promise not in promises.known():
            message = f"{item.nodeid}: no list in docs/reference/promises has {promise!r}"
            raise pytest.Collector.CollectError(message)
        item.user_properties.append((PROPERTY, promise))

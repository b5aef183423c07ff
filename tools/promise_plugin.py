"""The pytest plugin behind ``@pytest.mark.promise``: checks promise ids and records the outcomes of their tests.

The report of each test carries its ids, so that pytest-xdist passes them to the controlling process. Only that process
writes the record, at the end of the session. A run is full when no test was left out: no selection on the command line,
no early stop, no collection error, no crashed worker. The run of a part (``make test``, ``make test-slow``, ``make
test-real``, ``make test-kube``) is full except for the tests that its expression of marks does not select; those that
carry an id are recorded as skipped. A test without an assertion (see ``assertions``) cannot carry an id.
"""

import datetime
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

import pytest

from tools import assertions, contact_plugin, promises, trees

PROPERTY = "promise"
LEFT_OUT = "promises_left_out"
"""The key under which a worker of pytest-xdist sends the tests that it has left out."""

SELECTING = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "stepwise")
"""The options of pytest that leave tests out."""

PHASES = ("setup", "call", "teardown")
"""pytest-xdist reports a crashed worker under another phase; that report does not have the ids of the lost tests."""


def ids_of(item: pytest.Item) -> list[str]:
    """Return the ids that a test carries."""
    return [str(promise) for mark in item.iter_markers("promise") for promise in mark.args]


def outcome_of(report: pytest.TestReport) -> str:
    """Return the outcome of a phase of a test; empty for setup and teardown without a failure or skip."""
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
        self._reasons: dict[str, str] = {}
        self._real: set[str] = set()
        self._root = config.rootpath
        self._tree = trees.content_hash(config.rootpath)
        selected = str(config.getoption("markexpr", ""))
        self._part = next((part for part, marks in promises.PARTS.items() if marks == selected), "")
        self._full = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not any(
            config.getoption(name, None) for name in SELECTING if not (self._part and name == "markexpr")
        )

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note the tests that this process leaves out; the run of a part leaves out only tests of other parts."""
        self._full = self._full and bool(self._part)
        self.leave_out(left_out(items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Note the tests that a worker of pytest-xdist leaves out."""
        self.leave_out(getattr(node, "workeroutput", {}).get(LEFT_OUT, []))

    def leave_out(self, tests: Iterable[Sequence[str]]) -> None:
        """Record tests, each with its id, as skipped."""
        for promise, test in tests:
            self._results.setdefault(promise, {}).setdefault(test, "skipped")
            self._reasons[test] = promises.ELSEWHERE

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note that a file could not be collected."""
        if report.failed:
            self._full = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note one phase of a test; a failure in an earlier phase stays."""
        outcome = outcome_of(report)
        if report.when not in PHASES:
            self._full = False
        if any(name == contact_plugin.PROPERTY for name, _ in report.user_properties):
            self._real.add(report.nodeid)
        for name, promise in report.user_properties:
            if name == PROPERTY and outcome:
                tests = self._results.setdefault(str(promise), {})
                if tests.get(report.nodeid) != "failed":
                    tests[report.nodeid] = outcome
                if outcome == "skipped":
                    self._reasons[report.nodeid] = reason_of(report)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the record."""
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        stopped = session.shouldstop or session.shouldfail
        outcomes = {
            promise: promises.Outcome.of(tests, reasons=self._reasons, real=self._real)
            for promise, tests in self._results.items()
        }
        date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        full = self._full and ended and not stopped
        part = self._part if full else ""
        tree = self._tree if trees.content_hash(self._root) == self._tree else ""
        commit = trees.commit(self._root)
        promises.Run(date, full and not part, outcomes, part, tree, commit).write(self._folder)


def left_out(items: Iterable[pytest.Item]) -> list[tuple[str, str]]:
    """Return each id that tests carry with the node id of the test."""
    return [(promise, item.nodeid) for item in items for promise in ids_of(item)]


def reason_of(report: pytest.TestReport) -> str:
    """Return why a test was skipped."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(getattr(report, "wasxfail", ""))


class Worker:
    """Collects, in a worker of pytest-xdist, the tests that it leaves out."""

    def __init__(self) -> None:
        self._left_out: list[tuple[str, str]] = []

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note the tests that this worker leaves out."""
        self._left_out += left_out(items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the left-out tests to the controlling process."""
        output: dict[str, object] = getattr(session.config, "workeroutput")  # noqa: B009  # pytest-xdist adds it
        output[LEFT_OUT] = self._left_out


def pytest_configure(config: pytest.Config) -> None:
    """Register the recorder in the process that sees all reports, if tests are run, and the collector in a worker."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Worker(), "promise-worker")
    elif not config.option.collectonly:
        folder = config.rootpath / promises.RECORDS.relative_to(promises.ROOT)
        config.pluginmanager.register(Recorder(config, folder), "promise-recorder")


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, object, object]:
    """Add the ids of a test to its reports; an id without a list fails the collection of the file."""
    items = yield
    for item in items if isinstance(items, list) else [items]:
        if isinstance(item, pytest.Item):
            _carry(item)
    return items


def _carry(item: pytest.Item) -> None:
    for promise in ids_of(item):
        if promise not in promises.known():
            message = f"{item.nodeid}: the promise {promise!r} is not in any list in docs/reference/promises"
            raise pytest.Collector.CollectError(message)
        if isinstance(item, pytest.Function) and not assertions.asserts(item):
            message = f"{item.nodeid}: carries {promise!r}, but neither the test nor its helpers assert anything"
            raise pytest.Collector.CollectError(message)
        item.user_properties.append((PROPERTY, promise))

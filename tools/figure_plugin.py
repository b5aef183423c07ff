"""The pytest plugin behind the fixture ``figure``: prints figures that tests measured at the end of the run.

A test's report carries the text, so that the controlling process of pytest-xdist receives it too.
"""

from collections.abc import Callable

import pytest

PROPERTY = "figure"


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Return a function that records a line to print at the end of the run."""
    return lambda text: record_property(PROPERTY, text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines of all tests."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    for report in reports:
        for name, text in getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ():
            if name == PROPERTY:
                terminalreporter.write_line(text)

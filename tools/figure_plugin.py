"""The pytest plugin behind the fixture ``figure``: what tests counted is printed at the end of the run.

The text goes with the test's report, so that under pytest-xdist the controlling process has it too.
"""

from collections.abc import Callable

import pytest

PROPERTY = "figure"


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Return what a test calls with a line for the end of the run."""
    return lambda text: record_property(PROPERTY, text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines of all tests."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    for report in reports:
        for name, text in getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ():
            if name == PROPERTY:
                terminalreporter.write_line(text)

"""What ``make simulate-coverage`` counts, and when it fails."""

import subprocess
import sys

import pytest

from tools import simulation_coverage as measured

FILE = measured.File(
    "/src/gantry/operations/a.py", frozenset({1, 2, 3, 4, 7, 8, 9, 10}), frozenset({1, 2}), frozenset({3, 4, 8})
)


DECLARATIONS = measured.File("/src/gantry/operations/b.py", frozenset({1, 2}), frozenset({1, 2}), frozenset())


def test_the_share_is_that_of_the_statements_in_functions() -> None:
    text = measured.report([FILE, DECLARATIONS], missing=True)
    assert measured.share([FILE, DECLARATIONS]) == 50.0
    assert "a.py                                         6 statements in functions,    3 missing   50 %  3-4, 8" in text
    assert "b.py" not in text
    assert text.endswith("statements in functions executed: 50.0 %; of all statements: 70.0 %")


@pytest.mark.parametrize("bound, code", [("99.9", 1), ("20", 0)])
@pytest.mark.slow
def test_a_share_below_the_bound_is_a_failure(bound: str, code: int) -> None:
    command = [sys.executable, measured.__file__, "--seeds", "3", "--processes", "1", "--bound", bound]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (run.returncode, run.stderr) == (code, "")
    assert ("fewer than 99.9 %" in run.stdout) is bool(code)

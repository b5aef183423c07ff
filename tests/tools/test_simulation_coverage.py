"""What ``make simulate-coverage`` counts, and when it fails."""

import subprocess
import sys

import pytest

from tools import simulation_coverage as measured

FILE = measured.File(
    "/src/gantry/operations/a.py", frozenset({1, 2, 3, 4, 7, 8, 9, 10}), frozenset({1, 2}), frozenset({3, 4, 8})
)


def test_the_share_counts_all_statements_and_those_in_functions_apart() -> None:
    text = measured.report([FILE], missing=True)
    assert measured.share([FILE]) == 62.5
    assert "a.py                                         8 statements,    3 missing   62 %  3-4, 8" in text
    assert text.endswith("statements executed: 62.5 %; of those in functions: 50.0 %")


@pytest.mark.parametrize("bound, code", [("99.9", 1), ("20", 0)])
@pytest.mark.slow
def test_a_share_below_the_bound_is_a_failure(bound: str, code: int) -> None:
    command = [sys.executable, measured.__file__, "--seeds", "3", "--processes", "1", "--bound", bound]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (run.returncode, run.stderr) == (code, "")
    assert ("fewer than 99.9 %" in run.stdout) is bool(code)

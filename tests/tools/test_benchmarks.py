"""The program of ``make bench``."""

import sys
import tempfile
from collections.abc import Iterable

import pytest
from benchmarks import run
from benchmarks.figure import Figure


def measured() -> Iterable[Figure]:
    yield Figure("time of the second", "ms", [3.0])


def broken() -> Iterable[Figure]:
    yield Figure("time of the first", "ms", [2.0])
    raise ValueError("its cluster has no such network")


def test_a_benchmark_that_ends_with_an_error_is_named_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "BENCHMARKS", {"first": broken, "second": measured})
    monkeypatch.setattr(sys, "argv", ["run.py"])
    folder = tempfile.gettempdir()
    assert run.main() == 1
    assert tempfile.gettempdir() == folder
    captured = capsys.readouterr()
    assert "time of the first" in captured.out
    assert "time of the second" in captured.out
    assert "its cluster has no such network" in captured.err
    assert captured.err.splitlines()[-1] == "1 benchmarks ended with an error, see above: first"

"""The gate passes what is unstable by chance, and says so; it fails what fails twice."""

import sys
from pathlib import Path

import pytest

from tools import gate

UNSTABLE = """
import pathlib

def test_{name}():
    mark = pathlib.Path("{name}")
    seen = mark.exists()
    mark.touch()
    assert seen, "the first time"
"""
SETTINGS = "[pytest]\nmarkers =\n    round:\n    real:\n    kube:\n    install:\n    slow:\n"


def run(folder: Path, *tests: str) -> list[str] | None:
    programs = folder / ".venv/bin"
    programs.mkdir(parents=True)
    (programs / "pytest").write_text(
        f'#!/bin/sh\nPYTEST_DISABLE_PLUGIN_AUTOLOAD=1 exec {sys.executable} -m pytest -q "$@"\n'
    )
    (programs / "pytest").chmod(0o755)
    (folder / "pytest.ini").write_text(SETTINGS)
    for number, text in enumerate(tests):
        (folder / f"test_{number}.py").write_text(text)
    return gate.run_tests(folder)


def test_a_test_that_fails_once_and_passes_alone_is_named_as_unstable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "def test_good(): pass", UNSTABLE.format(name="a")) == [
        "unstable: test_1.py::test_a, first failure: AssertionError: the first time"
    ]
    tests, alone = capsys.readouterr().out.splitlines()
    assert tests.split()[:2] == ["tests", "FAILED"]
    assert alone.split()[:2] == ["alone", "passed"]
    assert "1 passed" in alone


def test_a_test_that_fails_twice_fails_the_gate_and_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, UNSTABLE.format(name="a"), "def test_b(): assert 1 == 2") is None
    printed = capsys.readouterr().out
    assert "==== tests failed; the end of build/stages/tests.log ====" in printed
    assert "==== alone failed; the end of build/stages/alone.log ====" in printed
    assert "FAILED test_1.py::test_b - assert 1 == 2" in printed


def test_more_unstable_tests_than_may_be_are_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = [UNSTABLE.format(name=f"t{number}") for number in range(gate.MAX_UNSTABLE + 1)]
    assert run(tmp_path, *tests) is None
    assert not (tmp_path / "build/stages/alone.log").exists()
    assert "4 failed" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["import nothing_of_this_name", "import os; os._exit(3)"])
def test_a_run_that_breaks_off_fails_the_gate(tmp_path: Path, text: str) -> None:
    assert run(tmp_path, "def test_good(): pass", text) is None


def test_a_run_without_failures_runs_nothing_again(tmp_path: Path) -> None:
    assert run(tmp_path, "def test_good(): pass") == []
    assert not (tmp_path / "build/stages/alone.log").exists()


def test_what_the_gate_leaves_out_by_its_marks_is_not_run(tmp_path: Path) -> None:
    tests = ["import pytest\n@pytest.mark.slow\ndef test_slow(): assert 0", "def test_good(): pass"]
    assert run(tmp_path, *tests) == []

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


def make_checkout(folder: Path, *tests: str) -> None:
    programs = folder / ".venv/bin"
    programs.mkdir(parents=True)
    (programs / "pytest").write_text(
        f'#!/bin/sh\nPYTEST_DISABLE_PLUGIN_AUTOLOAD=1 exec {sys.executable} -m pytest -q "$@"\n'
    )
    (programs / "pytest").chmod(0o755)
    (folder / "pytest.ini").write_text(SETTINGS)
    for number, text in enumerate(tests):
        (folder / f"test_{number}.py").write_text(text)


def run(folder: Path, *tests: str) -> list[str] | None:
    make_checkout(folder, *tests)
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


@pytest.mark.parametrize("failing", ["check-types", "check-sources", "collection", ""])
def test_each_check_fails_the_gate_and_alone_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], failing: str
) -> None:
    make_checkout(tmp_path, "import nothing_of_this_name" if failing == "collection" else "def test_good(): pass")
    targets = ("check-types", "check-sources")
    rules = [f"{target}:\n\t@echo {target} was run; {'false' if target == failing else 'true'}\n" for target in targets]
    (tmp_path / "Makefile").write_text("\n".join(rules))
    assert gate.run_checks(tmp_path) == (not failing)
    printed = capsys.readouterr().out
    assert printed.count("; the end of build") == (1 if failing else 0)
    assert printed.count("passed") == (2 if failing else 3)
    assert {"check-types": "check-types was run", "collection": "nothing_of_this_name"}.get(failing, "") in printed

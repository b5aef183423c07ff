"""The table of ``make test-all`` says what each stage gave, and why tests were skipped."""

import re
from pathlib import Path

import pytest

from tools import everything

ROOT = Path(__file__).resolve().parents[2]

PRINTED = """\
....s.
SKIPPED [2] tests/a.py:7: no LVM
SKIPPED [1] tests/b.py:9: no KVM: make system
12 passed, 3 skipped, 1 error in 4.50s
3 failed, 40 passed in 61.20s (0:01:01)
make: *** [test-real] Error 1
"""


def test_numbers_of_all_runs_of_a_stage_are_added_and_skips_have_their_reasons() -> None:
    outcome = everything.Outcome.of(2, 65.7, PRINTED.splitlines())
    assert outcome.counts == {"passed": 52, "failed": 4, "skipped": 3}
    assert outcome.skips == {"no LVM": 2, "no KVM: make system": 1}
    assert outcome.last_line == "make: *** [test-real] Error 1"


def test_the_table_has_each_stage_and_a_line_for_each_reason() -> None:
    outcomes = {"real": everything.Outcome.of(2, 65.7, PRINTED.splitlines()), "gate": everything.Outcome(0, 400)}
    lines = everything.table("abc", "a machine", outcomes).splitlines()
    assert lines[0] == "# make test-all of abc"
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.startswith("| ")}
    assert set(rows) == {"stage", *(part.name for part in everything.PARTS)}
    assert rows["real"].endswith("| **failed** (2) | 1:06 | 52 | 4 | 3 |")
    assert rows["gate"].endswith("| passed | 6:40 |  |  |  |")
    assert rows["bench"].endswith("| not run | | | | |")
    assert "- real: 2 skipped: no LVM" in lines
    assert "- real: make: *** [test-real] Error 1" in lines


def test_the_machine_is_described_with_what_tests_depend_on() -> None:
    assert ("with AMX" in everything.machine()) != ("without AMX" in everything.machine())


@pytest.mark.parametrize(("status", "result"), [(0, "passed"), (1, "**failed** (2)")])
def test_the_whole_fails_if_a_stage_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, result: str
) -> None:
    (tmp_path / "Makefile").write_text(f"bench:\n\t@true\npromises:\n\t@exit {status}\n")
    (tmp_path / "build").mkdir()
    monkeypatch.setattr(everything, "ROOT", tmp_path)
    monkeypatch.setattr(everything, "PAGE", tmp_path / "build/test-all.md")
    monkeypatch.setattr(everything, "RECORD", tmp_path / "build/test-all.json")
    monkeypatch.setattr("sys.argv", ["everything", "promises", "bench"])
    assert everything.main() == status
    lines = (tmp_path / "build/test-all.md").read_text().splitlines()
    assert next(line for line in lines if line.startswith("| promises ")).split(" | ")[2] == result


def test_promises_are_counted_when_all_other_stages_have_run() -> None:
    assert everything.PARTS[-1].name == "promises"


@pytest.mark.parametrize("file", ["Makefile", ".ci/run"])
def test_no_command_of_a_target_may_fail_unnoticed(file: str) -> None:
    lines = (ROOT / file).read_text().splitlines()
    assert [line for line in lines if re.search(r"\|\| true|^\t@?-[^-]", line)] == []


@pytest.mark.parametrize("part", everything.PARTS, ids=lambda part: part.name)
def test_each_stage_comes_after_those_that_it_needs(part: everything.Part) -> None:
    names = [each.name for each in everything.PARTS]
    assert all(names.index(name) < names.index(part.name) for name in part.needs)

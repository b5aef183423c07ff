import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import promises

SETTINGS = """
[pytest]
testpaths = tests
markers =
    promise(*ids): what the test keeps
    real: needs real parts
    kube: needs a server
"""

TESTS = """
import pytest

@pytest.mark.promise("cluster-1", "cluster-2")
def test_one(): ...

@pytest.mark.promise("cluster-2")
def test_two(): assert 0

@pytest.mark.promise("cluster-3")
@pytest.mark.skip
def test_three(): ...

@pytest.mark.promise("cluster-4")
def test_four(broken): ...

@pytest.fixture
def broken():
    yield
    assert 0
"""


def run(folder: Path, tests: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "pytest.ini").write_text(SETTINGS)
    (folder / "tests" / "test_it.py").write_text(tests)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tools.promise_plugin", *arguments],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(promises.ROOT)} | more,
        capture_output=True,
        text=True,
        check=False,
    )


def last(folder: Path) -> promises.Run:
    found = promises.read(folder / "build" / "promises" / promises.LAST)
    assert found is not None
    return found


@pytest.mark.parametrize("name", promises.TOTALS)
def test_a_page_has_a_row_for_every_promise_of_its_list(name: str) -> None:
    expected = [f"{name}-{number}" for number in range(1, promises.TOTALS[name] + 1)]
    assert promises.rows(promises.PAGES / f"{name}.md") == expected


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_records_what_became_of_the_tests_of_each_id(tmp_path: Path, workers: str) -> None:
    run(tmp_path, TESTS, "-n", workers)
    record = last(tmp_path)
    kept = {name for name, outcome in record.promises.items() if outcome.kept}
    assert kept == {"cluster-1"}
    assert record.promises["cluster-2"].passed == ["tests/test_it.py::test_one"]
    assert record.promises["cluster-2"].failed == ["tests/test_it.py::test_two"]
    assert record.promises["cluster-3"].skipped == ["tests/test_it.py::test_three"]
    assert record.promises["cluster-4"].failed == ["tests/test_it.py::test_four"]
    assert record.full


@pytest.mark.parametrize(
    "arguments",
    [
        ["-k", "one"],
        ["-m", "promise"],
        ["tests/test_it.py"],
        ["--deselect", "tests/test_it.py::test_two"],
        ["-x"],
        ["-x", "-n", "2"],
        ["--ignore", "tests/other.py"],
    ],
)
def test_a_run_that_leaves_tests_out_is_not_full(tmp_path: Path, arguments: list[str]) -> None:
    run(tmp_path, TESTS, *arguments)
    assert not last(tmp_path).full


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_with_a_file_that_cannot_be_read_is_not_full(tmp_path: Path, workers: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_broken.py").write_text("import no_such_module\n")
    run(tmp_path, TESTS, "-n", workers)
    assert not last(tmp_path).full


def test_a_run_whose_worker_crashed_is_not_full(tmp_path: Path) -> None:
    run(tmp_path, "import os\n\ndef test_crash(): os._exit(1)\n", "-n", "1", "--max-worker-restart=0")
    assert not last(tmp_path).full


def test_a_partial_run_leaves_the_last_full_one_as_it_is(tmp_path: Path) -> None:
    run(tmp_path, TESTS, "-n0")
    run(tmp_path, TESTS, "-n0", "-k", "two")
    full = promises.read(tmp_path / "build" / "promises" / promises.FULL)
    assert full is not None
    assert full.promises["cluster-1"].kept
    assert "cluster-1" not in last(tmp_path).promises


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("part", promises.PARTS)
def test_a_run_of_a_part_adds_to_the_full_one(tmp_path: Path, part: str, workers: str) -> None:
    skipped = TESTS.replace("@pytest.mark.skip", "@pytest.mark.skipif(\"not __import__('os').environ.get('MINUTES')\")")
    tests = skipped.replace(
        '@pytest.mark.promise("cluster-3")', f'@pytest.mark.{part}\n@pytest.mark.promise("cluster-3")'
    )
    run(tmp_path, tests, "-n", workers)
    run(tmp_path, tests, "-n", workers, "-m", part, MINUTES="1")
    record = f"{part}-run.json"
    full, real = (promises.read(tmp_path / "build/promises" / name) for name in (promises.FULL, record))
    assert full is not None
    assert real is not None
    assert (full.full, full.part, real.full, real.part) == (True, "", False, part)
    assert (full.promises["cluster-3"].kept, [*real.promises]) == (False, ["cluster-3"])
    assert {name for name, outcome in promises.merged(full, real).items() if outcome.kept} == {"cluster-1", "cluster-3"}
    lines = promises.table(full, **{part: real}).splitlines()
    assert f"full run of {full.date}" in lines
    assert f"{promises.PARTS[part]}: run of {real.date}" in lines
    run(tmp_path, tests, "-n", workers, "-m", part, "-k", "three")
    assert promises.read(tmp_path / "build/promises" / record) == real


def test_of_a_test_that_ran_twice_the_later_run_counts() -> None:
    passed, failed, skipped = (promises.Outcome(**{kind: ["a"]}) for kind in ("passed", "failed", "skipped"))
    early, late = "2026-01-02T03:04:05+00:00", "2026-01-03T03:04:05+00:00"
    for first, second, kept in ((failed, passed, True), (passed, failed, False), (passed, skipped, True)):
        runs = promises.Run(late, True, {"ipam-1": second}), promises.Run(early, False, {"ipam-1": first}, "real")
        assert promises.merged(*runs)["ipam-1"].kept is kept


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_id_that_no_list_has_stops_the_run(tmp_path: Path, workers: str) -> None:
    tests = TESTS.replace("cluster-3", "cluster-999")
    result = run(tmp_path, tests, "-n", workers)
    assert result.returncode != 0
    assert "no list in docs/reference/promises has 'cluster-999'" in result.stdout + result.stderr
    assert " passed" not in result.stdout


def test_collecting_alone_records_nothing(tmp_path: Path) -> None:
    run(tmp_path, TESTS, "--collect-only")
    assert not (tmp_path / "build").exists()


def test_the_table_counts_what_is_kept_and_names_what_is_not() -> None:
    kept = promises.Outcome(passed=["a"])
    broken = promises.Outcome(passed=["a"], failed=["b"])
    outcomes = {f"ipam-{number}": kept for number in range(1, 41)} | {"claims-2": kept, "claims-3": broken}
    lines = promises.table(promises.Run("2026-01-02T03:04:05+00:00", True, outcomes)).splitlines()
    assert lines[:5] == ["networks 0/84", "segments 0/93", "ipam 40/40", "claims 1/56", "cluster 0/156"]
    assert "  claims 1 3-56" in lines
    assert not any(line.startswith("  ipam") for line in lines)
    assert lines[-1 - len(promises.PARTS)] == "full run of 2026-01-02T03:04:05+00:00"


def test_the_table_says_that_there_was_no_full_run() -> None:
    assert promises.table(None).splitlines()[-1 - len(promises.PARTS)] == "no full run yet: make test"

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools import promises, trees

ROOT = Path(__file__).resolve().parents[2]

PLUGINS = ("xdist.plugin", "tools.contact_plugin", "tools.promise_plugin")

SETTINGS = """
[pytest]
testpaths = tests
markers =
    promise(*ids): what the test keeps
    slow: takes long
    round: is a short one of a real part
    real: needs real parts
    kube: needs a server
    install: needs machines
"""

TESTS = """
import pytest

@pytest.mark.promise("cluster-1", "cluster-2")
def test_one(): assert helper()

def helper(): return True

@pytest.mark.promise("cluster-2")
def test_two(): assert 0

@pytest.mark.promise("cluster-3")
@pytest.mark.skip(reason="no such machine")
def test_three(): assert helper()

@pytest.mark.promise("cluster-4")
def test_four(broken): assert helper()

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
        [sys.executable, "-m", "pytest", *(f"-p{plugin}" for plugin in PLUGINS), *arguments],
        cwd=folder,
        # Other plugins that are installed would cost each of these processes a second.
        env=environment | {"PYTHONPATH": str(promises.ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | more,
        capture_output=True,
        text=True,
        check=False,
    )


def last(folder: Path) -> promises.Run:
    run = promises.read(folder / "build" / "promises" / promises.LAST)
    assert run is not None
    return run


@pytest.mark.parametrize("name", promises.TOTALS)
def test_a_page_has_a_row_for_every_promise_of_its_list(name: str) -> None:
    expected = [f"{name}-{number}" for number in range(1, promises.TOTALS[name] + 1)]
    assert promises.rows(promises.PAGES / f"{name}.md") == expected


MARK = re.compile(r"\bmark\.promise\(([^)]*)\)")


def test_each_promise_is_carried_by_a_test() -> None:
    marks = [mark for file in (ROOT / "tests").rglob("*.py") for mark in MARK.findall(file.read_text())]
    carried = {promise for mark in marks for promise in re.findall(r'"([a-z]+-\d+)"', mark)}
    assert sorted(promises.known() - carried) == []


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_with_a_file_that_cannot_be_read_is_not_full(tmp_path: Path, workers: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_broken.py").write_text("import no_such_module\n")
    run(tmp_path, TESTS, "-n", workers)
    assert not last(tmp_path).full


@pytest.mark.slow
def test_a_run_whose_worker_crashed_is_not_full(tmp_path: Path) -> None:
    run(tmp_path, "import os\n\ndef test_crash(): os._exit(1)\n", "-n", "1", "--max-worker-restart=0")
    assert not last(tmp_path).full


@pytest.mark.slow
def test_a_partial_run_leaves_the_last_full_one_as_it_is(tmp_path: Path) -> None:
    run(tmp_path, TESTS, "-n0")
    run(tmp_path, TESTS, "-n0", "-k", "two")
    full = promises.read(tmp_path / "build" / "promises" / promises.FULL)
    assert full is not None
    assert full.promises["cluster-1"].kept
    assert not last(tmp_path).promises["cluster-1"].passed


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("part", ["real", "kube"])
@pytest.mark.slow
def test_a_run_of_a_part_adds_to_the_full_one(tmp_path: Path, part: str, workers: str) -> None:
    skipped = TESTS.replace(
        "@pytest.mark.skip(", "@pytest.mark.skipif(\"not __import__('os').environ.get('MINUTES')\", "
    )
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
    assert (full.promises["cluster-3"].kept, [name for name, outcome in real.promises.items() if outcome.passed]) == (
        False,
        ["cluster-3"],
    )
    assert {name for name, outcome in promises.merged(full, real).items() if outcome.kept} == {"cluster-1", "cluster-3"}
    assert full.tree == real.tree == trees.content_hash(tmp_path)
    lines = promises.table(full.tree, {"full": full, part: real}, explained=())[0].splitlines()
    assert f"full: run of {full.date}" in lines
    assert f"{part}: run of {real.date}" in lines
    run(tmp_path, tests, "-n", workers, "-m", part, "-k", "three")
    assert promises.read(tmp_path / "build/promises" / record) == real


def test_of_a_test_that_ran_twice_the_later_run_counts() -> None:
    passed, failed, skipped = (promises.Outcome.of({"a": kind}) for kind in ("passed", "failed", "skipped"))
    early, late = "2026-01-02T03:04:05+00:00", "2026-01-03T03:04:05+00:00"
    for first, second, kept in ((failed, passed, True), (passed, failed, False), (passed, skipped, True)):
        runs = promises.Run(late, True, {"ipam-1": second}), promises.Run(early, False, {"ipam-1": first}, "real")
        assert promises.merged(*runs)["ipam-1"].kept is kept


def test_what_a_part_left_to_another_counts_until_all_parts_have_run() -> None:
    elsewhere = promises.Outcome(skipped=["t[old]"], reasons={"t[old]": promises.ELSEWHERE})
    gate = promises.Run("2026-01-02T03:04:05+00:00", False, {"claims-1": elsewhere}, "gate")
    slow = promises.Run("2026-01-02T03:44:05+00:00", False, {}, "slow")
    real = promises.Run("2026-01-02T04:04:05+00:00", False, {"claims-1": promises.Outcome(passed=["t[new]"])}, "real")
    kube = promises.Run("2026-01-02T05:04:05+00:00", False, {}, "kube")
    assert not promises.merged(gate, slow, real)["claims-1"].kept
    assert promises.merged(gate, slow, real, kube)["claims-1"].kept
    missing = promises.Outcome(passed=["t[new]"], skipped=["t[old]"], reasons={"t[old]": "no such version"})
    lost = promises.Run(real.date, False, {"claims-1": missing}, "real")
    assert not promises.merged(gate, slow, lost, kube)["claims-1"].kept


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_id_that_no_list_has_stops_the_run(tmp_path: Path, workers: str) -> None:
    tests = TESTS.replace("cluster-3", "cluster-999")
    result = run(tmp_path, tests, "-n", workers)
    assert result.returncode != 0
    assert "the promise 'cluster-999' is not in any list in docs/reference/promises" in result.stdout + result.stderr
    assert " passed" not in result.stdout


def test_collecting_alone_records_nothing(tmp_path: Path) -> None:
    run(tmp_path, TESTS, "--collect-only")
    assert not (tmp_path / "build").exists()


def real(*passed: str, failed: Sequence[str] = (), skipped: Sequence[str] = ()) -> promises.Outcome:
    return promises.Outcome(list(passed), list(failed), list(skipped), real=list(passed))


def test_the_table_counts_what_is_kept_and_names_what_is_not() -> None:
    kept, by_logic = real("a"), promises.Outcome(passed=["c"])
    broken = real("a", failed=["b"])
    outcomes = {f"ipam-{number}": kept for number in range(1, 41)} | {"claims-2": by_logic, "claims-3": broken}
    record = promises.Run("2026-01-02T03:04:05+00:00", True, outcomes, tree="a", commit="abc")
    text, count = promises.table("a", {"full": record}, explained=())
    lines = text.splitlines()
    assert lines[0] == "41 of 429 promises are kept, 97.6% of them by real parts"
    assert lines[2:7] == [
        "networks 0/84",
        "segments 0/93",
        "ipam 40/40: 40 by real parts, 0 by logic only",
        "claims 1/56: 0 by real parts, 1 by logic only (2)",
        "cluster 0/156",
    ]
    assert "  claims 1 3-56" in lines
    assert not any(line.startswith("  ipam") for line in lines)
    assert "full: run of 2026-01-02T03:04:05+00:00, commit abc" in lines
    assert count.complaints() == ["held by logic only, and no page says why: claims-2"]


def test_the_table_says_that_there_was_no_full_run() -> None:
    assert "full: no run yet: pytest -m ''" in promises.table("a", {}, explained=())[0].splitlines()


def everything(**outcomes: promises.Outcome) -> dict[str, promises.Outcome]:
    names = [promise for name in promises.TOTALS for promise in promises.ids(name)]
    return {name: outcomes.get(name.replace("-", "_"), real("a")) for name in names}


def count_of(*explained: str, **outcomes: promises.Outcome) -> promises.Count:
    return promises.Count(everything(**outcomes), explained)


def test_a_promise_that_is_held_by_logic_only_needs_a_reason_and_another_must_not_have_one() -> None:
    by_logic = promises.Outcome(passed=["c"])
    assert count_of("ipam-3", ipam_3=by_logic).complaints() == []
    assert count_of("ipam-3").complaints() == ["held by a real part, though a page says why not: ipam-3"]
    assert count_of(ipam_3=by_logic).complaints() == ["held by logic only, and no page says why: ipam-3"]


def test_at_most_a_tenth_of_the_promises_may_be_held_by_logic_only() -> None:
    by_logic = {f"cluster_{number}": promises.Outcome(passed=["c"]) for number in range(1, 44)}
    names = [name.replace("_", "-") for name in by_logic]
    assert count_of(*names, **by_logic).complaints() == ["90.0% are held by real parts; at least 90% must be"]
    del by_logic["cluster_43"]
    assert count_of(*names[:-1], **by_logic).complaints() == []


def test_a_failed_or_skipped_test_that_reached_a_real_part_does_not_hold_a_promise_by_it() -> None:
    outcome = promises.Outcome(passed=["a"], skipped=["b"], real=["b"])
    assert outcome.kept
    assert not outcome.held_by_real_part


@pytest.mark.parametrize(
    ("outcome", "options", "status"),
    [
        (real("a"), (), 0),
        (promises.Outcome(), (), 1),
        (promises.Outcome(), ("--skips",), 1),
        (real("a", failed=["b"]), ("--skips",), 1),
        (real("a", skipped=["b[1]"]), (), 1),
        (real("a", skipped=["b[1]"]), ("--skips",), 0),
    ],
)
def test_the_program_fails_while_one_promise_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: promises.Outcome, options: tuple[str, ...], status: int
) -> None:
    by_logic = {name: promises.Outcome(passed=["c"]) for name in promises.reasons()}
    outcomes = everything() | by_logic | {"ipam-1": outcome}
    promises.Run("2026-01-02T03:04:05+00:00", True, outcomes, tree="a").write(tmp_path)
    monkeypatch.setattr(promises, "RECORDS", tmp_path)
    monkeypatch.setattr(trees, "content_hash", lambda _: "a")
    monkeypatch.setattr("sys.argv", ["promises", *options])
    assert promises.main() == status


def test_make_does_not_hide_that_a_promise_is_lost(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$*" = "-m tools.promises" ] && exit 1\n')
    python.chmod(0o755)
    # Without the outer make's variables, and without the target on which this one depends.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-C", str(ROOT), "--old-file=venv", "promises", f"BIN={tmp_path}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "Error 1" in done.stderr) == (2, True)


def test_the_pages_give_reasons_only_for_promises_of_their_lists() -> None:
    assert promises.reasons() <= promises.known()


def test_a_record_of_another_tree_does_not_count() -> None:
    record = promises.Run("2026-01-02T03:04:05+00:00", True, everything(), tree="a")
    assert promises.table("a", {"full": record}, explained=())[1].kept == 429
    text, count = promises.table("b", {"full": record}, explained=())
    assert count.kept == 0
    assert text.startswith("0 of 429 promises are kept")
    assert "full: run of 2026-01-02T03:04:05+00:00, of another tree, does not count: pytest -m ''" in text.splitlines()
    assert not promises.counting("", {"full": promises.Run("", True, {}, tree="")})


def test_a_promise_that_is_lost_because_tests_were_skipped_is_named_with_the_reason() -> None:
    skipped = real("t[a]", skipped=["t[b]"])
    skipped.reasons["t[b]"] = "no KVM"
    record = promises.Run("2026-01-02T03:04:05+00:00", True, everything(ipam_3=skipped), tree="a")
    text, count = promises.table("a", {"full": record}, explained=())
    assert "  ipam-3 t[b]: no KVM" in text.splitlines()
    assert "  ipam 3" in text.splitlines()
    assert count.kept == 428
    assert count.skipped
    for lost in (promises.Outcome(), promises.Outcome(passed=["a"], failed=["b"], skipped=["c"])):
        assert not count_of(ipam_3=skipped, ipam_4=lost).skipped


REACHING = """
import socket, subprocess, sys

import pytest

from tools import contact_plugin

@pytest.fixture(scope="module")
def program():
    return subprocess.run(["echo", "1"], capture_output=True, check=True).stdout

@pytest.fixture(scope="module")
def logic():
    return b"1\\n"

@pytest.mark.promise("cluster-1")
def test_first_user(program): assert program == b"1\\n"

@pytest.mark.promise("cluster-2")
def test_second_user(program): assert program == b"1\\n"

@pytest.mark.promise("cluster-3")
def test_logic(logic): assert logic == b"1\\n"

@pytest.mark.promise("cluster-4")
def test_socket():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()

@pytest.mark.promise("cluster-5")
def test_tool(): assert subprocess.run(["git", "--version"], check=True).returncode == 0

@pytest.mark.promise("cluster-6")
def test_own_text(): assert subprocess.run([sys.executable, "-P", "-c", "print(1)"], check=True).returncode == 0

@pytest.mark.promise("cluster-7")
def test_module(): assert subprocess.run([sys.executable, "-m", "this", "-c"], check=True).returncode == 0

def connect(path):
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        client.connect(path)
        return client.getpeername()

@pytest.mark.promise("cluster-8")
def test_stand_in(tmp_path):
    contact_plugin.stand_ins.add(f"{tmp_path}/a")
    assert connect(f"{tmp_path}/a")

@pytest.mark.promise("cluster-9")
def test_other_socket(tmp_path): assert connect(f"{tmp_path}/b")
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_records_which_tests_reach_another_process_or_a_socket(tmp_path: Path, workers: str) -> None:
    run(tmp_path, REACHING, "-n", workers)
    outcomes = last(tmp_path).promises
    assert all(outcome.kept for outcome in outcomes.values())
    real_ones = {name for name, outcome in outcomes.items() if outcome.held_by_real_part}
    assert real_ones == {f"cluster-{number}" for number in (1, 2, 4, 7, 9)}


SETS = """
import pytest

@pytest.mark.promise("cluster-1")
@pytest.mark.parametrize("number", [1, pytest.param(2, marks=[pytest.mark.real, SKIP])])
def test_numbers(number): assert number
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_parameter_set_that_was_skipped_or_left_to_another_part_loses_the_promise(
    tmp_path: Path, workers: str
) -> None:
    run(tmp_path, SETS.replace("SKIP", "pytest.mark.skip(reason='no machine')"), "-n", workers)
    outcome = last(tmp_path).promises["cluster-1"]
    assert not outcome.kept
    assert outcome.reasons == {"tests/test_it.py::test_numbers[2]": "no machine"}
    tests = SETS.replace(", SKIP", "")
    run(tmp_path, tests, "-n", workers, "-m", promises.PARTS["gate"])
    gate = last(tmp_path)
    assert (gate.part, gate.promises["cluster-1"].kept) == ("gate", False)
    run(tmp_path, tests, "-n", workers, "-m", "real")
    assert promises.merged(gate, last(tmp_path))["cluster-1"].kept


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_test_without_an_assertion_cannot_carry_an_id(tmp_path: Path, workers: str) -> None:
    result = run(tmp_path, TESTS.replace("def test_one(): assert helper()", "def test_one(): helper()"), "-n", workers)
    assert result.returncode != 0
    text = "test_one: carries 'cluster-1', but neither the test nor its helpers assert anything"
    assert text in result.stdout + result.stderr

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tools.mutants import __main__ as program
from tools.mutants import areas, drawing, exceptions, mutations, report, runs, traces, tracing

ROOT = Path(__file__).resolve().parents[2]
PATH = "src/gantry/address/sample.py"

SAMPLE = b'''"""A sample."""

def double(number: int) -> int:
    if number < 0:
        raise ValueError("below zero")
    return number + number


def halve(number: int) -> int:
    return number // 2


def count(number: int) -> int:
    total = 0
    while total < number:
        total += 1
    return total
'''

TESTS = """
from gantry.address import sample

def test_a_number_is_doubled():
    assert sample.double(3) == 6

def test_numbers_are_counted():
    assert sample.count(3) == 3

def test_a_number_is_halved():
    sample.halve(3)
"""


def after(source: str) -> list[str]:
    return [mutation.apply(source.encode()).decode() for mutation in mutations.mutations(PATH, source.encode())]


def mutant(new: str) -> mutations.Mutation:
    (mutation,) = (m for m in mutations.mutations(PATH, SAMPLE) if m.after == new)
    return mutation


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", ["a <= b"]),
        ("a is not b", ["a is b"]),
        ("if now == a: ...", ["if now != a: ..."]),
        ("if now < a: ...", ["if not (now < a): ..."]),
        ("a = sum(b) < max_c", ["a = sum(b) <= max_c"]),
        ("a not in b", ["a in b"]),
        ("a and b or c", ["a or b or c", "a and b and c"]),
        ("a - b", ["a + b"]),
        ("a += b", ["a -= b"]),
        ("a ^= b", ["pass"]),
        ("not a", ["a"]),
        ("f(3)", ["pass", "f(4)"]),
        ("await f()", ["pass"]),
        ("a.b = c", ["pass"]),
        ("del a[b]", ["pass"]),
        ("a = True", ["a = False"]),
        ("a = min(b)", ["a = max(b)"]),
        ("a = sorted(b)", ["a = list(b)"]),
        ("a = b if c else d", ["a = b if not (c) else d"]),
        ("a = [b for b in c if d]", ["a = [b for b in c if True]"]),
        ("if a:\n    b = c", ["if not (a):\n    b = c"]),
        ("while a:\n    break", ["while not (a):\n    break", "while a:\n    continue"]),
        ("def f():\n    return a", ["def f():\n    return None"]),
        ("def f(a=1):\n    raise b", ["def f(a=2):\n    raise b", "def f(a=1):\n    pass"]),
        ("é = a < b", ["é = a <= b"]),
        ("a_seconds = 1", ["a_seconds = 2"]),
        ("a_seconds = 10 * b", ["a_seconds = 10 // b"]),
        ("def f(a=3, b_seconds=5): pass", ["def f(a=4, b_seconds=5): pass"]),
        ("f(g(3), timeout=60)", ["pass", "f(g(4), timeout=60)"]),
    ],
)
def test_each_kind_of_fault_replaces_only_its_own_text(source: str, expected: list[str]) -> None:
    assert after(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""Numbers below 3."""',
        "log.warning('%s', a + 1)",
        "def f(a: b | c) -> d | e: pass",
        "a: list[int | None] = b",
        "@dataclass(frozen=True)\nclass A(B, tag=True): ...",
        "def __repr__(self):\n    return a + b",
        "assert a < b",
        "a = f'{b + 1}'",
        "a = errors.Busy(f(1), b + 1)",
        "A = B | C",
        "a = b + '/c'",
        "A_SECONDS = 10.0",
        "timeout = 3",
        "LIMIT = 20_000",
        "MAX_NAMES = 3",
        "_BATCH = 64",
        "a = now < b",
        "a = b.ends <= c.clock.time()",
        "a_bytes: int = 16",
        "def f(a, b_seconds=5, *, timeout=60): pass",
        "a = f(timeout=60)",
        "A_BOUNDS = (2.5, 3.0)",
        "class A(Protocol):\n    async def f(self, a=7):\n        'Do it.'\n        ...",
    ],
)
def test_wording_types_declarations_and_margins_are_left_alone(source: str) -> None:
    assert after(source) == []


def test_an_error_can_be_left_out_but_its_wording_stays() -> None:
    assert after("raise A('b', c + 1)") == ["pass"]


def test_the_key_of_a_mutation_stays_when_lines_move_and_ends_when_its_line_changes() -> None:
    keys = {m.key for m in mutations.mutations(PATH, SAMPLE)}
    assert {m.key for m in mutations.mutations(PATH, b"# more\n\n" + SAMPLE)} == keys
    assert {m.key for m in mutations.mutations(PATH, SAMPLE.replace(b"// 2", b"// 3"))} != keys


def test_a_draw_depends_on_the_seed_and_takes_each_line_once() -> None:
    first = drawing.draw({PATH: SAMPLE}, 3, 1)
    assert drawing.draw({PATH: SAMPLE}, 3, 1) == first
    assert any(drawing.draw({PATH: SAMPLE}, 3, seed) != first for seed in range(2, 9))
    everything = drawing.draw({PATH: SAMPLE}, 100, 1)
    assert sorted(m.line for m in everything) == [4, 5, 6, 10, 14, 15, 16, 17]


def test_each_run_draws_its_own_seed_unless_it_has_one_or_continues_another() -> None:
    last = program.LastRun(5)
    assert [program.seed_of(seed, last) for seed in (7, 0, None)] == [7, 0, 5]
    assert len({program.seed_of(None, None) for _ in range(20)}) > 1


@pytest.mark.parametrize(("words", "seed"), [((), None), (("SEED=7",), 7)])
def test_make_leaves_the_seed_to_the_run(words: Sequence[str], seed: int | None) -> None:
    command = ["make", "--dry-run", "--old-file=venv", "mutants", *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    _, _, arguments = done.stdout.partition("-m tools.mutants")
    assert program.command_line().parse_args(shlex.split(arguments)).seed == seed


def test_what_signals_processes_is_not_mutated() -> None:
    sources = drawing.sources(ROOT)
    assert {path.split("/")[2] for path in sources} == set(areas.AREAS)
    assert not [path for path, source in sources.items() if b"os.kill(" in source]


def test_a_draw_keeps_its_mutants_when_other_lines_change() -> None:
    before = {m.key for m in drawing.draw({PATH: SAMPLE}, 8, 1)}
    changed = SAMPLE.replace(b"number + number", b"number * two")
    assert len(before & {m.key for m in drawing.draw({PATH: changed}, 8, 1)}) == 7


def test_what_is_no_python_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mutations.CALLS, "min", "for")
    assert [m.after for m in drawing.draw({PATH: b"a = min(b)\nc = d < e\n"}, 9, 1)] == ["c = d <= e"]


def traced(**tests: tuple[float, list[int]]) -> traces.Selection:
    return traces.Selection(
        traces.Traces(
            tests={
                f"tests/{name.replace('__', '/')}.py::test": tracing.TracedTest(seconds, {PATH: lines})
                for name, (seconds, lines) in tests.items()
            }
        )
    )


def test_the_tests_of_the_module_come_first_then_the_quick_ones_and_slow_ones_last() -> None:
    selection = traced(
        doors__test_far=(0.1, [6]),
        address__test_other=(0.2, [6]),
        address__test_sample=(0.3, [6]),
        address__test_slow=(5.0, [6]),
        address__test_elsewhere=(0.1, [10]),
    )
    assert [traces.file_of(test) for test in selection.tests(mutant("return number - number"))] == [
        "tests/address/test_sample.py",
        "tests/address/test_other.py",
        "tests/doors/test_far.py",
        "tests/address/test_slow.py",
    ]


def test_a_statement_that_no_test_executes_is_tried_with_the_own_tests_of_its_module_or_with_all_of_it() -> None:
    selection = traced(address__test_sample=(0.1, []), address__test_other=(0.1, []))
    assert selection.tests(mutant("return number - number")) == ["tests/address/test_sample.py::test"]
    far = traced(doors__test_far=(0.1, [10]), doors__test_elsewhere=(0.1, []))
    assert far.tests(mutant("return number - number")) == ["tests/doors/test_far.py::test"]


def test_the_tests_of_a_mutant_take_no_more_than_the_budget() -> None:
    selection = traced(address__test_a=(40.0, [6]), address__test_b=(45.0, [6]), address__test_c=(10.0, [6]))
    assert [traces.file_of(t) for t in selection.tests(mutant("return number - number"))] == [
        "tests/address/test_c.py",
        "tests/address/test_a.py",
    ]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small checkout with the sample and its tests."""
    root = tmp_path_factory.mktemp("checkout")
    files = {
        PATH: SAMPLE.decode(),
        "src/gantry/__init__.py": "",
        "src/gantry/address/__init__.py": "",
        "tests/address/test_sample.py": TESTS,
        "tests/address/test_failing.py": "def test_it_fails():\n    assert False\n",
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src", "."]\n',
        "conftest.py": "from hypothesis import settings\nsettings.register_profile('unshrunk')\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give runs the time that they may need on a busy machine."""
    monkeypatch.setattr(runs, "EXTRA_TIMEOUT_SECONDS", 300.0)


@pytest.fixture(scope="module")
def copy(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> runs.Copy:
    return runs.Copy(checkout, tmp_path_factory.mktemp("copy"))


def tried(copy: runs.Copy, mutation: mutations.Mutation | None, names: Sequence[str]) -> runs.Result:
    tests = [f"tests/address/test_sample.py::test_{name}" for name in names]
    return copy.run(mutation, tests, dict.fromkeys(tests, 0.0))


@pytest.mark.slow
def test_a_mutant_is_killed_by_the_first_test_that_fails_and_survives_when_none_does(copy: runs.Copy) -> None:
    names = ["a_number_is_halved", "a_number_is_doubled"]
    assert tried(copy, None, names) == runs.Result("survived")
    killer = "tests/address/test_sample.py::test_a_number_is_doubled"
    assert tried(copy, mutant("return number - number"), names) == runs.Result("killed", killer)
    assert tried(copy, mutant("return number * 2"), names) == runs.Result("survived")
    assert tried(copy, None, names) == runs.Result("survived")
    assert tried(copy, None, []) == runs.Result("no test")


@pytest.mark.slow
def test_a_mutant_that_does_not_end_is_timed_out(
    copy: runs.Copy, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "EXTRA_TIMEOUT_SECONDS", 4.0)
    result = tried(copy, mutant("total -= 1"), ["numbers_are_counted"])
    assert result == runs.Result("timed out", "tests/address/test_sample.py::test_numbers_are_counted")
    assert (checkout / PATH).read_bytes() == SAMPLE


def test_a_mutant_that_cannot_be_imported_is_killed(copy: runs.Copy) -> None:
    broken = mutations.Mutation(PATH, "", 1, (1, 1), True, 0, 0, "1 / 0\n", "", "")
    assert tried(copy, broken, ["a_number_is_halved"]).outcome == "killed"


@pytest.mark.slow
def test_each_test_that_passes_is_traced_and_only_changed_files_a_second_time(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    kept = tmp_path / "traces.json"
    record = traces.load(checkout, kept)
    lines = {test.partition("::test_")[2]: traced.lines.get(PATH) for test, traced in record.tests.items()}
    assert lines == {
        "a_number_is_doubled": [4, 6],
        "numbers_are_counted": [14, 15, 16, 17],
        "a_number_is_halved": [10],
    }
    failing = checkout / "tests/address/test_failing.py"
    failing.write_text("def test_it_passes():\n    pass\n")
    again = traces.load(checkout, kept)
    assert {test: again.tests[test].seconds for test in record.tests} == {
        t: record.tests[t].seconds for t in record.tests
    }
    assert "tests/address/test_failing.py::test_it_passes" in again.tests


def result(outcome: runs.Outcome) -> runs.Result:
    return runs.Result(outcome, "tests/address/test_sample.py::test_a" if outcome == "killed" else "")


def reported(killed: int, survived: int, *, reason: bool = False) -> report.Report:
    lost = mutant("return number * 2")
    results = [(mutant("return number - number"), result("killed"))] * killed + [(lost, result("survived"))] * survived
    return report.Report(results, {lost.key: "the same"} if reason else {})


def test_a_run_is_good_when_enough_are_killed_and_each_survivor_has_a_reason() -> None:
    assert reported(95, 5, reason=True).is_good
    assert not reported(95, 5).is_good
    assert not reported(94, 6, reason=True).is_good
    assert "    reason: the same" in [*reported(95, 5, reason=True).lines()]


def test_a_run_is_not_good_while_mutants_are_left_or_tests_fail_without_a_fault() -> None:
    good = reported(100, 0)
    assert not report.Report([*good.results, (mutant("return number * 2"), None)], {}).is_good
    assert not report.Report(good.results, {}, controls=1, false_alarms=["tests/a.py::test_b"]).is_good


def test_a_report_names_each_survivor_with_its_line_and_difference() -> None:
    lines = [*reported(1, 1).lines()]
    assert lines[:3] == [
        f"{PATH}:10: survived, in halve",
        "    - return number // 2",
        "    + return number * 2",
    ]


def test_a_mutant_with_a_reason_that_is_killed_is_named() -> None:
    killed = mutant("return number - number")
    lines = [*report.Report([(killed, result("killed"))], {killed.key: "none"}).lines()]
    assert f"{PATH}:6: is in survivors.toml, but tests/address/test_sample.py::test_a kills it" in lines


def test_each_listed_survivor_is_a_mutation_of_the_product() -> None:
    listed = exceptions.read()
    paths = {scope.partition("::")[0] for scope, _, _ in listed}
    keys = {m.key for path in paths for m in mutations.mutations(path, (ROOT / path).read_bytes())}
    assert listed.keys() - keys == set()
    assert all(listed.values())

import subprocess
from pathlib import Path

from tools import quick

TESTS = {"tests/test_a.py": "", "tests/test_b.py": "", "tests/test_c.py": "page.md"}
GRAPH = {
    "gantry.base": {"gantry.a", "tests.test_c"},
    "gantry.a": {"tests.test_a", "gantry.b"},
    "gantry.b": {"tests.test_b"},
}


def test_the_tests_that_import_a_changed_module_by_the_fewest_steps_come_first() -> None:
    order = ["tests/test_c.py", "tests/test_a.py", "tests/test_b.py"]
    assert quick.nearest(["src/gantry/base.py"], TESTS, GRAPH) == order
    assert quick.nearest(["src/gantry/base.py"], TESTS, GRAPH, limit=1) == order[:1]
    assert quick.nearest(["src/gantry/b.py"], TESTS, GRAPH) == ["tests/test_b.py"]


def test_every_changed_test_file_runs_and_a_page_chooses_the_tests_that_name_it() -> None:
    assert quick.nearest([*TESTS], TESTS, GRAPH, limit=1) == [*TESTS]
    assert quick.nearest(["notes/page.md"], TESTS, GRAPH) == ["tests/test_c.py"]


def test_changed_is_what_was_committed_since_what_is_not_committed_and_what_is_new(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True)

    git("init", "--quiet")
    for name in ("first", "second", "third"):
        (tmp_path / name).write_text("")
        git("add", name)
        git("commit", "--quiet", "-m", name)
    (tmp_path / "first").write_text("changed")
    (tmp_path / "new").write_text("")
    assert quick.changed(tmp_path, "HEAD") == ["first", "new"]
    assert quick.changed(tmp_path, "HEAD~1") == ["first", "new", "third"]

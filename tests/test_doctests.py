"""The examples in the docstrings of all Python files are run: here, since pytest collects them nowhere else."""

import doctest
import importlib
from pathlib import Path

import pytest

from tools import quick

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tools", "tests", "benchmarks")
"""The folders whose files are modules that can be imported; only they may have examples."""

PROMPT = ">" * 3 + " "


def files_with_examples() -> list[str]:
    """Return the paths of the files with a docstring example; files that git ignores are in hidden folders or build."""
    paths = (path.relative_to(ROOT) for path in ROOT.rglob("*.py"))
    own = (path for path in paths if path.parts[0] != "build" and not path.parts[0].startswith("."))
    return sorted(str(path) for path in own if PROMPT in (ROOT / path).read_text())


FILES = files_with_examples()


def test_only_files_that_can_be_imported_have_examples() -> None:
    assert [path for path in FILES if path.partition("/")[0] not in FOLDERS] == []
    assert len(FILES) > 1


@pytest.mark.parametrize("path", FILES)
def test_the_examples_of_a_file_are_right(path: str) -> None:
    module = importlib.import_module(quick.module_of(path))
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.FAIL_FAST)
    for examples in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(examples, out=report.append)
    assert "".join(report) == ""
    # The finder takes the docstrings of an object's own module alone, so each prompt must have led to an example.
    text = (ROOT / path).read_text()
    assert runner.tries == sum(line.lstrip().startswith(PROMPT) for line in text.splitlines())

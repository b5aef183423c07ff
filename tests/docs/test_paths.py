"""The paths that the pages for contributors name exist."""

import re
from collections.abc import Iterator

import pytest
from tests.docs import pages

BUILD_FOLDERS = ("build/", "dist/")
"""Folders that commands make: a fresh clone has nothing in them."""

ROOTS = (pages.CHECKOUT / "src/gantry", pages.CHECKOUT)
PATH = re.compile(r"`([\w.<>-]+(?:/[\w.<>-]*)+|\w[\w-]*\.(?:py|toml|md|sh|lock))`")
"""A word in code with a slash, or a file's name; ``<noun>`` stands for any name."""


def paths(page: str) -> Iterator[str]:
    for match in PATH.finditer((pages.DOCS / "contributing" / page).read_text()):
        if not match[1].startswith(BUILD_FOLDERS):
            yield match[1]


def exists(path: str) -> bool:
    pattern = re.sub(r"<[\w-]+>", "*", path).rstrip("/")
    matches = [match for root in ROOTS for match in root.glob(pattern)]
    return any(match.is_dir() for match in matches) if path.endswith("/") else bool(matches)


@pytest.mark.parametrize("page", ["check-lists.md", "map.md", "README.md"])
def test_every_path_on_a_page_for_contributors_exists(page: str) -> None:
    assert not [path for path in paths(page) if not exists(path)]


def test_the_check_lists_name_paths_of_the_code_and_of_the_repository() -> None:
    named = set(paths("check-lists.md"))
    assert {"model/opcodes/", "daemons/units.py", "tests/golden/cli/", "pyproject.toml"} <= named


@pytest.mark.parametrize("path", ["operations/gone.py", "operations/<noun>/gone.py", "pyproject.toml/", "gone.sh"])
def test_a_path_that_does_not_exist_is_noticed(path: str) -> None:
    assert not exists(path)

"""What code and pages cite is there: each citation leads to a page of the documentation and to a heading on it."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs import pages

from tools import citations


def checkout(folder: Path, text: str) -> Path:
    """Make a checkout with one module, and one page of each kind that can be cited."""
    for path in ("docs/reference/contracts/hooks.md", "docs/explanation/state.md", "docs/how-to/hooks.md"):
        page = folder / path
        page.parent.mkdir(parents=True)
        page.write_text("# Title\n\n## One journal, `N` parts\n\n```sh\n# no heading\n```\n")
    module = folder / "src/module.py"
    module.parent.mkdir()
    module.write_text(text)
    return folder


@pytest.mark.slow
def test_every_citation_leads_to_a_heading() -> None:
    assert citations.broken(pages.CHECKOUT) == []


@pytest.mark.parametrize(
    "text",
    [
        "contracts/hooks.md",
        "contracts/hooks.md#one-journal-n-parts",
        "explanation/state.md#title",
        "[State](../docs/explanation/state.md#title)",
        "docs/how-to/hooks.md#title",
        "https://example.org/docs/contracts/none.md#none",
        "a run begins with a seed, and the seed chooses",
        "print(seed, 'contract')",
        "the import contracts: kept",
        'one run from one seed\n"""',
        "RFC 8259",
    ],
)
def test_a_citation_that_leads_somewhere_is_fine(tmp_path: Path, text: str) -> None:
    assert citations.broken(checkout(tmp_path, f'"""Text ({text})."""\n')) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("contracts/none.md", "there is no docs/reference/contracts/none.md"),
        ("explanation/hooks.md#title", "there is no docs/explanation/hooks.md"),
        ("contracts/hooks.md#no-heading", "docs/reference/contracts/hooks.md has no such heading"),
        ("explanation/state.md#one-journal", "docs/explanation/state.md has no such heading"),
        ("docs/how-to/hooks.md#none", "docs/how-to/hooks.md has no such heading"),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(tmp_path: Path, text: str, fault: str) -> None:
    assert citations.broken(checkout(tmp_path, f"\n# {text}\n")) == [f"src/module.py:2: {text}: {fault}"]


@pytest.mark.parametrize(
    "form",
    [
        "(contract: LUXI errors)",
        "(contract:\n# LUXI errors)",
        "(contracts: hooks, locks)",
        "(contract 5.5)",
        '(seed "Logging")',
        '(seed: "Logging")',
        '(seed\n# "Logging")',
        "(networks seed)",
        "(seed section 3)",
        "(design section 5)",
        '(design "Addresses")',
        "as the contract says",
    ],
)
def test_a_citation_of_what_is_not_in_the_repository_is_found(tmp_path: Path, form: str) -> None:
    (line,) = citations.broken(checkout(tmp_path, f"# {form}\n"))
    assert line.startswith("src/module.py:1: ")
    assert "names no page" in line


def test_files_of_every_folder_are_read_and_those_that_are_no_text_are_not(tmp_path: Path) -> None:
    root = checkout(tmp_path, "")
    (root / "src/picture.png").write_bytes(b"\xff contracts/none.md")
    for path in (*citations.FILES, *(f"{folder}/deep/file.txt" for folder in citations.FOLDERS)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("contracts/none.md\n")
    assert {line.partition(":")[0] for line in citations.broken(root)} == {
        "Makefile", "README.md", "conftest.py", "benchmarks/deep/file.txt", "demo/deep/file.txt",
        "deploy/deep/file.txt", "docs/deep/file.txt", "os/deep/file.txt", "src/deep/file.txt",
        "tests/deep/file.txt", "tools/deep/file.txt",
    }  # fmt: skip


def needed(target: str) -> set[str]:
    """Return the targets that a target of the Makefile needs, and those that these need."""
    line = (pages.CHECKOUT / "Makefile").read_text().partition(f"\n{target}:")[2].partition("\n")[0]
    direct = line.partition("##")[0].split()
    return {*direct, *(each for part in direct for each in needed(part))}


@pytest.mark.slow
def test_the_check_of_the_makefile_is_this_one() -> None:
    assert "check-citations" in needed("check")
    tool = [sys.executable, "tools/citations.py"]
    run = subprocess.run(tool, cwd=pages.CHECKOUT, capture_output=True, text=True, check=False)
    assert run.stderr.splitlines() == citations.broken(pages.CHECKOUT)
    assert run.returncode == bool(run.stderr)

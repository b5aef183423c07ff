"""Checks citations: each page and heading that code or a page cites exists in the documentation.

A citation names a page from ``docs/reference`` or ``docs``, and may name a heading. The forms are
``contracts/<page>.md#<heading>``, ``explanation/<page>.md#<heading>`` and ``docs/<path>.md#<heading>``. ``make check``
reports citations of pages or headings that do not exist, and references without a page. URLs are not checked.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("benchmarks", "demo", "deploy", "docs", "os", "src", "tests", "tools")
FILES = ("Makefile", "README.md", "conftest.py")
EXEMPT = ("tests/docs/test_citations.py",)
"""Files with wrong citations on purpose."""

BASES = {"contracts": "docs/reference", "explanation": "docs", "docs": "."}
"""The folder that a citation is relative to, by the first part of its path."""

URL = re.compile(r"https?://[^\s)>\"'`]+")
CITATION = re.compile(r"(?<![\w-])((?:contracts|explanation|docs)/(?:[\w-]+/)*[\w-]+\.md)(?:#([\w-]+))?")
_GAP = r"\s+(?:#\s+)?"
BLIND = re.compile(
    "|".join(
        [
            rf"(?<!import )\bcontracts?:{_GAP}",
            rf"\bcontract{_GAP}\d",
            rf'\bseed:?{_GAP}"(?!"")',
            rf"\b(?:networks|segments|claims|cluster|ipam){_GAP}seed\b",
            rf"\b(?:seed|design){_GAP}section\b",
            rf'\bdesign{_GAP}"(?!"")',
            rf"\bthe{_GAP}(?:contract|seed){_GAP}says\b",
        ]
    ),
    re.IGNORECASE,
)
"""References to texts that are not in the repository."""

FENCED = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as links spell them."""
    heads = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), flags=re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads)


def _files(root: Path) -> Iterator[Path]:
    yield from (root / name for name in FILES if (root / name).is_file())
    for folder in FOLDERS:
        yield from (path for path in sorted((root / folder).rglob("*")) if path.is_file() and path.suffix != ".pyc")


def _faults(root: Path, text: str) -> Iterator[tuple[int, str]]:
    """Yield the offset of each wrong citation in a text, and what is wrong with it."""
    text = URL.sub(lambda match: " " * len(match[0]), text)
    for match in CITATION.finditer(text):
        path, anchor = match.groups()
        page = root / BASES[path.partition("/")[0]] / path
        if not page.is_file():
            yield match.start(), f"{match[0]}: there is no {page.relative_to(root)}"
        elif anchor and anchor not in anchors(page):
            yield match.start(), f"{match[0]}: {page.relative_to(root)} has no such heading"
    for match in BLIND.finditer(text):
        yield match.start(), f"{' '.join(match[0].split())!r} names no page: cite a page of docs/ and its heading"


def broken(root: Path) -> list[str]:
    """Return a line for each wrong citation below a checkout: file, line and what is wrong."""
    return list(_lines(root, _files(root)))


def _lines(root: Path, files: Iterable[Path]) -> Iterator[str]:
    for path in files:
        if str(path.relative_to(root)) in EXEMPT:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for offset, fault in sorted(_faults(root, text)):
            yield f"{path.relative_to(root)}:{text.count(chr(10), 0, offset) + 1}: {fault}"


def main() -> int:
    """Print the wrong citations of this checkout; return the exit code."""
    lines = broken(ROOT)
    print("\n".join(lines), file=sys.stderr, end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

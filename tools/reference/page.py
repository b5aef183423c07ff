"""Markdown for the reference pages: tables, code, docstrings without the sources that they cite."""

import inspect
import re
from collections.abc import Iterable, Sequence

NOTICE = "<!-- Made by tools/reference; make golden rewrites it. -->"
SOURCE = re.compile(r"\s*[,;]?\s*(?:\((?:contracts|explanation)/[^()]*\)|See (?:contracts|explanation)/[^\n]*\.$)")


def text(of: object) -> str:
    """Return a docstring without the sources that it cites, one line for each paragraph."""
    paragraphs = re.split(r"\n\s*\n", SOURCE.sub("", inspect.getdoc(of) or ""))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).replace("``", "`")


def _cell(content: str) -> str:
    return content.replace("|", "\\|").replace("\n", " ")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, and an empty line after it."""
    lines = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines, ""]


def code(content: str) -> str:
    """Return text as code; empty text stays empty."""
    return f"`{content}`" if content else ""


def render(title: str, about: str, lines: Iterable[str]) -> str:
    """Return a whole page."""
    return "\n".join([f"# {title}", "", NOTICE, "", about.strip(), "", *lines]).rstrip() + "\n"

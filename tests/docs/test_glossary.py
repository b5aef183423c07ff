"""Words that a newcomer does not know lead to the glossary where a page first uses them."""

import re
from pathlib import Path

import pytest
from tests.docs import pages

GLOSSARY = pages.DOCS / "reference/glossary.md"
PAGES = [*sorted((pages.DOCS / "tutorial").glob("*.md")), *sorted((pages.DOCS / "how-to").glob("*.md"))]

TERMS = {
    "luxi": r"LUXI",
    "external-reservation": r"external reservations?",
    "quarantine": r"quarantined?",
    "segment-segmentation-id": r"segmentation ids?",
    "stray-guest": r"stray guests?",
    "disk-template": r"disk templates?",
    "master-candidate": r"master candidates?",
    "subnet-pool": r"subnet pools?",
    "admin-state": r"admin states?",
    "epoch": r"epochs?",
    "ssconf": r"ssconf files?",
}
"""Headings of the glossary, and how pages write the words."""

NOT_PROSE = re.compile(r"^(```+).*?^\1|^(?: {4}|#)[^\n]*$|`[^`\n]*`|\[[^\]]*\]\([^)]*\)", re.MULTILINE | re.DOTALL)
"""Blocks, headings, code, and links."""


def first_plain(text: str, term: str) -> re.Match[str] | None:
    """Return the first place of a term in a page's prose, unless a link with it comes before."""
    plain = re.search(rf"\b(?:{term})\b", NOT_PROSE.sub(lambda match: " " * len(match[0]), text), re.IGNORECASE)
    link = re.search(rf"\[[^\]]*\b(?:{term})\b[^\]]*\]\(", text, re.IGNORECASE)
    return None if plain is None or (link and link.start() < plain.start()) else plain


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_term_is_a_link_where_a_page_first_uses_it(page: Path) -> None:
    text = page.read_text()
    assert [name for name, term in TERMS.items() if first_plain(text, term)] == []


def test_the_glossary_explains_the_terms() -> None:
    headings = re.findall(r"^### (.+)$", GLOSSARY.read_text(), re.MULTILINE)
    assert TERMS.keys() <= {re.sub(r"[^a-z -]", "", heading.lower()).replace(" ", "-") for heading in headings}

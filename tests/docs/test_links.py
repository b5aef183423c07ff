"""Links between the pages lead somewhere, and every page can be reached from the README."""

import re
from pathlib import Path

import pytest
from tests.docs import pages

from tools import citations

README = pages.CHECKOUT / "README.md"
PAGES = sorted([README, *pages.DOCS.rglob("*.md")])


def _name(page: Path) -> str:
    return str(page.relative_to(pages.CHECKOUT))


def _target(page: Path, link: str) -> Path:
    path = link.partition("#")[0]
    return (page.parent / path).resolve() if path else page


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in pages.links(page):
        if re.match(r"https?:", link):
            continue
        target, anchor = _target(page, link), link.partition("#")[2]
        assert target.exists(), f"{link}: there is no {target}"
        assert not anchor or anchor in citations.anchors(target), f"{link}: there is no such heading"


def test_every_page_is_reached_from_the_readme() -> None:
    known, news = {README}, [README]
    while news:
        page = news.pop()
        targets = {_target(page, link) for link in pages.links(page) if not link.startswith("http")}
        fresh = {target for target in targets if target.suffix == ".md" and target.exists()} - known
        known |= fresh
        news += fresh
    assert not [_name(page) for page in PAGES if page not in known]


def test_the_folders_of_the_documentation_have_an_index() -> None:
    folders = ("tutorial", "how-to", "reference", "reference/commands", "reference/contracts")
    for folder in (*folders, "explanation", "explanation/decisions"):
        index = pages.DOCS / folder / "README.md"
        listed = {_target(index, link) for link in pages.links(index)}
        missing = [page.name for page in (pages.DOCS / folder).glob("*.md") if page not in listed and page != index]
        assert not missing, f"{folder}/README.md does not list {missing}"

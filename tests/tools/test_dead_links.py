"""The check of the documentation's site finds dead links, dead anchors, and what comes from another host."""

from pathlib import Path

import pytest

from tools import dead_links

GOOD = """
<html><head><link rel="stylesheet" href="style.css"><script src="../script.js"></script></head>
<body id="top"><a href="#top">up</a> <a href="../index.html#part">there</a> <a href="https://example.org/">far</a>
<img src="data:image/png;base64,AA=="></body></html>
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "how-to").mkdir()
    (tmp_path / "index.html").write_text('<h2 id="part">Part</h2>')
    (tmp_path / "script.js").write_text("")
    (tmp_path / "how-to/style.css").write_text("body { background: url(picture.svg) }")
    (tmp_path / "how-to/page.html").write_text(GOOD)
    return tmp_path


def test_a_site_whose_links_lead_somewhere_has_no_faults(folder: Path) -> None:
    assert list(dead_links.faults(folder)) == []
    assert dead_links.main(folder) == 0


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("../index.html#part", "../gone.html#part", "../gone.html#part: the file does not exist"),
        ("../index.html#part", "../index.html#gone", "../index.html#gone: the anchor does not exist"),
        ("#top", "#gone", "#gone: the anchor does not exist"),
        ("../script.js", "https://example.org/x.js", "<script> loads https://example.org/x.js"),
        ("style.css", "//example.org/x.css", "<link> loads //example.org/x.css"),
    ],
)
def test_a_fault_is_named_with_its_page(folder: Path, before: str, after: str, fault: str) -> None:
    page = folder / "how-to/page.html"
    page.write_text(page.read_text().replace(f'"{before}"', f'"{after}"'))
    assert list(dead_links.faults(folder)) == [f"how-to/page.html: {fault}"]
    assert dead_links.main(folder) == 1


def test_a_style_sheet_that_loads_from_another_host_is_a_fault(folder: Path) -> None:
    (folder / "how-to/style.css").write_text('@font-face { src: url("https://example.org/font.woff") }')
    assert list(dead_links.faults(folder)) == ["how-to/style.css: loads from another host"]

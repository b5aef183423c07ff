"""Checks the built site of the documentation: ``python tools/dead_links.py build/site``.

Every link inside the site must lead to an existing file and, with an anchor, to an element of that file. Nothing that a
browser loads may come from another host. Prints each fault; the exit code is 1 if there is a fault.
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script", "img", "link", "iframe", "source", "video", "audio", "object", "embed"}
"""Elements whose address a browser loads without a click."""


class Page(HTMLParser):
    """The anchors of a page, and the elements with an address: tag and address."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.addresses: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if name in ("href", "src", "data") and value:
                self.addresses.append((tag, value))


def faults(site: Path) -> Iterator[str]:
    """Yield each dead link, dead anchor and address that is loaded from another host."""
    pages = {path.resolve(): Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for tag, address in page.addresses:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if tag in LOADED and parts.scheme != "data":
                    yield f"{name}: <{tag}> loads {address}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{name}: {address}: the file does not exist"
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: {address}: the anchor does not exist"
    for style in sorted(site.rglob("*.css")):
        text = style.read_text().replace("'", "").replace('"', "")
        if "url(http" in text or "url(//" in text or "@import http" in text:
            yield f"{style.relative_to(site)}: loads from another host"


def main(site: Path) -> int:
    """Print the faults of a site; return the exit code."""
    lines = list(faults(site))
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

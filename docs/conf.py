"""Builds the site of the documentation: ``make docs``.

The pages are written for plain viewers of Markdown too, so they contain no directives but diagrams. What Sphinx needs
in addition is added here while it reads the pages: the table of contents of each folder, and the changelog. The built
site loads nothing from the network.
"""

import html
import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import gantry

DOCS = Path(__file__).parent
INDEXES = ("README", "index")

project = "Gantry"
release = version = gantry.__version__
root_doc = "index"
extensions = ["myst_parser"]
exclude_patterns = ["_static"]

myst_heading_anchors = 6
myst_fence_as_directive = ["mermaid"]

html_theme = "furo"
html_title = f"Gantry {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options: dict[str, object] = {"navigation_with_keys": True, "footer_icons": []}


class Mermaid(Directive):
    """A diagram, drawn by the browser. Its text stays on the page for readers without JavaScript."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the text of the diagram as an element that Mermaid replaces."""
        text = html.escape("\n".join(self.content), quote=False)
        return [nodes.raw("", f'<pre class="mermaid">{text}</pre>', format="html", classes=["diagram"])]


def is_index(name: str) -> bool:
    """Return whether a page is the index of a folder."""
    return name.endswith(INDEXES)


def add_contents(app: Sphinx, name: str, source: list[str]) -> None:
    """Append a hidden table of contents to the index of a folder: the pages in the order of its links, then the others.

    A page that is in no folder with an index is in no table of contents, which is an error.
    """
    if not is_index(name):
        return
    folder = (DOCS / name).parent
    pages = sorted(
        {*folder.glob("*.md"), *folder.glob("*/README.md"), *folder.glob("*/index.md")} - {DOCS / f"{name}.md"}
    )
    names = [page.relative_to(folder).with_suffix("").as_posix() for page in pages]
    linked = [link for link in re.findall(r"\]\(([\w./-]+)\.md\)", source[0]) if link in names]
    contents = "\n".join(dict.fromkeys([*linked, *names]))
    source[0] += f"\n```{{toctree}}\n:hidden:\n\n{contents}\n```\n"


def add_changelog(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace the page of the changelog, which links to the file, by the text of the file."""
    if name == "changelog":
        source[0] = (DOCS.parent / "CHANGELOG.md").read_text()


def outdated(app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Return the pages to read again: they depend on other files."""
    return [name for name in env.found_docs if is_index(name) or name == "changelog"]


def add_mermaid(app: Sphinx, name: str, template: str, context: dict[str, object], page: nodes.document | None) -> None:
    """Load Mermaid on pages with a diagram only: it is large."""
    if page and any("diagram" in node["classes"] for node in page.findall(nodes.raw)):
        app.add_js_file(next((DOCS / "_static").glob("mermaid-*.js")).name)
        app.add_js_file("diagrams.js")


def setup(app: Sphinx) -> None:
    """Register the additions."""
    app.add_directive("mermaid", Mermaid)
    app.connect("source-read", add_contents)
    app.connect("source-read", add_changelog)
    app.connect("env-get-outdated", outdated)
    app.connect("html-page-context", add_mermaid)

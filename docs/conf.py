"""Builds the site of the documentation, ``make docs``, and the man pages, ``make man``.

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
from sphinx.transforms.post_transforms import SphinxPostTransform

import gantry

DOCS = Path(__file__).parent
INDEXES = ("README", "index")

project = "Gantry"
release = version = gantry.__version__
root_doc = "index"
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["_static"]

myst_heading_anchors = 6
myst_fence_as_directive = ["mermaid"]

# The button beside a block copies its commands, without prompts and output; of a block without prompts, all.
copybutton_prompt_text = r"(?:\w+)?[$#] "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

COMMANDS = DOCS / "reference" / "commands"
ROOT_SECTION, FILE_SECTION = 8, 5
FILE_PAGES = {"reference/files": "gantry-files", "reference/configuration": "gantry-configuration"}


def first_sentence(page: Path) -> str:
    """Return the first sentence of a page below its title, without its full stop."""
    paragraphs = page.read_text().split("\n\n")
    text = next(each for each in paragraphs if not each.startswith(("#", "<!--")))
    return re.split(r"\.\s", " ".join(text.split()) + " ")[0]


man_pages = [
    (f"reference/commands/{page.stem}", page.stem, first_sentence(page), "", ROOT_SECTION)
    for page in sorted(COMMANDS.glob("g*.md"))
] + [(page, name, first_sentence(DOCS / f"{page}.md"), "", FILE_SECTION) for page, name in FILE_PAGES.items()]
man_show_urls = False

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


class Lists(SphinxPostTransform):
    """In man pages, tables of two columns become lists of terms, as readers of man pages expect of options."""

    default_priority = 100
    builders = ("man",)

    def run(self, **kwargs: object) -> None:
        """Replace the tables of a page."""
        for table in list(self.document.findall(nodes.table)):
            rows = [
                list(row.findall(nodes.entry)) for body in table.findall(nodes.tbody) for row in body.findall(nodes.row)
            ]
            if rows and all(len(row) == 2 for row in rows):
                table.replace_self(nodes.definition_list("", *(self._item(*row) for row in rows)))

    def _item(self, term: nodes.entry, text: nodes.entry) -> nodes.definition_list_item:
        words = [each for paragraph in term.children for each in paragraph.children]
        return nodes.definition_list_item("", nodes.term("", "", *words), nodes.definition("", *text.children))


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
    app.add_post_transform(Lists)
    app.connect("source-read", add_contents)
    app.connect("source-read", add_changelog)
    app.connect("env-get-outdated", outdated)
    app.connect("html-page-context", add_mermaid)

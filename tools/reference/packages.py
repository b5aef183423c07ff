"""The page of the Debian packages, from debian/control and debian/*.install."""

import gantry
from tools.packaging import control, tree
from tools.reference import page

LIBRARIES_OWNER = "gantry-common"
ABOUT = """
The Debian packages that `make packages` builds: what each holds and needs. Python's private path is below
`/usr/lib/gantry`; the libraries there are those of `requirements.lock`.
"""


def render() -> str:
    """Return the page."""
    owners = control.owners()
    lines: list[str] = []
    for package in control.packages():
        contents = [path for path, names in owners.items() if package.name in names]
        if package.name == LIBRARIES_OWNER:
            contents.append(f"{tree.LIBRARIES}/")
        lines += [f"## {package.name}", "", package.description, ""]
        needs = {"depends on": package.depends, "recommends": package.recommends}
        lines += page.table(
            ("", ""), [(word, ", ".join(map(page.code, names))) for word, names in needs.items() if names]
        )
        if contents:
            listed = (f"/{path}".replace(gantry.__version__, "VERSION") for path in sorted(control.folded(contents)))
            lines += ["```", *listed, "```", ""]
    return page.render("Packages", ABOUT, lines)

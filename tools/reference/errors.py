"""The page of the errors, from the exception tree."""

from collections.abc import Iterator

from gantry import errors
from tools.reference import page

ABOUT = """
A refused request changes nothing. What a command prints, and a job's result holds, has the LUXI name and, for
`OpPrereqError`, the code beside the message. The exit code is that of the commands; the HTTP status that of doors which
speak HTTP. A message says what happened, to which object, and who holds it; the part after the semicolon says what to
do.
"""


def render() -> str:
    """Return the page."""
    rows = [
        (
            depth * "&nbsp;&nbsp;" + page.code(error.__name__),
            error.luxi,
            error.code if error.luxi == "OpPrereqError" else "",
        )
        + (str(error.exit_code), str(error.status), page.text(error).split("\n")[0])
        for depth, error in _tree(errors.GantryError)
    ]
    return page.render("Errors", ABOUT, page.table(("class", "LUXI", "code", "exit code", "HTTP", ""), rows))


def _tree(root: type[errors.GantryError], depth: int = 0) -> Iterator[tuple[int, type[errors.GantryError]]]:
    yield depth, root
    for child in root.__subclasses__():
        # A package may have finer ones, which never leave it.
        if child.__module__ == errors.__name__:
            yield from _tree(child, depth + 1)

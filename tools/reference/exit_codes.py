"""The page of the exit codes of the commands, from ``gantry.cli.errors``."""

from gantry.cli import errors
from tools.reference import page

ABOUT = """
The exit codes of the `gnt-*` programs and of `gantry`. One kind of end has one code in every command. Scripts may
rely on 0 and not 0; the codes from 5 to 14 are those of Ganeti, where a wrong number of arguments, an unknown
command and, in some commands, a missing confirmation end with 1.
"""
AFTER = """
`gnt-job watch` and `gnt-job wait` end as the job did: 0 if it succeeded, otherwise 1. With `--submit` the code only
says whether the master accepted the job. `gantry doctor` and `gantry simulate` end with 1 if they found something, and
`gnt-instance console` with the code of the console's program.

What an [error](errors.md) of the master says is on the standard error; its first lines name its class and code.
"""


def render() -> str:
    """Return the page."""
    rows = ((str(code), text) for code, text in errors.EXIT_CODES.items())
    return page.render("Exit codes", ABOUT, [*page.table(("code", "end"), rows), *AFTER.strip().splitlines()])

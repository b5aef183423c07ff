"""``gantry-ipam``: creates and upgrades the tables of a database, for administrators of servers that use it."""

import argparse
import sys
from collections.abc import Sequence

from gantry import __version__, errors, option_parser
from gantry.ipam.sql import engines, schema


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments, which also generates the reference page."""
    parser = option_parser.Parser(prog="gantry-ipam", description="Manage the tables of the SQL IPAM driver.")
    parser.add_argument("--version", action="version", version=f"gantry-ipam {__version__}")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in (
        ("prepare", "create the tables, or upgrade them for this version; older versions can still work on them"),
        ("finish", "remove what only older versions use, once none of them runs any more"),
        ("check", "check whether this version can work on the database"),
    ):
        actions.add_parser(name, help=text, description=text).add_argument("url", metavar="URL", help=engines.URL_HINT)
    return parser


def _act(action: str, database: engines.Database) -> str:
    if action == "check":
        schema.check(database)
        return f"{database.name} can be used by this version"
    applied = schema.prepare(database) if action == "prepare" else schema.finish(database)
    return f"{database.name}: {', '.join(applied) or 'nothing to do'}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one action; return its exit code: that of the error, or 0."""
    options = command_line().parse_args(arguments)
    try:
        print(_act(options.action, engines.open_database(options.url)))
    except errors.GantryError as error:
        print(f"gantry-ipam: {error}", file=sys.stderr)
        return error.exit_code
    return 0

"""``gantry-ipam``: makes and upgrades the tables of a database, for those who run servers on it."""

import argparse
import sys
from collections.abc import Sequence

from gantry import errors
from gantry.ipam.sql import engines, schema


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments; the reference page is made from it too."""
    parser = argparse.ArgumentParser(prog="gantry-ipam", description="Tables of the SQL IPAM driver.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in (
        ("prepare", "make the tables, or change them so that this version can work on them; older ones still can"),
        ("finish", "take away what only older versions used, when none is left"),
        ("check", "tell whether this version can work on the database"),
    ):
        actions.add_parser(name, help=text, description=text).add_argument("url", metavar="URL", help=engines.URLS)
    return parser


def _act(action: str, database: engines.Database) -> str:
    if action == "check":
        schema.check(database)
        return f"{database.name} fits"
    applied = schema.prepare(database) if action == "prepare" else schema.finish(database)
    return f"{database.name}: {', '.join(applied) or 'nothing to do'}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one action; its exit code is that of the error, if there is one."""
    options = command_line().parse_args(arguments)
    try:
        print(_act(options.action, engines.open_database(options.url)))
    except errors.GantryError as error:
        print(f"gantry-ipam: {error}", file=sys.stderr)
        return error.exit_code
    return 0

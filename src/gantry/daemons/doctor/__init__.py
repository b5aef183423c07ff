"""gantry-node doctor: what is wrong or missing on this machine, each with its remedy.

It needs root, but no cluster and no running daemon: it reads files, runs programs that only report, and asks the other
nodes of a cluster for their time and version. It changes nothing. ``examination`` has the list of checks.
"""

import argparse
import asyncio
import sys

from gantry import option_parser
from gantry.daemons.doctor import examination, result
from gantry.runtime import interface, paths


def add(commands: "argparse._SubParsersAction[option_parser.Parser]") -> None:
    """Add the command to those of gantry-node."""
    command = commands.add_parser("doctor", help="report what is wrong or missing on this machine, with remedies")
    command.add_argument("--json", action="store_true", help="print the results as JSON")
    command.add_argument("--root", default=argparse.SUPPRESS, metavar="DIR", help="the same as before the command")
    command.set_defaults(run=run)


def run(runtime: interface.Runtime, options: argparse.Namespace) -> int:
    """Examine this machine and print the results; return 1 if something is wrong."""
    machine = result.Machine(runtime, paths.Paths.below(options.root))
    if not examination.is_root(machine):
        print("gantry-node: the doctor reads files of root; run: sudo gantry doctor", file=sys.stderr)
        return 1
    results = asyncio.run(examination.examine(machine))
    sys.stdout.write(examination.as_json(results) if options.json else examination.as_text(results))
    return examination.exit_code(results)

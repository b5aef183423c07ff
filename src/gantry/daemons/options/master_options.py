"""The options of gantry-masterd, and those of them that can be in ``etc/master.toml``."""

import argparse
import os

from gantry import __version__, errors, option_parser
from gantry.daemons import health_port, trace_option
from gantry.daemons.options import config_file, limit_options
from gantry.mastership import role
from gantry.runtime import limits

DEFAULT_LIMITS = limits.UnixLimits()
"""For LUXI; a command keeps its connection while it waits for its job, the remote API up to 400 of them."""


def request(options: argparse.Namespace) -> role.Request:
    """Return how the master is to be confirmed; InvalidError."""
    if options.no_voting and not options.yes_do_it:
        raise errors.InvalidError(
            "--no-voting needs --yes-do-it: without a vote the master cannot know whether its state is the newest, "
            "or whether another master runs",
            hint="check both on all nodes, then add --yes-do-it",
        )
    return role.Request(
        taking_over=options.action == "failover",
        voting=not options.no_voting,
        ignore_offline=options.ignore_offline_nodes,
        interrupts_jobs=options.yes_do_it,
    )


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments; the reference page is generated from it too."""
    parser = option_parser.Parser(prog="gantry-masterd", description="The master daemon of a Gantry cluster.")
    parser.add_argument(
        "action",
        nargs="?",
        choices=("run", "init", "import", "failover", "recover"),
        default="run",
        help="run the master daemon (run), create a cluster as JSON on stdin says (init) or from Ganeti's files "
        "(import), make this master candidate the master and run its daemon (failover), or replace a damaged or "
        "incomplete state (recover)",
    )
    parser.add_argument(
        "--no-voting", action="store_true", help="start without the confirmation of the nodes; needs --yes-do-it"
    )
    parser.add_argument(
        "--yes-do-it", action="store_true", help="confirm --no-voting; in a failover, abort the jobs of the old master"
    )
    parser.add_argument(
        "--ignore-offline-nodes", action="store_true", help="do not count offline nodes that do not answer"
    )
    parser.add_argument(
        "--accept-loss", action="store_true", help="with recover: continue without the records that the journal lost"
    )
    parser.add_argument(
        "--from", dest="source", default="", metavar="NODE", help="with recover: install the copy of this candidate"
    )
    parser.add_argument(
        "--root", default=os.environ.get("GANTRY_ROOT", ""), help="set the folder that contains all of its files"
    )
    limit_options.add_unix(parser, DEFAULT_LIMITS)
    health_port.add(parser)
    trace_option.add(parser)
    parser.add_argument("--debug", action="store_true", help="log debug messages")
    config_file.add_check(parser)
    parser.add_argument("--version", action="version", version=f"gantry-masterd {__version__}")
    return parser


CONFIGURATION = config_file.Program(
    "gantry-masterd",
    "master.toml",
    command_line,
    excluded=frozenset({"no-voting", "yes-do-it", "ignore-offline-nodes", "accept-loss", "from"}),
)

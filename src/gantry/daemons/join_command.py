"""``gantry-node join``: lets this machine join a cluster, by a token of ``gnt-node add``.

    gantry-node join MASTER[:PORT] [--token TOKEN] [--name NAME] [--address ADDRESS] [--root DIR]

An error is a line on standard error, with exit code 1. ``joining`` has the work.
"""

import argparse
import getpass
import sys

from gantry import errors, option_parser
from gantry.daemons import joining, program
from gantry.runtime import interface, paths, real

TOKEN_HINT = "gnt-node add on the master printed it; --token - reads it from standard input"


def add(commands: "argparse._SubParsersAction[option_parser.Parser]") -> None:
    """Add the command to those of gantry-node."""
    parser = commands.add_parser(
        "join",
        help="let this machine join a cluster",
        description="Lets this machine join a cluster, with the token that gnt-node add printed on the master.",
    )
    parser.add_argument("master", metavar="MASTER[:PORT]", help="address of the master, or of any node of the cluster")
    parser.add_argument(
        "--token",
        default="",
        help="the token; - reads it from standard input; without this option the command asks for it on a terminal",
    )
    parser.add_argument("--name", default="", help="the node's name, if it is not the machine's")
    parser.add_argument(
        "--address",
        default="",
        help="address of the node daemon (default: that from which this machine connects to the master)",
    )
    parser.add_argument("--root", default=argparse.SUPPRESS, metavar="DIR", help="the same as before the command")
    parser.set_defaults(run=run)


def run(_: interface.Runtime, options: argparse.Namespace) -> int:
    """Let this machine join; the exit code is 0 if it did."""
    return program.run("gantry-node", _join(options))


async def _join(options: argparse.Namespace) -> None:
    token = options.token
    if token == "-" or (not token and not sys.stdin.isatty()):
        token = sys.stdin.readline()
    elif not token:
        token = getpass.getpass("Token: ")
    if not token.strip():
        raise errors.InvalidError("there is no token", hint=TOKEN_HINT)
    # The node's name is that of this runtime.
    runtime = real.RealRuntime(options.name)
    command = joining.Joining(
        runtime,
        paths.Paths.below(options.root),
        report=lambda line: print(line, flush=True),
        connect=lambda _: joining.connect(runtime.network),
    )
    await command.run(joining.Request(options.master, token, runtime.host, options.address))

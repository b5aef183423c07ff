"""gantry-node: commands for one machine, with or without a cluster and a running daemon.

    gantry-node --check [--root DIR]             check the configuration files
    gantry-node doctor [--json] [--root DIR]     report what is wrong or missing (``doctor``)
    gantry-node join MASTER [--token TOKEN]      join a cluster (``join_command``)

``gantry doctor`` starts the second form. A command is a module with a function that adds it to the parser.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from gantry import __version__, option_parser
from gantry.daemons import doctor, join_command
from gantry.daemons.options import machine_files
from gantry.runtime import interface, paths, real

Command = Callable[[interface.Runtime, argparse.Namespace], int]
"""Runs a command, in ``options.run``, and returns its exit code."""


def check(runtime: interface.Runtime, folders: paths.Paths) -> int:
    """Print the faults of all configuration files; return 1 if there are any."""
    faults = [
        fault
        for file in machine_files.files(runtime.disk, folders)
        for fault in machine_files.faults(runtime.disk, folders, file)
    ]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments; the reference page is made from it too."""
    parser = option_parser.Parser(prog="gantry-node", description="Commands for one machine of a Gantry cluster.")
    parser.add_argument("--check", action="store_true", help="check the configuration files of this machine, then exit")
    parser.add_argument(
        "--root",
        default=os.environ.get("GANTRY_ROOT", ""),
        metavar="DIR",
        help="set the folder that contains all files (default: $GANTRY_ROOT, else the system's folders)",
    )
    parser.add_argument("--version", action="version", version=f"gantry-node {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    doctor.add(commands)
    join_command.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; the exit code is 1 if something is wrong."""
    parser = command_line()
    options = parser.parse_args(argv)
    runtime = real.RealRuntime()
    if options.check:
        return check(runtime, paths.Paths.below(options.root))
    if "run" not in options:
        parser.error("a command is missing, or --check")
    run: Command = options.run
    return run(runtime, options)


if __name__ == "__main__":
    sys.exit(main())

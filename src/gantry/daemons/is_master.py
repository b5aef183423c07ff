"""gantry-is-master: exits with 0 if this machine is its cluster's master by its own files, else with 1.

    gantry-is-master [--root DIR]

The units of systemd call it before they start the master daemon and the remote API (``ExecCondition``), on every node
and at every boot, so it imports the standard library only. The answer may be out of date: the nodes decide at the start
of the master daemon (``mastership.role``). A machine without ssconf files that has the cluster's state has just created
the cluster.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence

from gantry import __version__, option_parser
from gantry.lib_files import ssconf as ssconf_file
from gantry.runtime import paths


def is_master(folders: paths.Paths) -> bool:
    """Return whether the ssconf files name this machine's node as the master; ValueError for a damaged file."""
    try:
        own = json.loads(_read(f"{folders.certificates}/member.json"))["node"]
    except FileNotFoundError:
        return False
    except (KeyError, TypeError):
        raise ValueError(f"{folders.certificates}/member.json does not name a node") from None
    try:
        return bool(own == _read(ssconf_file.path(folders.ssconf, "master_node")).strip())
    except FileNotFoundError:
        pass
    try:
        with open(folders.config, "rb"):
            return True
    except FileNotFoundError:
        return False


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments; the reference page is made from it too."""
    parser = option_parser.Parser(
        prog="gantry-is-master", description="Exit with 0 if this machine is the master of its cluster, else with 1."
    )
    parser.add_argument(
        "--root", default=os.environ.get("GANTRY_ROOT", ""), metavar="DIR", help="root folder of all files"
    )
    parser.add_argument("--version", action="version", version=f"gantry-is-master {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; an exit code above 1 is that of an error, which systemd takes for a no."""
    options = command_line().parse_args(argv)
    try:
        return 0 if is_master(paths.Paths.below(options.root)) else 1
    except (OSError, ValueError) as error:
        print(f"gantry-is-master: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

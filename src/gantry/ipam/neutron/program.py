"""``gantry-neutron-ipam check|repair``: compares the driver's tables with Neutron's ports.

It runs where a neutron-server runs, and reads the same neutron.conf. Exit codes: 0 for no difference left, 1 for
differences that ``check`` found, 2 when the two could not be compared or mended.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from gantry import errors

PAUSE = 60.0


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments; the reference page is made from it too."""
    parser = argparse.ArgumentParser(
        prog="gantry-neutron-ipam", description="The IPAM driver's tables beside Neutron's."
    )
    parser.add_argument("command", choices=("check", "repair"), help="print the differences, or do away with them")
    parser.add_argument(
        "--config-file", action="append", required=True, help="neutron.conf; may be given several times"
    )
    parser.add_argument(
        "--pause", type=float, default=PAUSE, metavar="SECONDS",
        help="how long a difference must last to count; longer than a request to the server (default: %(default)g)",
    )  # fmt: skip
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = command_line().parse_args(arguments)
    # The help, and the reference page made from it, need no neutron-server.
    from neutron.common import config

    from gantry.ipam.neutron import consistency

    config.register_common_config_options()
    config.init([word for file in options.config_file for word in ("--config-file", file)])
    try:
        report = consistency.check(lambda: time.sleep(options.pause))
        for line in report.lines():
            print(line)
        if options.command == "check":
            return 1 if report else 0
        consistency.repair(report)
    except errors.GantryError as error:
        print(f"gantry-neutron-ipam: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

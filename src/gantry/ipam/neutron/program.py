"""``gantry-neutron-ipam check|repair``: compares the driver's tables with Neutron's ports.

The command runs where a neutron-server runs, and reads the same neutron.conf. Exit codes: 0 when no difference remains,
1 when ``check`` found differences, 2 when the
comparison or the repair failed.
"""

import argparse
import sys
import time
from collections.abc import Sequence

import gantry
from gantry import errors, option_parser

INTERVAL_SECONDS = 60.0


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments, which also generates the reference page."""
    parser = option_parser.Parser(
        prog="gantry-neutron-ipam", description="Compare the IPAM driver's tables with Neutron's ports."
    )
    parser.add_argument("--version", action="version", version=f"gantry-neutron-ipam {gantry.__version__}")
    parser.add_argument("command", choices=("check", "repair"), help="print the differences, or also repair them")
    parser.add_argument("--config-file", action="append", required=True, help="path of neutron.conf; may be repeated")
    parser.add_argument(
        "--pause", type=float, default=INTERVAL_SECONDS, metavar="SECONDS",
        help="interval between the two comparisons, longer than a request to the server (default: %(default)g)",
    )  # fmt: skip
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = command_line().parse_args(arguments)
    # The help and the reference page must work without Neutron's libraries.
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

"""gantry-watcher: restarts instances that should run, archives old jobs, reports failing nodes (``doors.watcher``).

    gantry-watcher [--interval SECONDS] [--offline-after ROUNDS] [--repair-storage] [--root DIR] [--debug] [--check]

Without an interval it runs one round and ends, for cron or a timer. It may run on every node: on a node without a
master daemon it does nothing. Its log is ``log/watcher.log``. Only one watcher runs at a time; a second one ends at
once. Its options can be in ``etc/watcher.toml`` (``options.config_file``); SIGHUP reads them again between rounds.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence

from gantry import __version__, errors, option_parser
from gantry.daemons import logs
from gantry.daemons.options import config_file
from gantry.doors import watcher
from gantry.rpc import luxi
from gantry.runtime import interface, paths, real

log = logging.getLogger(__name__)


async def _round(runtime: interface.Runtime, folders: paths.Paths, options: argparse.Namespace) -> bool:
    """Run one round; return whether it succeeded."""
    if not runtime.disk.exists(folders.luxi_socket):
        log.debug("no master daemon runs on this node")
        return True
    master = luxi.Client(runtime.network, folders.luxi_socket)
    path = f"{folders.lib}/watcher.data"
    try:
        one_round = watcher.Watcher(
            runtime,
            path,
            master=master,
            authority=f"{folders.certificates}/authority.pem",
            offline_after=options.offline_after,
            repairs=options.repair_storage,
        )
        await one_round.run()
    except errors.GantryError as error:
        log.error("%s", error)
        return False
    finally:
        await master.close()
    return True


async def _run(runtime: interface.Runtime, folders: paths.Paths, settings: config_file.Settings) -> int:
    for folder in (folders.lib, folders.run, folders.log):
        await runtime.disk.make_directory(folder)
    logs.configure(folders, "watcher", debug=settings.options.debug)
    settings.follow(runtime.disk, lambda options: logs.set_debug(debug=options.debug))
    try:
        lock = runtime.disk.lock(f"{folders.run}/watcher.lock")
    except BlockingIOError:
        log.info("another watcher is running already")
        return 0
    try:
        success = await _round(runtime, folders, settings.options)
        while settings.options.interval:
            await runtime.clock.sleep(settings.options.interval)
            await _round(runtime, folders, settings.options)
    finally:
        lock.release()
    return 0 if success else 1


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments; the reference page is made from it too."""
    parser = option_parser.Parser(prog="gantry-watcher", description="Keeps a Gantry cluster's instances running.")
    parser.add_argument("--interval", type=float, default=0.0, metavar="SECONDS", help="run a round every SECONDS")
    parser.add_argument(
        "--offline-after",
        type=int,
        default=0,
        metavar="ROUNDS",
        help="mark a node offline that does not answer for ROUNDS rounds, and online when it answers (default: never)",
    )
    parser.add_argument(
        "--repair-storage", action="store_true", help="remove a disk that has just failed from its volume group"
    )
    parser.add_argument("--root", default=os.environ.get("GANTRY_ROOT", ""), help="root folder of all files")
    parser.add_argument("--debug", action="store_true", help="log more")
    config_file.add_check(parser)
    parser.add_argument("--version", action="version", version=f"gantry-watcher {__version__}")
    return parser


CONFIGURATION = config_file.Program(
    "gantry-watcher",
    "watcher.toml",
    command_line,
    live=frozenset({"debug", "interval", "offline-after", "repair-storage"}),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; the exit code is 1 if the first round failed."""
    runtime = real.RealRuntime()
    settings = config_file.load(CONFIGURATION, argv, runtime.disk)
    try:
        return asyncio.run(_run(runtime, paths.Paths.below(settings.options.root), settings))
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        print(f"gantry-watcher: {error.strerror or error}{where}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

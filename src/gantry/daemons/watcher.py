"""gantry-watcher: restarts what should run, archives old jobs, reports nodes that fail (``doors.watcher``).

    gantry-watcher [--interval SECONDS] [--offline-after ROUNDS] [--repair-storage] [--root DIR] [--debug]

Without an interval it does one round and ends, for cron or a timer. It may run on every node: where no master daemon is
to be, it does nothing. Its log is ``log/watcher.log``. One runs at a time; a second one ends at once.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence

from gantry import __version__, errors
from gantry.daemons import logs
from gantry.doors import watcher
from gantry.rpc import luxi
from gantry.runtime import interface, paths, real

log = logging.getLogger(__name__)


async def _round(runtime: interface.Runtime, folders: paths.Paths, *, offline_after: int, repairs: bool) -> bool:
    """Do one round; tell whether it went well."""
    if not runtime.disk.exists(folders.luxi_socket):
        log.debug("no master daemon runs here")
        return True
    master = luxi.Client(runtime.network, folders.luxi_socket)
    path = f"{folders.lib}/watcher.data"
    try:
        made = watcher.Watcher(runtime, path, master=master, offline_after=offline_after, repairs=repairs)
        await made.run()
    except errors.GantryError as error:
        log.error("%s", error)
        return False
    finally:
        await master.close()
    return True


async def _run(runtime: interface.Runtime, folders: paths.Paths, options: argparse.Namespace) -> int:
    for folder in (folders.lib, folders.run, folders.log):
        await runtime.disk.make_directory(folder)
    logs.configure(folders, "watcher", debug=options.debug)
    try:
        lock = runtime.disk.lock(f"{folders.run}/watcher.lock")
    except BlockingIOError:
        log.info("another watcher runs")
        return 0
    try:
        wanted = {"offline_after": options.offline_after, "repairs": options.repair_storage}
        good = await _round(runtime, folders, **wanted)
        while options.interval:
            await runtime.clock.sleep(options.interval)
            await _round(runtime, folders, **wanted)
    finally:
        lock.release()
    return 0 if good else 1


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments; the reference page is made from it too."""
    parser = argparse.ArgumentParser(prog="gantry-watcher", description="Keeps a Gantry cluster's instances running.")
    parser.add_argument("--interval", type=float, default=0.0, metavar="SECONDS", help="go on, with this pause between")
    parser.add_argument(
        "--offline-after",
        type=int,
        default=0,
        metavar="ROUNDS",
        help="put a node offline that is silent for so many rounds, and take it back when it answers (default: never)",
    )
    parser.add_argument(
        "--repair-storage", action="store_true", help="take a disk that has just died out of its volume group"
    )
    parser.add_argument("--root", default=os.environ.get("GANTRY_ROOT", ""), help="folder that holds all of its files")
    parser.add_argument("--debug", action="store_true", help="log more")
    parser.add_argument("--version", action="version", version=f"gantry-watcher {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; the exit code is 1 when its first round failed."""
    options = command_line().parse_args(argv)
    try:
        return asyncio.run(_run(real.RealRuntime(), paths.Paths.below(options.root), options))
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        print(f"gantry-watcher: {error.strerror or error}{where}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

"""Logging of the daemons: the standard library's, one file for each daemon (contracts/cluster-design.md#logging).

    log/master-daemon.log, log/node-daemon.log, log/rapi-daemon.log; log/rapi-access.log has the requests

Warnings and errors go to standard error too, for whoever started the daemon by hand.
"""

import logging
import logging.handlers

from gantry.runtime import paths

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def configure(folders: paths.Paths, name: str, *, debug: bool) -> None:
    """Send the log of this process to its file, whose folder exists; a file that was moved is opened anew."""
    file = logging.handlers.WatchedFileHandler(f"{folders.log}/{name}.log")
    file.setLevel(logging.DEBUG if debug else logging.INFO)
    screen = logging.StreamHandler()
    screen.setLevel(logging.DEBUG if debug else logging.WARNING)
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, format=FORMAT, handlers=[file, screen])
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def configure_screen(*, debug: bool) -> None:
    """Send the log of this process to standard error alone, which whoever runs it in a container keeps."""
    level = logging.DEBUG if debug else logging.INFO
    logging.basicConfig(level=level, format=FORMAT, handlers=[logging.StreamHandler()])
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def configure_access(folders: paths.Paths, name: str) -> None:
    """Send the access log to a file of its own, whose lines are in the format of web servers and nothing else."""
    file = logging.handlers.WatchedFileHandler(f"{folders.log}/{name}.log")
    file.setFormatter(logging.Formatter("%(message)s"))
    access = logging.getLogger("gantry.access")
    access.setLevel(logging.INFO)
    access.propagate = False
    access.addHandler(file)
    # It quotes requests that it cannot read, and with them a password that stands in the wrong place.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)


def leave_screen() -> None:
    """Write to the log file alone from now on."""
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler:
            root.removeHandler(handler)

"""The daemons' logging with the standard library, one file for each daemon (contracts/cluster-design.md#logging).

    log/master-daemon.log, log/node-daemon.log, log/rapi-daemon.log; log/rapi-access.log has the requests

Only root and the daemons' group may read the files: they name users, instances and addresses.
Warnings and errors also go to standard error, for a daemon that is started by hand.
"""

import io
import logging
import logging.handlers

from gantry.runtime import paths
from gantry.runtime.real import disk

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _LogFile(logging.handlers.WatchedFileHandler):
    """A log file with mode 0640, also after log rotation."""

    def _open(self) -> io.TextIOWrapper:
        return disk.open_log_text(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors)


def configure(folders: paths.Paths, name: str, *, debug: bool) -> None:
    """Write this process's log to ``NAME.log`` in the log folder, and warnings to standard error.

    The folder must exist. The file is opened again after log rotation.
    """
    file = _LogFile(f"{folders.log}/{name}.log")
    file.setLevel(logging.DEBUG if debug else logging.INFO)
    screen = logging.StreamHandler()
    screen.setLevel(logging.DEBUG if debug else logging.WARNING)
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, format=FORMAT, handlers=[file, screen])
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def configure_screen(*, debug: bool) -> None:
    """Send this process's log to standard error only, as usual in containers."""
    level = logging.DEBUG if debug else logging.INFO
    logging.basicConfig(level=level, format=FORMAT, handlers=[logging.StreamHandler()])
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def configure_access(folders: paths.Paths, name: str) -> None:
    """Send the access log to a separate file, whose lines have the log format of web servers."""
    file = _LogFile(f"{folders.log}/{name}.log")
    file.setFormatter(logging.Formatter("%(message)s"))
    access = logging.getLogger("gantry.access")
    access.setLevel(logging.INFO)
    access.propagate = False
    access.addHandler(file)
    # aiohttp logs malformed requests, which may contain a password.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)


def leave_screen() -> None:
    """Stop logging to standard error; log to the file only."""
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler:
            root.removeHandler(handler)

"""The daemons' logging with the standard library, one file for each daemon (contracts/cluster-design.md#logging).

    log/master-daemon.log, log/node-daemon.log, log/rapi-daemon.log; log/rapi-access.log has the requests

Only root and the daemons' group may read the files: they name users, instances and addresses.
Warnings and errors also go to standard error, for a daemon that is started by hand. A daemon that is a service of
systemd logs to the journal instead (``runtime.real.journal``), the access log too; with GANTRY_LOG_FILES=1 in its
environment to the files as well. With GANTRY_LOG_FILES=0 a daemon without the journal logs everything to standard
error, and writes no file: nobody rotates the files of a container.
"""

import io
import logging
import logging.handlers
import os

from gantry.runtime import paths, request_ids
from gantry.runtime.real import disk, journal, systemd

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _Formatter(logging.Formatter):
    """Writes a line as ``FORMAT``, with the id of the request at its end if the task works for one."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the standard library
        """Return the line without a traceback, which follows."""
        request = request_ids.CURRENT.get()
        return f"{super().formatMessage(record)} [{request}]" if request else super().formatMessage(record)


class _LogFile(logging.handlers.WatchedFileHandler):
    """A log file with mode 0640, also after log rotation."""

    def _open(self) -> io.TextIOWrapper:
        return disk.open_log_text(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors)


def configure(folders: paths.Paths, name: str, *, debug: bool) -> None:
    """Write this process's log to ``NAME.log`` in the log folder, and warnings to standard error; or to the journal.

    The folder must exist. The file is opened again after log rotation. Without files, standard error has everything.
    """
    level = logging.DEBUG if debug else logging.INFO
    handlers: list[logging.Handler] = []
    has_files = _has_files()
    if has_files:
        file = _LogFile(f"{folders.log}/{name}.log")
        file.setLevel(level)
        handlers.append(file)
    if _has_journal():
        handlers.append(_journal(name))
    else:
        screen = logging.StreamHandler()
        if has_files:
            screen.setLevel(logging.DEBUG if debug else logging.WARNING)
        handlers.append(screen)
    _install(handlers, level)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _has_journal() -> bool:
    return systemd.is_service() and journal.is_available()


def _has_files() -> bool:
    value = os.environ.get("GANTRY_LOG_FILES", "")
    return value not in ("", "0") if _has_journal() else value != "0"


def _journal(name: str) -> journal.Handler:
    handler = journal.Handler(f"gantry-{name}")
    # The journal has time, level and logger of its own.
    handler.setFormatter(logging.Formatter("%(message)s"))
    return handler


def configure_screen(*, debug: bool) -> None:
    """Send this process's log to the journal, or to standard error only, as usual in containers."""
    level = logging.DEBUG if debug else logging.INFO
    _install([_journal("kube") if _has_journal() else logging.StreamHandler()], level)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _install(handlers: list[logging.Handler], level: int) -> None:
    for handler in handlers:
        if handler.formatter is None:
            handler.setFormatter(_Formatter())
    logging.basicConfig(level=level, handlers=handlers)


def set_debug(*, debug: bool) -> None:
    """Change the level that ``configure`` or ``configure_screen`` has set."""
    root = logging.getLogger()
    level = logging.DEBUG if debug else logging.INFO
    root.setLevel(level)
    for handler in root.handlers:
        if isinstance(handler, _LogFile):
            handler.setLevel(level)
        elif handler.level:
            handler.setLevel(logging.DEBUG if debug else logging.WARNING)


def configure_access(folders: paths.Paths, name: str) -> None:
    """Send the access log to a separate file, whose lines have the log format of web servers."""
    access = logging.getLogger("gantry.access")
    access.setLevel(logging.INFO)
    access.propagate = False
    if _has_journal():
        access.addHandler(_journal(name))
    if _has_files():
        file = _LogFile(f"{folders.log}/{name}.log")
        file.setFormatter(logging.Formatter("%(message)s"))
        access.addHandler(file)
    if not access.handlers:
        screen = logging.StreamHandler()
        screen.setFormatter(logging.Formatter("%(message)s"))
        access.addHandler(screen)
    # aiohttp logs malformed requests, which may contain a password.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)


def leave_screen() -> None:
    """Stop logging to standard error; log to the file only."""
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler:
            root.removeHandler(handler)

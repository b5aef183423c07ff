"""A daemon as a service of systemd: readiness, status, watchdog and end, as in sd_notify(3); and its signals.

    with systemd.Service() as service:
        service.on_signal(stop.set)
        ...
        service.ready("listening on port 1811")

Each daemon does this in its event loop. systemd passes the path of a datagram socket in ``NOTIFY_SOCKET``, and the
watchdog's timeout in ``WATCHDOG_USEC``; without them nothing is sent. The variables are removed, because a program that
the daemon starts would otherwise report for it. The watchdog is served from the event loop: systemd ends a daemon whose
loop is stuck.
"""

import asyncio
import logging
import os
import signal
import socket
import types
from collections.abc import Callable, Mapping, MutableMapping

log = logging.getLogger(__name__)

SEND_TIMEOUT_SECONDS = 1.0
"""For systemd to make room in a full socket; meanwhile the event loop waits."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def is_service(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether systemd started this process itself, as the main process of a service."""
    return environment.get("SYSTEMD_EXEC_PID") == str(os.getpid())


class Service:
    """The connection of a daemon to systemd; a context manager in the daemon's event loop."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        address = environment.pop("NOTIFY_SOCKET", "")
        # An address that begins with @ is in the abstract namespace.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._interval_seconds = _watchdog_interval(environment)
        self._timer: asyncio.TimerHandle | None = None
        self._has_failed = False
        self._stops = False

    def __enter__(self) -> "Service":
        """Serve the watchdog from now on."""
        if self._interval_seconds and self._address:
            self._keep_alive()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        """Report the end, unless a signal has done that."""
        self.stopping()
        if self._timer:
            self._timer.cancel()

    def on_signal(self, stop: Callable[[], object]) -> None:
        """Call ``stop`` after SIGTERM or SIGINT, and report that the daemon stops."""

        def handle() -> None:
            self.stopping()
            stop()

        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, handle)

    def ready(self, status: str = "") -> None:
        """Report that the daemon serves its clients; a repetition changes the status only."""
        self._send("READY=1", *_status_lines(status))

    def status(self, text: str) -> None:
        """Report what the daemon does; ``systemctl status`` shows it."""
        self._send(*_status_lines(text))

    def stopping(self) -> None:
        """Report that the daemon ends; later calls do nothing."""
        if not self._stops:
            self._stops = True
            self._send("STOPPING=1")

    def _keep_alive(self) -> None:
        self._send("WATCHDOG=1")
        self._timer = asyncio.get_running_loop().call_later(self._interval_seconds, self._keep_alive)

    def _send(self, *lines: str) -> None:
        if not self._address or not lines:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                connection.settimeout(SEND_TIMEOUT_SECONDS)
                connection.connect(self._address)
                connection.send("\n".join(lines).encode())
        except OSError as error:
            if not self._has_failed:
                log.warning("cannot send %s to systemd: %s", lines[0], error)
            self._has_failed = True
        else:
            self._has_failed = False


def _status_lines(text: str) -> list[str]:
    """Return the line of a status: line ends in the text would begin another message."""
    return [f"STATUS={' '.join(text.split())}"] if text else []


def _watchdog_interval(environment: MutableMapping[str, str]) -> float:
    """Return half of the watchdog's timeout in seconds, 0 without a watchdog for this process."""
    timeout, process = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
    if not timeout.isdecimal() or process not in ("", str(os.getpid())):
        return 0.0
    return int(timeout) / 2 / 1_000_000

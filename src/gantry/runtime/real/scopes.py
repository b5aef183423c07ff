"""Scopes of systemd: a guest runs in a unit of its own, and outlives the service of the daemon that starts it.

systemd ends all processes of a service with the service. ``systemd-run --scope`` moves itself to a unit of its own and
then becomes the program: process id, session, files and environment are those that the daemon chose. ``processes`` uses
it for guests, only where systemd runs the machine and started this daemon.

    gantry-guests.slice / gantry-guest-NAME.scope       NAME escaped as systemd-escape does
"""

import asyncio
import contextlib
import hashlib
import os
import string
from collections.abc import Awaitable, Callable, Sequence

from gantry.runtime.real import systemd

SLICE = "gantry-guests.slice"
PREFIX = "gantry-guest-"
MANAGER = "/run/systemd/system"
"""Exists while systemd is process 1 of the machine (sd_booted(3))."""
MAX_NAME = 200
"""Characters of an escaped name; a unit's name may have 255, with all parts."""
FREE_TIMEOUT_SECONDS = 1.0
"""For systemd to forget the scope of a guest that has ended; usually that takes milliseconds."""
POLL_SECONDS = 0.1
MAX_SCOPES = 9
"""Scopes of one guest: if the last one is not forgotten in time, a number makes the name of another."""

CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd")
"""Where control groups of version 2 or 1 are mounted."""

_KEPT = frozenset((string.ascii_letters + string.digits + ":_.").encode())

Run = Callable[[Sequence[str]], Awaitable[bytes]]
"""Runs a program and returns its output."""


def are_available() -> bool:
    """Return whether this process is a service of the machine's systemd."""
    return systemd.is_service() and os.path.isdir(MANAGER)


def escape(name: str) -> str:
    """Return a name as a part of a unit's name (systemd.unit(5)).

    >>> escape("web-1.example.org"), escape(".a/b")
    ('web\\\\x2d1.example.org', '\\\\x2ea-b')
    """

    def escaped(index: int, byte: int) -> str:
        if byte == ord("/"):
            return "-"
        kept = byte in _KEPT and not (index == 0 and byte == ord("."))
        return chr(byte) if kept else f"\\x{byte:02x}"

    return "".join(escaped(index, byte) for index, byte in enumerate(name.encode()))


def unit(name: str, number: int = 1) -> str:
    """Return the unit of a guest; a very long name is cut, and made unique by its digest.

    >>> unit("web"), unit("web", 2)
    ('gantry-guest-web.scope', 'gantry-guest-web:2.scope')
    """
    part = escape(name)
    if len(part) > MAX_NAME:
        part = f"{part[:MAX_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return f"{PREFIX}{part}.scope" if number == 1 else f"{PREFIX}{part}:{number}.scope"


async def command(name: str, arguments: Sequence[str], *, run: Run) -> list[str]:
    """Return the arguments that run a program in a scope of a guest, whose earlier scope may still be there."""
    scope = await _free_unit(name, run)
    return [
        *("systemd-run", "--scope", "--collect", "--quiet", f"--slice={SLICE}"),
        *(f"--unit={scope}", f"--description=Guest {name} of Gantry", "--", *arguments),
    ]


async def _free_unit(name: str, run: Run) -> str:
    """Return a unit that does not exist; if all of them exist, the first: then systemd-run fails, and says why."""
    for _ in range(int(FREE_TIMEOUT_SECONDS / POLL_SECONDS)):
        if await _is_free(unit(name), run):
            return unit(name)
        await asyncio.sleep(POLL_SECONDS)
    for number in range(2, MAX_SCOPES + 1):
        if await _is_free(unit(name, number), run):
            return unit(name, number)
    return unit(name)


async def _is_free(scope: str, run: Run) -> bool:
    """Return whether a unit does not exist; one without processes is stopped, and does not exist soon after.

    With control groups of version 1 in a container, systemd itself does not notice that a scope is empty.
    """
    output = await run(["systemctl", "show", "--property=LoadState", "--property=ControlGroup", scope])
    properties = dict(line.split("=", 1) for line in output.decode().splitlines() if "=" in line)
    if properties.get("LoadState") == "not-found":
        return True
    if _is_empty(properties.get("ControlGroup", "")):
        await run(["systemctl", "stop", scope])
    return False


def _is_empty(group: str) -> bool:
    """Return whether a control group has no processes; False if that cannot be read."""
    for folder in CGROUPS if group else ():
        with contextlib.suppress(OSError), open(f"{folder}{group}/cgroup.procs", encoding="ascii") as file:
            return not file.read().strip()
    return False

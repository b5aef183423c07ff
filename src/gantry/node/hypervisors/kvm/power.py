"""The power and reset buttons of a running QEMU: presses them and waits for their effect.

Each press opens a control connection of its own, so that a QEMU that hangs delays its caller only for the timeouts of
this module. ``driver`` calls it and holds the guest's lock.
"""

import asyncio
import signal

from gantry import errors
from gantry.node.hypervisors.kvm import guest_records, migration, qmp
from gantry.runtime import interface

POLL_SECONDS = 0.05
START_TIMEOUT_SECONDS = 60.0
"""For a new QEMU's first answer; a loaded machine may need ten seconds to start QEMU."""
ANSWER_TIMEOUT_SECONDS = 5.0
"""For queries and buttons; short, because a guest whose QEMU hangs must still be listed, and can be killed."""
PRESS_INTERVAL_SECONDS = 5.0
"""A guest that is still booting does not notice the button, so the button is pressed repeatedly."""
QUIT_TIMEOUT_SECONDS = 10.0
KILL_TIMEOUT_SECONDS = 10.0
"""For the kernel to free the memory and files of a killed process, which takes time on a loaded machine."""


class Power:
    """The buttons of running guests."""

    def __init__(self, runtime: interface.Runtime, guests: guest_records.Guests) -> None:
        self._clock = runtime.clock
        self._runtime = runtime
        self._processes = runtime.processes
        self._guests = guests

    async def wait_until_up(self, name: str, pid: int) -> None:
        """Return when a QEMU that has just been started answers; HypervisorError if it ends or times out."""
        limit = self._clock.monotonic() + START_TIMEOUT_SECONDS
        while self._processes.alive(pid) and self._clock.monotonic() < limit:
            try:
                await self._status(name)
            except (OSError, errors.HypervisorError):  # not ready yet, or ended, which the loop's condition tests
                await self._clock.sleep(POLL_SECONDS)
            else:
                return
        failure = "does not answer" if self._processes.alive(pid) else "exited immediately"
        raise errors.HypervisorError(f"QEMU of instance {name} {failure}")

    async def _status(self, name: str) -> qmp.Status:
        async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS), await self._connect(name) as control:
            return await control.status()

    async def _connect(self, name: str) -> qmp.Connection:
        return await qmp.connect(self._runtime, self._guests.files(name).control, guest=name)

    async def state(self, name: str, *, incoming: bool = False) -> str:
        """Return the ``state`` for ``calls.RunningInstance``; a guest whose QEMU does not answer counts as running."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS), await self._connect(name) as control:
                status, sending = await control.status(), (await migration.ask(control)).progress()
        except (OSError, errors.HypervisorError):
            return "incoming" if incoming else "running"
        if incoming:
            return "arrived" if (status.status, sending.status) == ("paused", "completed") else "incoming"
        if status.status == migration.MIGRATED:
            return "migrated"
        if not sending.final:
            return "migrating"
        return "running" if status.running else "paused"

    async def off(self, name: str, pid: int, *, timeout: float) -> None:
        """End a guest: by its power button for ``timeout`` seconds, then by QEMU's ``quit``, then by SIGKILL."""
        limit = self._clock.monotonic() + timeout
        while (remaining_seconds := limit - self._clock.monotonic()) > 0:
            await self._press(name, "system_powerdown")
            if await self._has_ended(name, pid, within=min(remaining_seconds, PRESS_INTERVAL_SECONDS)):
                return
        await self._press(name, "quit")
        if not await self._has_ended(name, pid, within=QUIT_TIMEOUT_SECONDS):
            await self.kill(name, pid)

    async def kill(self, name: str, pid: int) -> None:
        """Kill QEMU; HypervisorError if it does not end."""
        if self._guests.is_guest(name, pid):
            self._processes.signal(pid, signal.SIGKILL)
        if not await self._has_ended(name, pid, within=KILL_TIMEOUT_SECONDS):
            raise errors.HypervisorError(
                f"QEMU of instance {name} (process {pid}) cannot be killed", hint="its storage may hang"
            )

    async def _press(self, name: str, command: str) -> None:
        """Send a command, and ignore failures."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS), await self._connect(name) as control:
                await control.execute(command)
        except (OSError, errors.HypervisorError):
            return

    async def _has_ended(self, name: str, pid: int, *, within: float) -> bool:
        limit = self._clock.monotonic() + within
        while self._guests.is_guest(name, pid):
            if self._clock.monotonic() >= limit:
                return False
            await self._clock.sleep(POLL_SECONDS)
        return True

    async def reset(self, record: guest_records.Record, *, timeout_seconds: float) -> None:
        """Reset a guest, after it has shut down by itself or ``timeout_seconds`` have passed.

        Meanwhile QEMU only pauses when the guest powers off. Afterwards QEMU behaves as before.
        """
        try:
            async with await self._connect(record.name) as control:
                await self._during_reset(control, record, timeout_seconds=timeout_seconds)
        except OSError as error:
            raise errors.HypervisorError(f"instance {record.name} cannot be reset: QEMU does not answer") from error

    async def _during_reset(
        self, control: qmp.Connection, record: guest_records.Record, *, timeout_seconds: float
    ) -> None:
        async with asyncio.timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            await control.execute("set-action", {"reboot": "reset", "shutdown": "pause"})
        stopped = await self._shut_down_inside(control, timeout_seconds)
        async with asyncio.timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            await control.execute("system_reset")
            await control.event({"RESET"})
            if stopped:
                await control.execute("cont")
            action = "shutdown" if record.ends_on_reboot else "reset"
            await control.execute("set-action", {"reboot": action, "shutdown": "poweroff"})

    async def _shut_down_inside(self, control: qmp.Connection, timeout_seconds: float) -> bool:
        """Press the power button until the guest has stopped or the timeout expires; return whether it stopped."""
        limit = self._clock.monotonic() + timeout_seconds
        while (remaining_seconds := limit - self._clock.monotonic()) > 0:
            async with asyncio.timeout(qmp.ANSWER_TIMEOUT_SECONDS):
                await control.execute("system_powerdown")
            try:
                async with asyncio.timeout(min(remaining_seconds, PRESS_INTERVAL_SECONDS)):
                    await control.event({"SHUTDOWN"})
                    return True
            except TimeoutError:
                continue
        return False

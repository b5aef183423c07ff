"""The power and reset buttons of a running QEMU, and waiting for what they do.

Each press opens a control connection of its own, so that a QEMU that hangs holds up nobody for longer than the limits
here. ``kvm`` calls, holding the guest's lock.
"""

import asyncio
import signal

from gantry import errors
from gantry.node.hypervisors.kvm import guest_records, migration, qmp
from gantry.runtime import interface

POLL = 0.05
# A loaded machine may need ten seconds to start QEMU; one that has not answered by then never will.
START_LIMIT = 60.0
# Looks and buttons give up sooner than other commands: who hangs is to be listed too, and can be killed.
ANSWER_LIMIT = 5.0
# A guest that is still booting does not see the button, so it is pressed again and again.
PRESS_INTERVAL = 5.0
QUIT_LIMIT = 10.0
# A killed process is gone when the kernel has its memory and files back, which takes a loaded machine a while.
KILL_LIMIT = 10.0


class Power:
    """Commands to running guests."""

    def __init__(self, runtime: interface.Runtime, known: guest_records.Guests) -> None:
        self._clock = runtime.clock
        self._network = runtime.network
        self._processes = runtime.processes
        self._guests = known

    async def wait_until_up(self, name: str, pid: int) -> None:
        """Return when a QEMU that was just started answers; HypervisorError when it ends or takes too long."""
        limit = self._clock.monotonic() + START_LIMIT
        while self._processes.alive(pid) and self._clock.monotonic() < limit:
            try:
                await self._status(name)
            except (OSError, errors.HypervisorError):  # it has not come that far, or ended: the loop tells which
                await self._clock.sleep(POLL)
            else:
                return
        what = "does not answer" if self._processes.alive(pid) else "ended at once"
        raise errors.HypervisorError(f"QEMU of instance {name} {what}")

    async def _status(self, name: str) -> qmp.Status:
        async with asyncio.timeout(ANSWER_LIMIT), await self._connect(name) as control:
            return await control.status()

    async def _connect(self, name: str) -> qmp.Connection:
        return await qmp.connect(self._network, self._guests.files(name).control, guest=name)

    async def state(self, name: str, *, incoming: bool = False) -> str:
        """Return the state of ``calls.RunningInstance``; a guest whose QEMU does not answer counts as running."""
        try:
            async with asyncio.timeout(ANSWER_LIMIT), await self._connect(name) as control:
                status, sending = await control.status(), (await migration.ask(control)).told()
        except (OSError, errors.HypervisorError):
            return "incoming" if incoming else "running"
        if incoming:
            return "arrived" if (status.status, sending.status) == ("paused", "completed") else "incoming"
        if status.status == migration.LEFT:
            return "migrated"
        if not sending.final:
            return "migrating"
        return "running" if status.running else "paused"

    async def off(self, name: str, pid: int, *, timeout: float) -> None:
        """End a guest: by its power button for ``timeout`` seconds, then by QEMU's ``quit``, then by SIGKILL."""
        limit = self._clock.monotonic() + timeout
        while (left := limit - self._clock.monotonic()) > 0:
            await self._press(name, "system_powerdown")
            if await self._gone(name, pid, within=min(left, PRESS_INTERVAL)):
                return
        await self._press(name, "quit")
        if not await self._gone(name, pid, within=QUIT_LIMIT):
            await self.kill(name, pid)

    async def kill(self, name: str, pid: int) -> None:
        """Kill QEMU; HypervisorError when even that does not end it."""
        if self._guests.is_guest(name, pid):
            self._processes.signal(pid, signal.SIGKILL)
        if not await self._gone(name, pid, within=KILL_LIMIT):
            raise errors.HypervisorError(
                f"QEMU of instance {name} (process {pid}) cannot be killed", hint="its storage may hang"
            )

    async def _press(self, name: str, command: str) -> None:
        """Send a command and do not mind whether it arrives."""
        try:
            async with asyncio.timeout(ANSWER_LIMIT), await self._connect(name) as control:
                await control.execute(command)
        except (OSError, errors.HypervisorError):
            return

    async def _gone(self, name: str, pid: int, *, within: float) -> bool:
        limit = self._clock.monotonic() + within
        while self._guests.is_guest(name, pid):
            if self._clock.monotonic() >= limit:
                return False
            await self._clock.sleep(POLL)
        return True

    async def reset(self, record: guest_records.Record, *, patience: float) -> None:
        """Reset a guest, after it shut down by itself when it does so within ``patience`` seconds.

        Meanwhile QEMU is told to stay when the guest powers off. Afterwards it behaves as before.
        """
        try:
            async with await self._connect(record.name) as control:
                await self._during_reset(control, record, patience=patience)
        except OSError as error:
            raise errors.HypervisorError(f"instance {record.name} cannot be reset: QEMU does not answer") from error

    async def _during_reset(self, control: qmp.Connection, record: guest_records.Record, *, patience: float) -> None:
        async with asyncio.timeout(qmp.ANSWER_LIMIT):
            await control.execute("set-action", {"reboot": "reset", "shutdown": "pause"})
        stopped = await self._shut_down_inside(control, patience)
        async with asyncio.timeout(qmp.ANSWER_LIMIT):
            await control.execute("system_reset")
            await control.event({"RESET"})
            if stopped:
                await control.execute("cont")
            ends = "shutdown" if record.ends_on_reboot else "reset"
            await control.execute("set-action", {"reboot": ends, "shutdown": "poweroff"})

    async def _shut_down_inside(self, control: qmp.Connection, patience: float) -> bool:
        """Press the power button until the guest has stopped or the patience is over; tell which."""
        limit = self._clock.monotonic() + patience
        while (left := limit - self._clock.monotonic()) > 0:
            async with asyncio.timeout(qmp.ANSWER_LIMIT):
                await control.execute("system_powerdown")
            try:
                async with asyncio.timeout(min(left, PRESS_INTERVAL)):
                    await control.event({"SHUTDOWN"})
                    return True
            except TimeoutError:
                continue
        return False

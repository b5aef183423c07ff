"""Bringing a domain to another node: saved there, restored here, over a stream between the two node daemons.

xl writes all of the domain into the stream and leaves it standing still at the source; xl at the target restores it,
standing still as well. So it goes on in one place only, when somebody says so, and goes back when that is wanted. It
stands still for as long as its memory takes to be sent: Debian's Xen cannot migrate paravirtual domains live (it is
built without shadow paging), and xl's own live migration of HVM domains destroys the source before anybody is asked.

The stream is encrypted, the sender knows the token that the target made (``channels``). What is under way is known to
the daemon alone: when that ends, xl finds its stream broken, and lets the domain go on at the source by itself. A
domain that was saved once is not watched by xl any longer: when it reboots, the next look (``visibility``) builds it
anew.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass

import msgspec

from gantry import errors
from gantry.node.hypervisors.xen import domains, records
from gantry.node.os import stream_tls
from gantry.node.storage import programs
from gantry.rpc import calls
from gantry.runtime import commands, interface

logger = logging.getLogger(__name__)

MIB = 1 << 20
SECRET_BYTES = 32
POLL = 0.2
# seconds for xl, whose stream was broken off, to let the domain go on
RESUME_LIMIT = 60.0


@dataclass
class _Sending:
    task: asyncio.Task[None]
    status: calls.MigrationStatus


@dataclass
class _Receiving:
    arrival: commands.Arrival
    task: asyncio.Task[None]


class Passage:
    """The domains of one hypervisor of a node that come and go."""

    def __init__(
        self,
        runtime: interface.Runtime,
        *,
        xl: domains.Xl,
        known: records.Records,
        tls: stream_tls.Contexts,
    ) -> None:
        self._runtime = runtime
        self._clock = runtime.clock
        self._xl = xl
        self._records = known
        self._tls = tls
        self._sending: dict[str, _Sending] = {}
        self._receiving: dict[str, _Receiving] = {}

    async def listen(self, name: str, *, address: str) -> calls.Reception:
        """Wait at an address for a domain, whose configuration is written, and restore it; HypervisorError."""
        token = self._runtime.random.token(SECRET_BYTES).hex()
        try:
            arrival = await self._runtime.streams.listen(address, token=token, tls=self._tls.server())
        except OSError as error:
            raise errors.HypervisorError(f"instance {name} cannot be waited for at {address}: {error}") from None
        self._receiving[name] = _Receiving(arrival, asyncio.ensure_future(self._receive(name, arrival)))
        return calls.Reception(host=address, port=arrival.port, secret=token)

    async def _receive(self, name: str, arrival: commands.Arrival) -> None:
        stage = self._stage("restore", "-p", self._records.config(name), "/dev/stdin")
        try:
            streamed = await arrival.receive([stage], timeout=programs.DATA_TIMEOUT_SECONDS)
        except OSError as error:
            logger.warning("instance %s did not arrive: %s", name, error)
            return
        record = self._records.get(name)
        if streamed.ended[0].code or record is None:
            logger.warning("instance %s could not be restored: %s", name, domains.why(streamed.ended[0]))
            return
        await self._records.remember(msgspec.structs.replace(record, arrived=True))

    def _stage(self, *arguments: str) -> commands.Stage:
        # When a stream is broken off its programs are killed. xl must not be: it would leave its domain standing still.
        # In a session of its own it hears of the broken pipe, and clears up.
        return commands.Stage(["setsid", "--wait", self._xl.program, *arguments], environment=programs.ENVIRONMENT)

    def receives(self, name: str) -> bool:
        """Tell whether a domain is waited for, or on its way."""
        return name in self._receiving and not self._receiving[name].task.done()

    async def stop_listening(self, name: str) -> None:
        """Wait for a domain no longer; what has come of it is not cleared away."""
        receiving = self._receiving.pop(name, None)
        if receiving is not None and not receiving.task.done():
            await receiving.arrival.close()
            await asyncio.wait([receiving.task])

    def send(self, record: records.Record, reception: calls.Reception) -> None:
        """Begin to send a domain."""
        name = record.instance.name
        work = asyncio.ensure_future(self._send(record, reception))
        total = record.memory * MIB
        self._sending[name] = _Sending(work, calls.MigrationStatus(status="active", total=total, remaining=total))

    async def _send(self, record: records.Record, reception: calls.Reception) -> None:
        name, began = record.instance.name, self._clock.monotonic()
        try:
            streamed = await self._runtime.streams.send(
                [self._stage("save", "-p", name, "/dev/stdout")],
                host=reception.host, port=reception.port, token=reception.secret,
                tls=self._tls.client(), timeout=programs.DATA_TIMEOUT_SECONDS,
            )  # fmt: skip
        except OSError as error:
            self._failed(name, f"the stream broke off: {error}; the target's log may say why")
            return
        if streamed.ended[0].code:
            self._failed(name, f"it could not be saved: {domains.why(streamed.ended[0])}")
            return
        seconds = self._clock.monotonic() - began
        await self._records.remember(msgspec.structs.replace(record, left=True))
        self._sending[name].status = calls.MigrationStatus(
            status="completed", transferred=streamed.size, total=streamed.size,
            downtime=int(seconds * 1000), seconds=seconds,
        )  # fmt: skip

    def _failed(self, name: str, reason: str) -> None:
        self._sending[name].status = calls.MigrationStatus(status="failed", reason=reason)

    def sends(self, name: str) -> bool:
        """Tell whether a domain is being sent."""
        return name in self._sending and not self._sending[name].task.done()

    async def status(self, record: records.Record, *, wait: float) -> calls.MigrationStatus:
        """Return how far a domain is, after ``wait`` seconds or as soon as that is final."""
        sending = self._sending.get(record.instance.name)
        if sending is None:
            return calls.MigrationStatus(status="completed" if record.left else "none")
        limit = self._clock.monotonic() + wait
        while not sending.task.done() and self._clock.monotonic() < limit:
            await self._clock.sleep(POLL)
        return sending.status

    async def cancel(self, name: str) -> None:
        """Give the sending of a domain up; xl lets it go on."""
        sending = self._sending.get(name)
        if sending is None or sending.task.done():
            return
        sending.task.cancel()
        await asyncio.wait([sending.task])
        if sending.status.status == "active":
            sending.status = calls.MigrationStatus(status="cancelled")

    def forget(self, name: str) -> None:
        """Forget how a domain was sent."""
        with contextlib.suppress(KeyError):
            del self._sending[name]

    async def resume(self, name: str) -> None:
        """Let a domain go on here that stands still; HypervisorError when xl does not give it back."""
        limit = self._clock.monotonic() + RESUME_LIMIT
        while (found := await self._xl.find(name)) is not None and found.suspended:
            if self._clock.monotonic() >= limit:
                raise errors.HypervisorError(
                    f"instance {name} stands still, because xl did not end saving it",
                    hint="gnt-instance shutdown and startup start it anew",
                )
            await self._clock.sleep(POLL)
        if found is not None and found.paused:
            await self._xl.succeed("unpause", name, what=f"instance {name} cannot go on")

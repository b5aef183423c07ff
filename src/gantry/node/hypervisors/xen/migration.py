"""Migrates a domain to another node: saves it there, restores it here, over a stream between the two node daemons.

xl at the source writes the whole domain into the stream and leaves it stopped; xl at the target restores it, stopped as
well. The master decides on which of the two nodes the domain continues, so it never runs twice. The domain is stopped
while its memory is sent: Debian's Xen cannot migrate paravirtual domains live (it is built without shadow paging), and
xl's own live migration of HVM domains destroys the source without waiting for a decision.

The stream is encrypted, and the sender has a token that the target has created (``os.stream_tls``). Only the daemon has
the state of a migration in progress: if the daemon ends, the stream breaks, and xl lets the domain continue at the
source. xl no longer watches a domain that has been saved once: if such a domain reboots, the next ``info``
(``visibility``) rebuilds it.
"""

import asyncio
import contextlib
import dataclasses
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
POLL_SECONDS = 0.2
RESUME_TIMEOUT_SECONDS = 60.0
"""For xl to let the domain continue after its stream has broken."""


@dataclass
class _Sending:
    task: asyncio.Task[None]
    status: calls.MigrationStatus


@dataclass
class _Receiving:
    arrival: commands.BulkListener
    task: asyncio.Task[None]


class Migrations:
    """The incoming and outgoing domains of a hypervisor of a node."""

    def __init__(
        self,
        runtime: interface.Runtime,
        *,
        xl: domains.Xl,
        guest_records: records.Records,
        tls: stream_tls.Contexts,
    ) -> None:
        self._runtime = runtime
        self._clock = runtime.clock
        self._xl = xl
        self._records = guest_records
        self._tls = tls
        self._sending: dict[str, _Sending] = {}
        self._receiving: dict[str, _Receiving] = {}

    async def listen(self, name: str, *, address: str) -> calls.Reception:
        """Listen at an address for a domain, whose configuration is written, and restore it; HypervisorError."""
        token = self._runtime.random.token(SECRET_BYTES).hex()
        try:
            arrival = await self._runtime.streams.listen(address, token=token, tls=self._tls.server())
        except OSError as error:
            raise errors.HypervisorError(f"cannot listen at {address} for instance {name}: {error}") from None
        self._receiving[name] = _Receiving(arrival, asyncio.ensure_future(self._receive(name, arrival)))
        return calls.Reception(host=address, port=arrival.port, secret=token)

    async def _receive(self, name: str, arrival: commands.BulkListener) -> None:
        stage = self._stage("restore", "-p", self._records.config(name), "/dev/stdin")
        scoped = await self._runtime.processes.in_scope(name, stage.arguments)
        stage = dataclasses.replace(stage, arguments=scoped)
        try:
            streamed = await arrival.receive([stage], timeout=programs.DATA_TIMEOUT_SECONDS)
        except OSError as error:
            logger.warning("instance %s did not arrive: %s", name, error)
            return
        record = self._records.get(name)
        if streamed.exits[0].code or record is None:
            logger.warning("instance %s could not be restored: %s", name, domains.failure_reason(streamed.exits[0]))
            return
        await self._records.write(msgspec.structs.replace(record, arrived=True))

    def _stage(self, *arguments: str) -> commands.Stage:
        # When a stream is cancelled, its programs are killed. A killed xl would leave its domain stopped. In a session
        # of its own, xl is not killed but notices the broken pipe, and cleans up.
        return commands.Stage(["setsid", "--wait", self._xl.program, *arguments], environment=programs.ENVIRONMENT)

    def is_receiving(self, name: str) -> bool:
        """Return whether a domain is expected or being received."""
        return name in self._receiving and not self._receiving[name].task.done()

    async def stop_listening(self, name: str) -> None:
        """Stop listening for a domain, without removing what has arrived."""
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
            self._failed(
                name, f"the stream was interrupted: {error}; the log of the target's daemon may have the reason"
            )
            return
        if streamed.exits[0].code:
            self._failed(name, f"it could not be saved: {domains.failure_reason(streamed.exits[0])}")
            return
        seconds = self._clock.monotonic() - began
        await self._records.write(msgspec.structs.replace(record, left=True))
        self._sending[name].status = calls.MigrationStatus(
            status="completed", transferred=streamed.size, total=streamed.size,
            downtime=int(seconds * 1000), seconds=seconds,
        )  # fmt: skip

    def _failed(self, name: str, reason: str) -> None:
        self._sending[name].status = calls.MigrationStatus(status="failed", reason=reason)

    def is_sending(self, name: str) -> bool:
        """Return whether a domain is being sent."""
        return name in self._sending and not self._sending[name].task.done()

    async def status(self, record: records.Record, *, wait: float) -> calls.MigrationStatus:
        """Return the progress of an outgoing migration after ``wait`` seconds, or as soon as it ends."""
        sending = self._sending.get(record.instance.name)
        if sending is None:
            return calls.MigrationStatus(status="completed" if record.left else "none")
        limit = self._clock.monotonic() + wait
        while not sending.task.done() and self._clock.monotonic() < limit:
            await self._clock.sleep(POLL_SECONDS)
        return sending.status

    async def cancel(self, name: str) -> None:
        """Cancel the sending of a domain; xl lets the domain continue."""
        sending = self._sending.get(name)
        if sending is None or sending.task.done():
            return
        sending.task.cancel()
        await asyncio.wait([sending.task])
        if sending.status.status == "active":
            sending.status = calls.MigrationStatus(status="cancelled")

    def forget(self, name: str) -> None:
        """Discard the state of an outgoing migration."""
        with contextlib.suppress(KeyError):
            del self._sending[name]

    async def resume(self, name: str) -> None:
        """Let a stopped domain continue here; HypervisorError if xl does not end saving it."""
        limit = self._clock.monotonic() + RESUME_TIMEOUT_SECONDS
        while (domain := await self._xl.find(name)) is not None and domain.suspended:
            if self._clock.monotonic() >= limit:
                raise errors.HypervisorError(
                    f"instance {name} is stopped, because xl did not end saving it within "
                    f"{RESUME_TIMEOUT_SECONDS:.0f} s",
                    hint="restart it with gnt-instance shutdown and startup",
                )
            await self._clock.sleep(POLL_SECONDS)
        if domain is not None and domain.paused:
            await self._xl.succeed("unpause", name, failure=f"instance {name} cannot continue")

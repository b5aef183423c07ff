"""Live migration without shared disks: copies each disk to the target while the guest writes to it.

The target exports its empty disks (NBD, with the secret of ``migration``). The source mirrors its own disks into them,
and from then on every write goes to both. When all disks are identical, the memory follows. When the guest is stopped
at the end, the mirrors are completed before the guest continues at the target. Only the node can time these steps, so
they run in a task of the daemon. If the daemon ends, so does the task; the guest keeps running at the source, and
``cancel`` cleans up.
"""

import asyncio
import contextlib
from asyncio import timeout
from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.node.hypervisors import guest_slots
from gantry.node.hypervisors.kvm import guest_records, migration, qmp
from gantry.rpc import calls
from gantry.runtime import interface

POLL_SECONDS = 0.02
COPY_POLL_SECONDS = 0.1
PORTS = 200
SWITCHOVER = "pause-before-switchover"


class _CopyJob(msgspec.Struct):
    device: str
    length: int = msgspec.field(name="len")
    offset: int
    ready: bool = False


class Mirrors:
    """The copies of disks that are in progress on this node."""

    def __init__(
        self, runtime: interface.Runtime, guests: guest_records.Guests, memory_migration: migration.Migration
    ) -> None:
        self._clock = runtime.clock
        self._guests = guests
        self._migration = memory_migration
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, str] = {}

    async def export(self, record: guest_records.Record, *, address: str, port: int) -> int:
        """Export the target's disks for copies; return the port, at or above ``port``, on which it listens."""
        async with self._guests.control(record.name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            port = await _serve(control, address, port)
            for disk in record.machine().disks:
                name = guest_slots.disk_name(disk)
                export = {"type": "nbd", "id": f"copy-{name}", "node-name": name, "name": name, "writable": True}
                await control.execute("block-export-add", export)
        return port

    def forget(self, name: str) -> None:
        """Discard the failure of an earlier attempt."""
        self._failed.pop(name, None)

    def begin(self, record: guest_records.Record, reception: calls.Reception, *, live: bool, speed: int) -> None:
        """Begin to copy the disks of a guest, each with ``speed`` bytes per second, and then to send the guest."""
        work = self._run(record, reception, live=live, speed=speed)
        self._tasks[record.name] = asyncio.get_running_loop().create_task(work)

    def running(self, name: str) -> bool:
        """Return whether a guest's disks are being copied, or the guest is being sent after them."""
        task = self._tasks.get(name)
        return task is not None and not task.done()

    async def status(self, name: str, *, wait: float) -> calls.MigrationStatus | None:
        """Return the progress of a migration after ``wait`` seconds, or as soon as it ends; None if there is none."""
        limit = self._clock.monotonic() + wait
        while self.running(name) and self._clock.monotonic() < limit:
            await self._clock.sleep(POLL_SECONDS)
        if name in self._failed:
            return calls.MigrationStatus(status="failed", reason=self._failed[name])
        if not self.running(name):
            return None
        async with self._guests.control(name) as control:
            answer, jobs = await migration.ask(control), await _jobs(control)
        if jobs and answer.progress().status != "active":
            done, total = (sum(sizes) for sizes in zip(*((job.offset, job.length) for job in jobs), strict=True))
            return calls.MigrationStatus(status="mirroring", transferred=done, total=total, remaining=total - done)
        return calls.MigrationStatus(status="mirroring") if answer.progress().final else answer.progress()

    async def cancel(self, name: str) -> None:
        """Cancel the copies."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self.forget(name)
        record = self._guests.record(name)
        if record is not None and record.instance is not None:
            await self._close(record, force=True)

    async def _run(self, record: guest_records.Record, reception: calls.Reception, *, live: bool, speed: int) -> None:
        try:
            await self._copy(record, reception, speed=speed)
            await self._migration.send(record.name, reception, live=live)
            await self._switch(record)
        except errors.GantryError as error:
            self._failed[record.name] = error.message
            with contextlib.suppress(errors.GantryError):  # QEMU may have ended, and the copies with it
                await self._migration.cancel(record.name)
                await self._close(record, force=True)

    async def _copy(self, record: guest_records.Record, reception: calls.Reception, *, speed: int) -> None:
        async with self._guests.control(record.name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            await migration.set_capabilities(control, SWITCHOVER)
            for disk in record.machine().disks:
                name = guest_slots.disk_name(disk)
                await control.connect(
                    _job_id(name),
                    host=reception.host,
                    port=reception.disk_port,
                    timeout_seconds=migration.SEND_TIMEOUT_SECONDS,
                )
                await control.execute("blockdev-add", _remote(name))
                await control.execute(
                    "blockdev-mirror",
                    {
                        "job-id": _job_id(name), "device": name, "target": _copy_name(name),
                        "sync": "full", "copy-mode": "write-blocking", "speed": speed,
                    },
                )  # fmt: skip
        while not all(job.ready for job in await self._jobs(record)):
            await self._clock.sleep(COPY_POLL_SECONDS)

    async def _jobs(self, record: guest_records.Record) -> list[_CopyJob]:
        """Return the copies; HypervisorError if any is missing."""
        async with self._guests.control(record.name) as control:
            jobs = await _jobs(control)
        if len(jobs) != len(record.machine().disks):
            raise errors.HypervisorError(f"instance {record.name}: the copy of a disk was interrupted")
        return jobs

    async def _switch(self, record: guest_records.Record) -> None:
        """Wait until the guest is stopped, complete the copies, and let the migration finish."""
        while (answer := await self._answer(record.name)).status not in ("pre-switchover", *migration.FINAL):
            await self._clock.sleep(POLL_SECONDS)
        if answer.status == "pre-switchover":
            await self._close(record, force=False)
            async with self._guests.control(record.name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
                await control.execute("migrate-continue", {"state": "pre-switchover"})
            while (answer := await self._answer(record.name)).status not in migration.FINAL:
                await self._clock.sleep(POLL_SECONDS)
        if answer.status != "completed":
            raise errors.HypervisorError(f"instance {record.name}: {answer.reason or answer.status}")

    async def _answer(self, name: str) -> migration.Answer:
        async with self._guests.control(name) as control:
            return await migration.ask(control)

    async def _close(self, record: guest_records.Record, *, force: bool) -> None:
        """End the copies and disconnect their targets; without ``force`` the copies are complete afterwards."""
        async with self._guests.control(record.name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            for job in await _jobs(control):
                await control.execute("block-job-cancel", {"device": job.device, "force": force})
            while await _jobs(control):
                await self._clock.sleep(POLL_SECONDS)
            block_nodes = await control.block_nodes()
            for disk in record.machine().disks:
                copy = _copy_name(guest_slots.disk_name(disk))
                if copy in block_nodes:
                    await control.execute("blockdev-del", {"node-name": copy})
            capabilities = [{"capability": SWITCHOVER, "state": False}]
            if (await migration.ask(control)).progress().final:
                await control.execute("migrate-set-capabilities", {"capabilities": capabilities})


def _job_id(disk: str) -> str:
    return f"copy-{disk}"


def _copy_name(disk: str) -> str:
    return f"{disk}-c"


def _remote(disk: str) -> Mapping[str, object]:
    server = {"type": "fd", "str": _job_id(disk)}
    file = {"driver": "nbd", "export": disk, "server": server, "tls-creds": migration.CREDENTIALS}
    return {"driver": "raw", "node-name": _copy_name(disk), "file": file}


async def _jobs(control: qmp.Connection) -> list[_CopyJob]:
    async with timeout(qmp.ANSWER_TIMEOUT_SECONDS):
        return msgspec.json.decode(await control.execute("query-block-jobs"), type=list[_CopyJob])


async def _serve(control: qmp.Connection, address: str, first: int) -> int:
    """Start the NBD server on the first free port, and return the port."""
    for port in range(first, first + PORTS):
        listener = {"type": "inet", "data": {"host": address, "port": str(port)}}
        try:
            await control.execute("nbd-server-start", {"addr": listener, "tls-creds": migration.CREDENTIALS})
        except errors.HypervisorError as error:
            if "in use" not in error.message:
                raise
        else:
            return port
    raise errors.HypervisorError(f"no port from {first} to {first + PORTS} is free at {address}")

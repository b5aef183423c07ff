"""Live migration without shared disks: each disk is copied to the target while the guest writes to it.

The target exports its empty disks (NBD, with the secret of ``migration``); the source mirrors its own into them, and
every write goes to both from then on. When all are alike the memory follows; when the guest stands still at the end,
the mirrors are closed in good order before it goes on over there. That is several steps in a row which nobody but the
node can time, so they run in a task of the daemon: when it dies with the daemon, the guest runs on at the source, and
``cancel`` clears up.
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

POLL = 0.02
SLOW_POLL = 0.1
PORTS = 200
SWITCHOVER = "pause-before-switchover"


class _Job(msgspec.Struct):
    device: str
    length: int = msgspec.field(name="len")
    offset: int
    ready: bool = False


class Mirrors:
    """The copies that are under way at this node."""

    def __init__(self, runtime: interface.Runtime, known: guest_records.Guests, ends: migration.Migration) -> None:
        self._clock = runtime.clock
        self._guests = known
        self._ends = ends
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, str] = {}

    async def export(self, record: guest_records.Record, *, address: str, port: int) -> int:
        """Let the target take copies of disks; return the port, at or above ``port``, that it listens on."""
        async with self._guests.control(record.name) as control, timeout(qmp.ANSWER_LIMIT):
            port = await _serve(control, address, port)
            for disk in record.machine().disks:
                name = guest_slots.disk_name(disk)
                export = {"type": "nbd", "id": f"copy-{name}", "node-name": name, "name": name, "writable": True}
                await control.execute("block-export-add", export)
        return port

    def forget(self, name: str) -> None:
        """Forget how an earlier attempt failed."""
        self._failed.pop(name, None)

    def begin(self, record: guest_records.Record, reception: calls.Reception, *, live: bool, speed: int) -> None:
        """Begin to copy the disks of a guest, ``speed`` bytes of each a second, and to send it afterwards."""
        work = self._run(record, reception, live=live, speed=speed)
        self._tasks[record.name] = asyncio.get_running_loop().create_task(work)

    def running(self, name: str) -> bool:
        """Tell whether a guest's disks are being copied, or the guest sent after them."""
        task = self._tasks.get(name)
        return task is not None and not task.done()

    async def status(self, name: str, *, wait: float) -> calls.MigrationStatus | None:
        """Return how far the copies are, after ``wait`` seconds or as soon as it is over; None without any."""
        limit = self._clock.monotonic() + wait
        while self.running(name) and self._clock.monotonic() < limit:
            await self._clock.sleep(POLL)
        if name in self._failed:
            return calls.MigrationStatus(status="failed", reason=self._failed[name])
        if not self.running(name):
            return None
        async with self._guests.control(name) as control:
            answer, found = await migration.ask(control), await _jobs(control)
        if found and answer.told().status != "active":
            done, total = (sum(sizes) for sizes in zip(*((job.offset, job.length) for job in found), strict=True))
            return calls.MigrationStatus(status="mirroring", transferred=done, total=total, remaining=total - done)
        return calls.MigrationStatus(status="mirroring") if answer.told().final else answer.told()

    async def cancel(self, name: str) -> None:
        """Give the copies up."""
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
            await self._ends.send(record.name, reception, live=live)
            await self._switch(record)
        except errors.GantryError as error:
            self._failed[record.name] = error.message
            with contextlib.suppress(errors.GantryError):  # QEMU may have ended, and all that with it
                await self._ends.cancel(record.name)
                await self._close(record, force=True)

    async def _copy(self, record: guest_records.Record, reception: calls.Reception, *, speed: int) -> None:
        async with self._guests.control(record.name) as control, timeout(qmp.ANSWER_LIMIT):
            await migration.set_capabilities(control, SWITCHOVER)
            for disk in record.machine().disks:
                name = guest_slots.disk_name(disk)
                await control.connect(
                    _job(name), host=reception.host, port=reception.disk_port, patience=migration.LOST_AFTER
                )
                await control.execute("blockdev-add", _remote(name))
                await control.execute(
                    "blockdev-mirror",
                    {
                        "job-id": _job(name), "device": name, "target": _copy_name(name),
                        "sync": "full", "copy-mode": "write-blocking", "speed": speed,
                    },
                )  # fmt: skip
        while not all(job.ready for job in await self._jobs(record)):
            await self._clock.sleep(SLOW_POLL)

    async def _jobs(self, record: guest_records.Record) -> list[_Job]:
        """Return the copies, of which none may be missing."""
        async with self._guests.control(record.name) as control:
            found = await _jobs(control)
        if len(found) != len(record.machine().disks):
            raise errors.HypervisorError(f"instance {record.name}: a copy of its disks broke off")
        return found

    async def _switch(self, record: guest_records.Record) -> None:
        """Wait until the guest stands still, close the copies, let the rest of it go."""
        while (answer := await self._answer(record.name)).status not in ("pre-switchover", *migration.FINAL):
            await self._clock.sleep(POLL)
        if answer.status == "pre-switchover":
            await self._close(record, force=False)
            async with self._guests.control(record.name) as control, timeout(qmp.ANSWER_LIMIT):
                await control.execute("migrate-continue", {"state": "pre-switchover"})
            while (answer := await self._answer(record.name)).status not in migration.FINAL:
                await self._clock.sleep(POLL)
        if answer.status != "completed":
            raise errors.HypervisorError(f"instance {record.name}: {answer.reason or answer.status}")

    async def _answer(self, name: str) -> migration.Answer:
        async with self._guests.control(name) as control:
            return await migration.ask(control)

    async def _close(self, record: guest_records.Record, *, force: bool) -> None:
        """End the copies and forget where they went; without ``force`` the copies are whole afterwards."""
        async with self._guests.control(record.name) as control, timeout(qmp.ANSWER_LIMIT):
            for job in await _jobs(control):
                await control.execute("block-job-cancel", {"device": job.device, "force": force})
            while await _jobs(control):
                await self._clock.sleep(POLL)
            present = await control.block_nodes()
            for disk in record.machine().disks:
                copy = _copy_name(guest_slots.disk_name(disk))
                if copy in present:
                    await control.execute("blockdev-del", {"node-name": copy})
            off = [{"capability": SWITCHOVER, "state": False}]
            if (await migration.ask(control)).told().final:
                await control.execute("migrate-set-capabilities", {"capabilities": off})


def _job(disk: str) -> str:
    return f"copy-{disk}"


def _copy_name(disk: str) -> str:
    return f"{disk}-c"


def _remote(disk: str) -> Mapping[str, object]:
    server = {"type": "fd", "str": _job(disk)}
    file = {"driver": "nbd", "export": disk, "server": server, "tls-creds": migration.CREDENTIALS}
    return {"driver": "raw", "node-name": _copy_name(disk), "file": file}


async def _jobs(control: qmp.Connection) -> list[_Job]:
    async with timeout(qmp.ANSWER_LIMIT):
        return msgspec.json.decode(await control.execute("query-block-jobs"), type=list[_Job])


async def _serve(control: qmp.Connection, address: str, first: int) -> int:
    """Start the NBD server on the first port that is free, and return it."""
    for port in range(first, first + PORTS):
        where = {"type": "inet", "data": {"host": address, "port": str(port)}}
        try:
            await control.execute("nbd-server-start", {"addr": where, "tls-creds": migration.CREDENTIALS})
        except errors.HypervisorError as error:
            if "in use" not in error.message:
                raise
        else:
            return port
    raise errors.HypervisorError(f"no port from {first} to {first + PORTS} is free at {address}")

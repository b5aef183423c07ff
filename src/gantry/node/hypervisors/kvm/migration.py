"""Live migration between two QEMU processes: what happens at the source and at the target.

The stream is encrypted by QEMU's own TLS with a secret that is made for this one migration (TLS-PSK): the target makes
it, the master carries it to the source over the calls, which the cluster's certificates protect. Who does not know it
gets neither in nor out.

What keeps a guest from running twice: QEMU at the target waits when the guest has arrived (``-S``), until
``finalize_target``; QEMU at the source is told by the target that all has arrived (``return-path``), or runs on. So the
guest stands still from the moment that it has left until somebody decides. ``kvm`` calls; what is known of a migration
is asked of QEMU each time, and so survives a restart of the daemon.

    <instances>/<name>/tls/keys.psk         the secret, while a migration is under way
"""

import contextlib
from asyncio import timeout

import msgspec
from msgspec import structs

from gantry import errors
from gantry.node.hypervisors.kvm import guest_records, qmp
from gantry.rpc import calls
from gantry.runtime import interface

POLL = 0.025
LOST_AFTER = 20.0
"""Seconds in which a target has to take something in; below ``qmp.ANSWER_LIMIT``, since QEMU may do nothing else."""

CANCEL_LIMIT = LOST_AFTER + 5.0
CHANNEL = "migration"
SECRET_BYTES = 32
USER = "gantry"
CREDENTIALS = "migration-tls"
# Ports that may be taken by other migrations to the same node.
PORTS = 200
MIB = 1 << 20
FINAL = ("completed", "failed", "cancelled")
ARRIVED, LEAVING, LEFT = "paused", "finish-migrate", "postmigrate"


class _Memory(msgspec.Struct):
    transferred: int = 0
    total: int = 0
    remaining: int = 0
    dirty_pages: int = msgspec.field(default=0, name="dirty-pages-rate")
    page: int = msgspec.field(default=4096, name="page-size")


class _Address(msgspec.Struct):
    port: str = ""


class Answer(msgspec.Struct):
    """QEMU's answer to ``query-migrate``; times are milliseconds."""

    status: str = "none"
    ram: _Memory = msgspec.field(default_factory=_Memory)
    downtime: int = 0
    expected: int = msgspec.field(default=0, name="expected-downtime")
    total_time: int = msgspec.field(default=0, name="total-time")
    reason: str = msgspec.field(default="", name="error-desc")
    addresses: list[_Address] = msgspec.field(default_factory=list, name="socket-address")

    def told(self) -> calls.MigrationStatus:
        """Return it as the master gets it."""
        if self.status == "none":
            return calls.MigrationStatus(status="none")
        return calls.MigrationStatus(
            status=self.status if self.status in FINAL else "active",
            transferred=self.ram.transferred,
            total=self.ram.total,
            remaining=self.ram.remaining,
            dirty_rate=self.ram.dirty_pages * self.ram.page,
            downtime=self.downtime or self.expected,
            seconds=self.total_time / 1000,
            reason=self.reason,
        )


async def ask(control: qmp.Connection) -> Answer:
    """Ask QEMU how far a migration is."""
    async with timeout(qmp.ANSWER_LIMIT):
        return msgspec.json.decode(await control.execute("query-migrate"), type=Answer)


async def set_capabilities(control: qmp.Connection, *names: str) -> None:
    """Switch capabilities on; HypervisorError for one that QEMU does not know."""
    wanted = [{"capability": name, "state": True} for name in names]
    await control.execute("migrate-set-capabilities", {"capabilities": wanted})


class Migration:
    """Commands to the QEMU processes of migrating guests."""

    def __init__(self, runtime: interface.Runtime, known: guest_records.Guests) -> None:
        self._clock = runtime.clock
        self._disk = runtime.disk
        self._random = runtime.random
        self._guests = known

    async def listen(self, instance: calls.Instance, *, address: str) -> calls.Reception:
        """Let a guest that was started ``incoming`` wait for its state, on the first free port from the wanted one."""
        secret = self._random.token(SECRET_BYTES).hex()
        host = f"[{address}]" if ":" in address else address
        port = int(instance.hvparams.get("migration_port", 8102))
        async with self._guests.control(instance.name) as control, timeout(qmp.ANSWER_LIMIT):
            await self._credentials(control, instance.name, secret, endpoint="server")
            await set_capabilities(control, "return-path", "late-block-activate", *_capabilities(instance))
            await control.execute("migrate-incoming", {"uri": f"tcp:{host}:{port},to={port + PORTS}"})
            answer = await ask(control)
        return calls.Reception(host=address, port=int(answer.addresses[0].port), secret=secret)

    async def _credentials(self, control: qmp.Connection, name: str, secret: str, *, endpoint: str) -> None:
        """Give QEMU the secret, in place of an earlier one."""
        folder = self._folder(name)
        await self._disk.make_directory(folder, mode=0o700)
        await self._disk.write(f"{folder}/keys.psk", f"{USER}:{secret}\n".encode(), mode=0o600, sync=False)
        await self._guests.hand_over(name)
        await self._withdraw(control)
        new = {"qom-type": "tls-creds-psk", "id": CREDENTIALS, "endpoint": endpoint, "dir": folder}
        await control.execute("object-add", new | ({"username": USER} if endpoint == "client" else {}))
        await control.execute("migrate-set-parameters", {"tls-creds": CREDENTIALS})

    async def _withdraw(self, control: qmp.Connection) -> None:
        # There may be none, and QEMU has no word of its own for that.
        with contextlib.suppress(errors.HypervisorError):
            await control.execute("object-del", {"id": CREDENTIALS})

    async def _stop_exports(self, control: qmp.Connection) -> None:
        # Only copies of disks (``storage_migration``) have come over exports; without them QEMU refuses.
        with contextlib.suppress(errors.HypervisorError):
            await control.execute("nbd-server-stop")

    def _folder(self, name: str) -> str:
        return f"{self._guests.files(name).folder}/tls"

    async def prepare(self, instance: calls.Instance, reception: calls.Reception) -> None:
        """Give the source what it needs to reach a target."""
        async with self._guests.control(instance.name) as control, timeout(qmp.ANSWER_LIMIT):
            await self._credentials(control, instance.name, reception.secret, endpoint="client")
            await set_capabilities(control, "return-path", *_capabilities(instance))
            limits = {
                "max-bandwidth": int(instance.hvparams.get("migration_bandwidth", 32)) * MIB,
                "downtime-limit": int(instance.hvparams.get("migration_downtime", 30)),
            }
            await control.execute("migrate-set-parameters", limits)

    async def send(self, name: str, reception: calls.Reception, *, live: bool) -> None:
        """Begin to send a guest, which stands still from now on unless ``live``."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_LIMIT):
            await control.connect(CHANNEL, host=reception.host, port=reception.port, patience=LOST_AFTER)
            if not live:
                await control.execute("stop")
            await control.execute("migrate", {"uri": f"fd:{CHANNEL}"})

    async def status(self, name: str, *, wait: float = 0.0) -> calls.MigrationStatus:
        """Return how far a guest is; after ``wait`` seconds, or as soon as that is final."""
        limit = self._clock.monotonic() + wait
        while True:
            async with self._guests.control(name) as control:
                told = (await ask(control)).told()
                standing = (await control.status()).status if told.status == "completed" else LEFT
            if standing == LEAVING:  # for a moment, after the end
                told = structs.replace(told, status="active")
            elif standing != LEFT:
                return calls.MigrationStatus(status="none")  # that was how it once came here
            if told.final or self._clock.monotonic() >= limit:
                return told
            await self._clock.sleep(POLL)

    async def cancel(self, name: str) -> calls.MigrationStatus:
        """Give the sending up and return how it ended."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_LIMIT):
            if not (await ask(control)).told().final:
                await control.execute("migrate_cancel")
        return await self.status(name, wait=CANCEL_LIMIT)

    async def has_left(self, name: str) -> bool:
        """Tell whether a guest's state is complete at the target, so that it will not go on here by itself."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_LIMIT):
            return (await control.status()).status == LEFT

    async def resume(self, name: str) -> None:
        """Let a guest go on here."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_LIMIT):
            if not (await control.status()).running:
                await control.execute("cont")
            await self._withdraw(control)
        await self._disk.remove_tree(self._folder(name))

    async def take_over(self, name: str) -> None:
        """Let a guest that has arrived go on here, and tell the network where it is; WrongStateError."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_LIMIT):
            status = await control.status()
            if not status.running:
                answer = await ask(control)
                if (status.status, answer.status) != (ARRIVED, "completed"):
                    raise errors.WrongStateError(
                        f"instance {name} has not arrived ({status.status}, migration {answer.status})",
                        hint="it goes on at the source; gnt-instance migrate --cleanup clears up",
                    )
                await self._stop_exports(control)
                await control.execute("cont")
                rounds = {"initial": 20, "max": 500, "rounds": 6, "step": 100}
                await control.execute("announce-self", rounds)
            await self._withdraw(control)
        await self._disk.remove_tree(self._folder(name))


def _capabilities(instance: calls.Instance) -> list[str]:
    """Return what the parameter ``migration_caps`` names; both ends need the same."""
    return [name for name in str(instance.hvparams.get("migration_caps", "")).split(":") if name]

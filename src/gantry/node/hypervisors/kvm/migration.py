"""Live migration between two QEMU processes: the steps at the source and at the target.

QEMU's own TLS encrypts the stream, with a secret for each migration (TLS-PSK). The target creates the secret, and the
master passes it to the source in the calls, which the cluster's certificates protect. A peer without the secret can
neither send nor receive.

A guest never runs twice: QEMU at the target keeps an arrived guest stopped (``-S``) until ``finalize_target``; QEMU at
the source continues the guest unless the target reports that all of it has arrived (``return-path``). So the guest is
stopped from the moment it has left until the master decides. ``driver`` calls it. The state of a migration is queried
from QEMU each time, and so survives a restart of the daemon.

    <instances>/<name>/tls/keys.psk         the secret, during a migration
"""

import contextlib
from asyncio import timeout

import msgspec
from msgspec import structs

from gantry import errors
from gantry.node.hypervisors.kvm import guest_records, qmp
from gantry.rpc import calls
from gantry.runtime import interface

POLL_SECONDS = 0.025
SEND_TIMEOUT_SECONDS = 20.0
"""In which a target must receive some data; below ``qmp.ANSWER_TIMEOUT_SECONDS``, since QEMU may block meanwhile."""

CANCEL_TIMEOUT_SECONDS = SEND_TIMEOUT_SECONDS + 5.0
CHANNEL = "migration"
SECRET_BYTES = 32
USER = "gantry"
CREDENTIALS = "migration-tls"
PORTS = 200
"""How many ports are tried; other migrations to the same node may use some of them."""
MIB = 1 << 20
FINAL = ("completed", "failed", "cancelled")
ARRIVED, MIGRATING, MIGRATED = "paused", "finish-migrate", "postmigrate"


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

    def progress(self) -> calls.MigrationStatus:
        """Return the answer in the form for the master."""
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
    """Query the progress of a migration."""
    async with timeout(qmp.ANSWER_TIMEOUT_SECONDS):
        return msgspec.json.decode(await control.execute("query-migrate"), type=Answer)


async def set_capabilities(control: qmp.Connection, *names: str) -> None:
    """Switch capabilities on; HypervisorError for a capability that QEMU does not support."""
    capabilities = [{"capability": name, "state": True} for name in names]
    await control.execute("migrate-set-capabilities", {"capabilities": capabilities})


class Migration:
    """The migrations of a node's guests, in both directions."""

    def __init__(self, runtime: interface.Runtime, guests: guest_records.Guests) -> None:
        self._clock = runtime.clock
        self._disk = runtime.disk
        self._random = runtime.random
        self._guests = guests

    async def listen(self, instance: calls.Instance, *, address: str) -> calls.Reception:
        """Let a guest that was started ``incoming`` listen, on the first free port from ``migration_port``."""
        secret = self._random.token(SECRET_BYTES).hex()
        host = f"[{address}]" if ":" in address else address
        port = int(instance.hvparams.get("migration_port", 8102))
        async with self._guests.control(instance.name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            await self._credentials(control, instance.name, secret, endpoint="server")
            await set_capabilities(control, "return-path", "late-block-activate", *_capabilities(instance))
            await control.execute("migrate-incoming", {"uri": f"tcp:{host}:{port},to={port + PORTS}"})
            answer = await ask(control)
        return calls.Reception(host=address, port=int(answer.addresses[0].port), secret=secret)

    async def _credentials(self, control: qmp.Connection, name: str, secret: str, *, endpoint: str) -> None:
        """Pass the secret to QEMU, in place of an earlier one."""
        folder = self._folder(name)
        await self._disk.make_directory(folder, mode=0o700)
        await self._disk.write(f"{folder}/keys.psk", f"{USER}:{secret}\n".encode(), mode=0o600, sync=False)
        await self._guests.chown(name)
        await self._delete_credentials(control)
        new = {"qom-type": "tls-creds-psk", "id": CREDENTIALS, "endpoint": endpoint, "dir": folder}
        await control.execute("object-add", new | ({"username": USER} if endpoint == "client" else {}))
        await control.execute("migrate-set-parameters", {"tls-creds": CREDENTIALS})

    async def _delete_credentials(self, control: qmp.Connection) -> None:
        # The object may not exist; QEMU has no distinct error class for that.
        with contextlib.suppress(errors.HypervisorError):
            await control.execute("object-del", {"id": CREDENTIALS})

    async def _stop_exports(self, control: qmp.Connection) -> None:
        # There is an NBD server only if disks were copied (``storage_migration``); without a server QEMU refuses.
        with contextlib.suppress(errors.HypervisorError):
            await control.execute("nbd-server-stop")

    def _folder(self, name: str) -> str:
        return f"{self._guests.files(name).folder}/tls"

    async def prepare(self, instance: calls.Instance, reception: calls.Reception) -> None:
        """Set the source's secret, capabilities and limits for a migration to a target."""
        async with self._guests.control(instance.name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            await self._credentials(control, instance.name, reception.secret, endpoint="client")
            await set_capabilities(control, "return-path", *_capabilities(instance))
            limits = {
                "max-bandwidth": int(instance.hvparams.get("migration_bandwidth", 32)) * MIB,
                "downtime-limit": int(instance.hvparams.get("migration_downtime", 30)),
            }
            await control.execute("migrate-set-parameters", limits)

    async def send(self, name: str, reception: calls.Reception, *, live: bool) -> None:
        """Begin to send a guest, which is stopped first unless ``live``."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            await control.connect(
                CHANNEL, host=reception.host, port=reception.port, timeout_seconds=SEND_TIMEOUT_SECONDS
            )
            if not live:
                await control.execute("stop")
            await control.execute("migrate", {"uri": f"fd:{CHANNEL}"})

    async def status(self, name: str, *, wait: float = 0.0) -> calls.MigrationStatus:
        """Return the progress of a guest's migration after ``wait`` seconds, or as soon as the migration ends."""
        limit = self._clock.monotonic() + wait
        while True:
            async with self._guests.control(name) as control:
                progress = (await ask(control)).progress()
                guest_status = (await control.status()).status if progress.status == "completed" else MIGRATED
            if guest_status == MIGRATING:  # for a moment, after the end
                progress = structs.replace(progress, status="active")
            elif guest_status != MIGRATED:
                return calls.MigrationStatus(status="none")  # the migration by which the guest came to this node
            if progress.final or self._clock.monotonic() >= limit:
                return progress
            await self._clock.sleep(POLL_SECONDS)

    async def cancel(self, name: str) -> calls.MigrationStatus:
        """Cancel an outgoing migration and return how it ended."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            if not (await ask(control)).progress().final:
                await control.execute("migrate_cancel")
        return await self.status(name, wait=CANCEL_TIMEOUT_SECONDS)

    async def has_left(self, name: str) -> bool:
        """Return whether a guest's state is complete at the target, so that it does not continue here by itself."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            return (await control.status()).status == MIGRATED

    async def resume(self, name: str) -> None:
        """Let a guest continue here."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            if not (await control.status()).running:
                await control.execute("cont")
            await self._delete_credentials(control)
        await self._disk.remove_tree(self._folder(name))

    async def take_over(self, name: str) -> None:
        """Let a guest that has arrived continue here, and announce it to the network; WrongStateError."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            status = await control.status()
            if not status.running:
                answer = await ask(control)
                if (status.status, answer.status) != (ARRIVED, "completed"):
                    raise errors.WrongStateError(
                        f"instance {name} has not arrived ({status.status}, migration {answer.status})",
                        hint="it still runs on the source node; clean up with gnt-instance migrate --cleanup",
                    )
                await self._stop_exports(control)
                await control.execute("cont")
                schedule = {"initial": 20, "max": 500, "rounds": 6, "step": 100}
                await control.execute("announce-self", schedule)
            await self._delete_credentials(control)
        await self._disk.remove_tree(self._folder(name))


def _capabilities(instance: calls.Instance) -> list[str]:
    """Return the capabilities in the parameter ``migration_caps``; both ends need the same."""
    return [name for name in str(instance.hvparams.get("migration_caps", "")).split(":") if name]

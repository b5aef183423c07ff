"""The hypervisor ``kvm``: QEMU processes, commanded over QMP, with /dev/kvm or QEMU's own emulation.

Life of a guest: what a dead predecessor left is cleared, NICs are plugged, the record is written, QEMU is started and
must answer on its control socket. From then on it lives without the node daemon: ``guests`` tells what runs. It ends
by ``stop``, by itself, or by a crash; the next look at it notices, and takes its taps and files away.

Whoever changes a guest holds its lock. A look does not wait for that lock (a stop may take minutes): it then reports
what it can see without asking QEMU, which serves one client at a time.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from gantry import errors
from gantry.node import drivers, guests, hotplug, power, probe, qemu
from gantry.rpc import calls
from gantry.runtime import interface, paths

NAME = "kvm"
FILES = ("kvm_path", "kernel_path", "initrd_path", "cdrom_image_path")
LAST_LINES = 5
# Ctrl-] ends it, as with telnet.
SOCAT = ("socat", "-,raw,echo=0,escape=0x1d")


class Kvm:
    """The hypervisor ``kvm`` of one node; ``parts`` has the drivers of its disks and NICs."""

    def __init__(
        self,
        runtime: interface.Runtime,
        folders: paths.Paths,
        *,
        parts: drivers.Registry,
        accelerators: probe.Accelerators,
    ) -> None:
        self._runtime = runtime
        self._parts = parts
        self._accelerators = accelerators
        self._guests = guests.Guests(runtime, folders.instances)
        self._power = power.Power(runtime, self._guests)
        self._hotplug = hotplug.Hotplug(runtime, self._guests)
        self._logs = f"{folders.log}/{NAME}"
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def validate(self, hvparams: Mapping[str, calls.Value]) -> None:
        """Check that the files which parameters name are there, and that the accelerator works."""
        for parameter in FILES:
            path = str(hvparams.get(parameter, ""))
            if path and not self._runtime.disk.exists(path):
                raise errors.InvalidError(f"{parameter}: there is no file {path} on node {self._parts.node}")
        if hvparams.get("initrd_path") and not hvparams.get("kernel_path"):
            raise errors.InvalidError("initrd_path needs a kernel_path to go with it")
        await self._accelerators.choose(str(hvparams.get("accel", "auto")))

    async def start(self, instance: calls.Instance, *, paused: bool) -> None:
        """Start an instance unless it runs; nothing of it stays when that fails."""
        async with self._locks[instance.name]:
            if self._guests.pid(instance.name) is None:
                await self._start(instance, paused=paused)

    async def _start(self, instance: calls.Instance, *, paused: bool) -> None:
        await self.validate(instance.hvparams)
        files = self._guests.files(instance.name)
        qemu.check_folder(files)
        disks = tuple(self._parts.disk_path(disk) for disk in instance.disks)
        record = guests.Record(
            name=instance.name,
            uuid=instance.uuid,
            memory=int(instance.beparams["maxmem"]),
            vcpus=int(instance.beparams["vcpus"]),
            accelerator=await self._accelerators.choose(str(instance.hvparams.get("accel", "auto"))),
            ends_on_reboot=instance.hvparams.get("reboot_behavior") == "exit",
            hotplug=qemu.can_hotplug(instance),
        )
        await self._clear(instance.name)
        try:
            for nic in instance.nics:
                tap = await self._parts.nic(nic.mode).plug(instance, nic)
                record = record.with_nic(nic, tap, device=qemu.nic_name(nic))
                await self._guests.remember(record)
            await self._guests.remember(record)
            taps = tuple(nic.interface for nic in record.nics)
            await self._launch(qemu.Machine(instance, record.accelerator, files, disks=disks, taps=taps, paused=paused))
        except errors.GantryError:
            await self._clear(instance.name)
            raise

    async def _launch(self, machine: qemu.Machine) -> None:
        """Start QEMU and return when it answers; HypervisorError with what it said."""
        name, disk = machine.instance.name, self._runtime.disk
        await disk.make_directory(self._logs)
        log = f"{self._logs}/{name}.log"
        before = disk.status(log).size if disk.exists(log) else 0
        pid = await self._runtime.processes.start(qemu.arguments(machine), environment=None, log=log)
        try:
            await self._power.wait_until_up(name, pid)
        except errors.HypervisorError as error:
            await self._power.kill(name, pid)
            said = disk.read(log)[before:].decode(errors="replace").strip().splitlines()[-LAST_LINES:]
            raise errors.HypervisorError(
                f"{error.message}: {'; '.join(said) or 'it said nothing'}",
                hint=f"its log is {log} on node {self._parts.node}",
            ) from None

    async def _clear(self, name: str) -> None:
        """Take away the NICs and files of a guest that does not run."""
        record = self._guests.record(name)
        for nic in record.nics if record else ():
            await self._parts.nic(nic.mode).unplug(nic.interface)
        await self._guests.forget(name)

    async def stop(self, name: str, *, timeout: float) -> None:
        """Press the power button for ``timeout`` seconds, then end QEMU, then kill it."""
        async with self._locks[name]:
            pid = self._guests.pid(name)
            if pid is not None:
                await self._power.off(name, pid, timeout=timeout)
            await self._clear(name)

    async def reboot(self, name: str, *, kind: str, timeout: float) -> None:
        """Restart the guest inside its QEMU: ``soft`` lets it shut down first, ``hard`` is the reset button.

        A soft reboot of a guest that does not react becomes a hard one after ``timeout`` seconds.
        """
        async with self._locks[name]:
            await self._power.reset(self._running(name), patience=timeout if kind == "soft" else 0.0)

    async def plug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Make a tap and plug it in; nothing of it stays when that fails."""
        async with self._locks[instance.name]:
            record, driver, device = self._running(instance.name), self._parts.nic(nic.mode), qemu.nic_name(nic)
            known = record.plug(driver.interface_name(nic))
            if known and await self._hotplug.has(record.name, known.device):
                return
            tap = await driver.plug(instance, nic)
            try:
                await self._guests.remember(record.with_nic(nic, tap, device=device))
                await self._hotplug.plug(record.name, device, tap=tap, mac=nic.mac, model=qemu.nic_model(instance))
            except errors.GantryError:
                await driver.unplug(tap)
                await self._guests.remember(record.without(tap))
                raise

    async def unplug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Take a NIC out of the guest, then its tap away; a guest that does not run has none."""
        async with self._locks[instance.name]:
            if self._guests.pid(instance.name) is None:
                return
            record = self._running(instance.name)
            known = record.plug(self._parts.nic(nic.mode).interface_name(nic))
            if known is None:
                return
            await self._hotplug.unplug(record.name, known.device)
            await self._parts.nic(known.mode).unplug(known.interface)
            await self._guests.remember(record.without(known.interface))

    async def update_nic(self, instance: calls.Instance, nic: calls.Nic) -> bool:
        """Connect the tap anew and remember it; the guest does not notice."""
        async with self._locks[instance.name]:
            driver, record = self._parts.nic(nic.mode), self._running(instance.name)
            known = record.plug(driver.interface_name(nic))
            if known is None:
                return False
            await driver.update(instance, nic)
            await self._guests.remember(record.with_nic(nic, known.interface, device=known.device))
            return True

    def _running(self, name: str) -> guests.Record:
        record = self._guests.record(name)
        if record is None or self._guests.pid(name) is None:
            raise errors.HypervisorError(f"instance {name} does not run on node {self._parts.node}")
        return record

    async def info(self, name: str) -> calls.RunningInstance | None:
        """Describe a running instance; clears away what is left of one that died, writes an older record anew."""
        record, lock = self._guests.record(name), self._locks[name]
        if record is None:
            return None
        if self._guests.pid(name) is None:
            if not lock.locked():
                async with lock:
                    await self._clear(name)
            return None
        if record.version != guests.VERSION and not lock.locked():
            async with lock:
                await self._guests.remember(self._guests.record(name) or record)
        state = "running" if lock.locked() else await self._power.state(name)
        return calls.RunningInstance(
            name=name,
            uuid=record.uuid,
            hypervisor=NAME,
            memory=record.memory,
            vcpus=record.vcpus,
            state=state,
            accelerator=record.accelerator,
            hotplug=record.hotplug,
        )

    async def running(self) -> tuple[calls.RunningInstance, ...]:
        """List what runs."""
        found = await asyncio.gather(*(self.info(name) for name in self._guests.names()))
        return tuple(running for running in found if running is not None)

    async def console(self, name: str) -> calls.Console:
        """Return the command that connects a terminal to the serial console."""
        socket = self._guests.files(name).serial
        if self._guests.pid(name) is None:
            return _no_console(name, f"instance {name} does not run")
        if not self._runtime.disk.exists(socket):
            return _no_console(name, f"instance {name} was started without serial_console")
        try:
            await self._runtime.processes.run([SOCAT[0], "-V"])
        except FileNotFoundError:
            return _no_console(name, f"node {self._parts.node} has no socat: install the package socat there")
        command = (*SOCAT, f"UNIX-CONNECT:{socket}")
        return calls.Console(instance=name, kind="socat", host=self._parts.node, command=command)

    async def verify(self) -> list[str]:
        """Complain when no accelerator works."""
        found = await self._accelerators.current()
        return [] if found.accelerator else [f"{NAME}: {found.reason}"]


def _no_console(name: str, message: str) -> calls.Console:
    return calls.Console(instance=name, kind="message", message=message)

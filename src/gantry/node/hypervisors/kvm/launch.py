"""Starts QEMU for a guest, and cleans up after a QEMU that has ended.

``driver`` calls it and holds the guest's lock, to start an instance or to receive an instance by a migration. The
machine is the same in both cases; an incoming machine's processors are stopped.
"""

import msgspec

from gantry import errors
from gantry.node import drivers
from gantry.node.hypervisors import guest_slots
from gantry.node.hypervisors.kvm import affinity, command_line, display_args, guest_records, power, requirements
from gantry.rpc import calls
from gantry.runtime import interface

NAME = "kvm"
LAST_LINES = 5
KILLED_MESSAGE = "terminating on signal"


class Launcher:
    """Starts and cleans up QEMU processes; ``logs`` is the folder of their logs."""

    def __init__(
        self,
        runtime: interface.Runtime,
        parts: drivers.Registry,
        *,
        guests: guest_records.Guests,
        guest_power: power.Power,
        logs: str,
    ) -> None:
        self._runtime = runtime
        self._drivers = parts
        self._guests = guests
        self._power = guest_power
        self._affinity = affinity.Affinity(runtime, guests)
        self._logs = logs

    async def run(self, record: guest_records.Record, *, paused: bool = False) -> None:
        """Plug the NICs of a machine, start QEMU and return when it answers; after a failure nothing remains."""
        instance, files = record.machine(), self._guests.files(record.name)
        command_line.check_folder(files)
        display_args.check(instance)
        disks = tuple(self._drivers.disk_path(disk) for disk in instance.disks)
        await self.clear(record.name)
        try:
            taps: list[str] = []
            for nic in instance.nics:
                taps.append(await self._drivers.nic(nic.mode).plug(instance, nic))
                record = record.with_nic(nic, taps[-1], device=guest_slots.nic_name(nic))
                await self._guests.write(record)
            await self._guests.write(record)
            machine = command_line.Machine(
                instance,
                record.accelerator,
                files,
                disks=disks,
                taps=tuple(taps),
                slots=record.slots,
                kind=record.kind,
                paused=paused,
                incoming=record.incoming,
            )
            await self._prepare(machine)
            await self._launch(machine)
        except errors.GantryError:
            await self.clear(record.name)
            raise

    async def _prepare(self, machine: command_line.Machine) -> None:
        """Create the files that QEMU needs."""
        disk, files = self._runtime.disk, machine.files
        if machine.text("firmware") == "uefi":
            variables = disk.read(requirements.variables_path(machine.text("firmware_path")))
            await disk.write(files.firmware, variables, mode=0o600, sync=False)
        if machine.flag("use_chroot"):
            await disk.make_directory(files.chroot)
        await self._guests.chown(machine.instance.name)

    async def _launch(self, machine: command_line.Machine) -> None:
        """Start QEMU and return when it answers; HypervisorError with the end of QEMU's output."""
        instance = machine.instance
        await self._runtime.disk.make_directory(self._logs)
        before = len(self._output(instance.name))
        processes = self._runtime.processes
        arguments = await processes.in_scope(instance.name, command_line.arguments(machine))
        pid = await processes.start(arguments, environment=None, log=self._log(instance.name))
        try:
            await self._power.wait_until_up(instance.name, pid)
            mask = machine.text("cpu_mask") or affinity.ALL
            await self._affinity.bind(instance.name, mask, pid=pid, vcpus=int(instance.beparams["vcpus"]))
        except errors.GantryError as error:
            await self._power.kill(instance.name, pid)
            if not isinstance(error, errors.HypervisorError):
                raise
            output = self._last_lines(instance.name, after=before)
            raise errors.HypervisorError(
                f"{error.message}: {output or 'no error message'}",
                hint=f"QEMU's log is {self._log(instance.name)} on node {self._drivers.node}",
            ) from None

    def _log(self, name: str) -> str:
        return f"{self._logs}/{name}.log"

    def _output(self, name: str) -> bytes:
        path = self._log(name)
        return self._runtime.disk.read(path) if self._runtime.disk.exists(path) else b""

    def _last_lines(self, name: str, *, after: int = 0) -> str:
        lines = self._output(name)[after:].decode(errors="replace").strip().splitlines()
        return "; ".join(lines[-LAST_LINES:])

    async def clear(self, name: str) -> None:
        """Unplug the NICs and remove the files of a guest that does not run."""
        await self._unplug(name)
        await self._guests.forget(name)

    async def _unplug(self, name: str) -> None:
        record = self._guests.record(name)
        for nic in record.nics if record else ():
            await self._drivers.nic(nic.mode).unplug(nic.interface)

    async def record_ending(self, record: guest_records.Record) -> calls.Ending:
        """Clean up after a guest that ended by itself, record how it ended, and return that."""
        last_line = self._last_lines(record.name).rpartition("; ")[2]
        regular = self._guests.exited_regularly(record.name)
        how = "shutdown" if regular and KILLED_MESSAGE not in last_line else "crashed"
        if not regular and record.instance and record.instance.hvparams.get("use_chroot"):
            how = "unknown"  # in its chroot QEMU cannot remove its PID file
        ending = calls.Ending(
            name=record.name,
            uuid=record.uuid,
            hypervisor=NAME,
            how=how,
            time=self._runtime.clock.now(),
            said=last_line if how == "crashed" else "",
        )
        await self._unplug(record.name)
        await self._guests.write_ending(ending)
        return ending


def record_of(instance: calls.Instance, *, accelerator: str, kind: str) -> guest_records.Record:
    """Return the record of an instance that is to start."""
    return guest_records.Record(
        name=instance.name,
        uuid=instance.uuid,
        memory=int(instance.beparams["maxmem"]),
        vcpus=int(instance.beparams["vcpus"]),
        accelerator=accelerator,
        ends_on_reboot=instance.hvparams.get("reboot_behavior") == "exit",
        hotplug=command_line.can_hotplug(instance),
        instance=instance,
        slots=guest_slots.assign(instance),
        kind=kind,
    )


def at_target(source: guest_records.Record, local: calls.Instance) -> guest_records.Record:
    """Return the record of an incoming guest: the machine of its source node, the disks and networks of this node."""
    machine = source.machine()
    disks = {disk.uuid: disk for disk in local.disks}
    nics = {nic.uuid: nic for nic in local.nics}
    instance = msgspec.structs.replace(
        machine,
        disks=tuple(disks.get(disk.uuid, disk) for disk in machine.disks),
        nics=tuple(msgspec.structs.replace(nics.get(nic.uuid, nic), mtu=nic.mtu) for nic in machine.nics),
        network_port=local.network_port,
    )
    return msgspec.structs.replace(source, instance=instance, nics=(), incoming=True)

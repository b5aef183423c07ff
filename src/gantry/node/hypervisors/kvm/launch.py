"""Starting QEMU for a guest, and taking away what one that is gone left behind.

``kvm`` calls, holding the guest's lock, to start an instance and to receive one that migrates; both are the same
machine, one with its processors waiting.
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
KILLED = "terminating on signal"


class Launcher:
    """The beginning and the end of QEMU processes; ``logs`` is the folder of what they say."""

    def __init__(
        self,
        runtime: interface.Runtime,
        parts: drivers.Registry,
        *,
        known: guest_records.Guests,
        buttons: power.Power,
        logs: str,
    ) -> None:
        self._runtime = runtime
        self._parts = parts
        self._guests = known
        self._power = buttons
        self._affinity = affinity.Affinity(runtime, known)
        self._logs = logs

    async def run(self, record: guest_records.Record, *, paused: bool = False) -> None:
        """Plug the NICs of a machine, start QEMU, return when it answers; nothing of it stays when that fails."""
        instance, files = record.machine(), self._guests.files(record.name)
        command_line.check_folder(files)
        display_args.check(instance)
        disks = tuple(self._parts.disk_path(disk) for disk in instance.disks)
        await self.clear(record.name)
        try:
            taps: list[str] = []
            for nic in instance.nics:
                taps.append(await self._parts.nic(nic.mode).plug(instance, nic))
                record = record.with_nic(nic, taps[-1], device=guest_slots.nic_name(nic))
                await self._guests.remember(record)
            await self._guests.remember(record)
            machine = command_line.Machine(
                instance,
                record.accelerator,
                files,
                disks=disks,
                taps=tuple(taps),
                places=record.places,
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
        """Make the files that QEMU wants to find."""
        disk, files = self._runtime.disk, machine.files
        if machine.text("firmware") == "uefi":
            fresh = disk.read(requirements.variables_path(machine.text("firmware_path")))
            await disk.write(files.firmware, fresh, mode=0o600, sync=False)
        if machine.flag("use_chroot"):
            await disk.make_directory(files.prison)
        await self._guests.hand_over(machine.instance.name)

    async def _launch(self, machine: command_line.Machine) -> None:
        """Start QEMU and return when it answers; HypervisorError with what it said."""
        instance = machine.instance
        await self._runtime.disk.make_directory(self._logs)
        before = len(self._said(instance.name))
        pid = await self._runtime.processes.start(
            command_line.arguments(machine), environment=None, log=self._log(instance.name)
        )
        try:
            await self._power.wait_until_up(instance.name, pid)
            mask = machine.text("cpu_mask") or affinity.ALL
            await self._affinity.bind(instance.name, mask, pid=pid, vcpus=int(instance.beparams["vcpus"]))
        except errors.GantryError as error:
            await self._power.kill(instance.name, pid)
            if not isinstance(error, errors.HypervisorError):
                raise
            said = self._last_lines(instance.name, after=before)
            raise errors.HypervisorError(
                f"{error.message}: {said or 'it said nothing'}",
                hint=f"its log is {self._log(instance.name)} on node {self._parts.node}",
            ) from None

    def _log(self, name: str) -> str:
        return f"{self._logs}/{name}.log"

    def _said(self, name: str) -> bytes:
        path = self._log(name)
        return self._runtime.disk.read(path) if self._runtime.disk.exists(path) else b""

    def _last_lines(self, name: str, *, after: int = 0) -> str:
        lines = self._said(name)[after:].decode(errors="replace").strip().splitlines()
        return "; ".join(lines[-LAST_LINES:])

    async def clear(self, name: str) -> None:
        """Take away the NICs and files of a guest that does not run."""
        await self._unplug(name)
        await self._guests.forget(name)

    async def _unplug(self, name: str) -> None:
        record = self._guests.record(name)
        for nic in record.nics if record else ():
            await self._parts.nic(nic.mode).unplug(nic.interface)

    async def bury(self, record: guest_records.Record) -> calls.Ending:
        """Clear away a guest that ended by itself, remember how it ended, and return that."""
        said = self._last_lines(record.name).rpartition("; ")[2]
        in_order = self._guests.left_in_order(record.name)
        how = "shutdown" if in_order and KILLED not in said else "crashed"
        if not in_order and record.instance and record.instance.hvparams.get("use_chroot"):
            how = "unknown"  # in its empty folder QEMU does not find its pid file
        ending = calls.Ending(
            name=record.name,
            uuid=record.uuid,
            hypervisor=NAME,
            how=how,
            time=self._runtime.clock.now(),
            said=said if how == "crashed" else "",
        )
        await self._unplug(record.name)
        await self._guests.note(ending)
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
        places=guest_slots.assign(instance),
        kind=kind,
    )


def at_target(sent: guest_records.Record, here: calls.Instance) -> guest_records.Record:
    """Return the record of a guest that comes from another node: the machine of there, disks and networks of here."""
    machine = sent.machine()
    disks = {disk.uuid: disk for disk in here.disks}
    nics = {nic.uuid: nic for nic in here.nics}
    instance = msgspec.structs.replace(
        machine,
        disks=tuple(disks.get(disk.uuid, disk) for disk in machine.disks),
        nics=tuple(msgspec.structs.replace(nics.get(nic.uuid, nic), mtu=nic.mtu) for nic in machine.nics),
        network_port=here.network_port,
    )
    return msgspec.structs.replace(sent, instance=instance, nics=(), incoming=True)

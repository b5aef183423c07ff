"""The files of a node's guests, from which a restarted daemon finds those that run.

    <instances>/<name>/
        record                          a Record in JSON, written before QEMU starts
        pid                             QEMU's process id, written by QEMU itself
        qmp serial monitor agent        sockets
        efi root tls                    UEFI's variables, the folder of use_chroot, the secret of a migration
        ended                           only this file, after a guest ended that ``stop`` did not stop (calls.Ending)

A guest runs if the process with that id was started with this PID file among its arguments. Otherwise the files are
those of a dead guest, and ``driver`` cleans them up. QEMU removes its PID file at a regular exit, so a remaining PID
file shows that the guest was killed.

A record has a version. Records of older versions are converted when they are read
(contracts/networks.md#configuration-objects). Before there were versions, a NIC had only mode and interface, and was
named by its index in QEMU. Version 1 had a single address for each NIC, as text. Version 2 did not have the machine, so
a guest from that time cannot be migrated. ``driver`` rewrites an older record when it next holds the guest's lock.
"""

import contextlib
from asyncio import timeout
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from gantry import errors
from gantry.node.hypervisors import guest_slots
from gantry.node.hypervisors.kvm import command_line, qmp
from gantry.rpc import calls
from gantry.runtime import interface

VERSION = 3


class Plug(msgspec.Struct, frozen=True, kw_only=True):
    """A plugged NIC: ``device`` is its name in QEMU, ``uuid`` is empty if an old record has none."""

    mode: str
    interface: str
    device: str
    uuid: str = ""
    mac: str = ""
    ip: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a running guest; ``version`` is that of the file from which it was read.

    ``memory`` is its present memory in MiB. ``instance`` is the machine with the changes since its start, ``slots`` are
    those of its devices (``hypervisors.guest_slots``), ``kind`` is its versioned machine type. A guest that is
    ``incoming`` waits for the end of a migration.
    """

    name: str
    uuid: str
    memory: int
    vcpus: int
    accelerator: str
    nics: tuple[Plug, ...] = ()
    ends_on_reboot: bool = False
    hotplug: bool = True
    instance: calls.Instance | None = None
    slots: dict[str, int] = msgspec.field(default_factory=dict, name="places")
    kind: str = ""
    incoming: bool = False
    version: int = VERSION

    def plug(self, interface: str) -> Plug | None:
        """Return the NIC with an interface."""
        return next((nic for nic in self.nics if nic.interface == interface), None)

    def with_nic(self, nic: calls.Nic, interface: str, *, device: str) -> "Record":
        """Return the record with a new or changed NIC; ``device`` is the NIC's name in QEMU.

        A NIC keeps the MTU with which it was plugged in, also after a migration: the guest reads it only then.
        """
        plugged = Plug(
            mode=nic.mode,
            interface=interface,
            device=device,
            uuid=nic.uuid,
            mac=nic.mac,
            ip=tuple(address.ip for address in nic.addresses),
        )
        other_nics = tuple(other for other in self.nics if other.interface != interface)
        changed = msgspec.structs.replace(self, nics=(*other_nics, plugged))
        if self.instance is None:
            return changed
        mtu = next((existing.mtu for existing in self.instance.nics if existing.uuid == nic.uuid), nic.mtu)
        nics = (*_without(self.instance.nics, nic.uuid), msgspec.structs.replace(nic, mtu=mtu))
        slots = guest_slots.with_nic(self.slots, self.instance, nic)
        return msgspec.structs.replace(changed, instance=msgspec.structs.replace(self.instance, nics=nics), slots=slots)

    def without_nic(self, interface: str) -> "Record":
        """Return the record without the NIC with an interface."""
        removed = self.plug(interface)
        if removed is None:
            return self
        remaining = tuple(nic for nic in self.nics if nic.interface != interface)
        changed = msgspec.structs.replace(self, nics=remaining)
        if self.instance is None:
            return changed
        instance = msgspec.structs.replace(self.instance, nics=_without(self.instance.nics, removed.uuid))
        slots = {name: slot for name, slot in self.slots.items() if name != f"nic-{removed.uuid}"}
        return msgspec.structs.replace(changed, instance=instance, slots=slots)

    def machine(self) -> calls.Instance:
        """Return the machine as it is now; WrongStateError if an older node daemon did not record it."""
        if self.instance is None:
            raise errors.WrongStateError(
                f"instance {self.name} was started by an older node daemon, which did not record its devices",
                hint="stop and start the instance once",
            )
        return self.instance

    @property
    def can_plug(self) -> bool:
        """Return whether devices can be plugged in; a confined QEMU cannot open what they need any more.

        In the empty folder of ``use_chroot`` it finds nothing, and only root may open the device of ``vhost_net``.
        """
        hvparams = self.instance.hvparams if self.instance else {}
        without_vhost = hvparams.get("security_model") == "user" and hvparams.get("vhost_net")
        return self.hotplug and not hvparams.get("use_chroot") and not without_vhost

    def with_disk(self, disk: calls.Disk) -> "Record":
        """Return the record with a new or changed disk."""
        instance = self.machine()
        disks = (*_without(instance.disks, disk.uuid), disk)
        return msgspec.structs.replace(
            self,
            instance=msgspec.structs.replace(instance, disks=disks),
            slots=guest_slots.with_disk(self.slots, instance, disk),
        )

    def without_disk(self, disk: calls.Disk) -> "Record":
        """Return the record without a disk."""
        instance, name = self.machine(), guest_slots.disk_name(disk)
        return msgspec.structs.replace(
            self,
            instance=msgspec.structs.replace(instance, disks=_without(instance.disks, disk.uuid)),
            slots={other: slot for other, slot in self.slots.items() if other != name},
        )


def _without(devices: Sequence[guest_slots.Device], uuid: str) -> tuple[guest_slots.Device, ...]:
    return tuple(device for device in devices if device.uuid != uuid)


def _upgraded(index: int, nic: object) -> object:
    """Return a NIC of an older record in the form of the current version."""
    if isinstance(nic, list):
        mode, interface = nic
        return {"mode": mode, "interface": interface, "device": f"nic{index}"}
    if isinstance(nic, Mapping) and isinstance(nic.get("ip"), str):
        return {**nic, "ip": [nic["ip"]] if nic["ip"] else []}
    return nic


def read(raw: bytes | str) -> Record:
    """Return a record of any version; ``version`` stays that of the file."""
    stored = msgspec.json.decode(raw, type=dict[str, object])
    version = stored.setdefault("version", 0)
    nics = stored.get("nics")
    if version != VERSION and isinstance(nics, list):
        stored["nics"] = [_upgraded(index, nic) for index, nic in enumerate(nics)]
    return msgspec.convert(stored, Record)


class Guests:
    """The guests of a node; ``folder`` is the node's folder of running instances."""

    def __init__(self, runtime: interface.Runtime, folder: str) -> None:
        self._disk = runtime.disk
        self._runtime = runtime
        self._processes = runtime.processes
        self._folder = folder

    def files(self, name: str) -> command_line.Sockets:
        """Return the paths of a guest's files."""
        return command_line.Sockets(f"{self._folder}/{name}")

    @contextlib.asynccontextmanager
    async def control(self, name: str) -> AsyncIterator[qmp.Connection]:
        """Connect to a guest's QEMU; HypervisorError if QEMU does not answer, or not within the caller's timeout."""
        try:
            async with timeout(qmp.ANSWER_TIMEOUT_SECONDS):
                control = await qmp.connect(self._runtime, self.files(name).control, guest=name)
            async with control:
                yield control
        except OSError:  # a TimeoutError is an OSError too
            raise errors.HypervisorError(f"QEMU of instance {name} does not answer") from None

    def names(self) -> list[str]:
        """Return the names of the guests that have a record, including dead guests."""
        return self._with_file("record")

    def ended(self) -> list[str]:
        """Return the names of the guests that ended by themselves."""
        return self._with_file("ended")

    def _with_file(self, file: str) -> list[str]:
        if not self._disk.exists(self._folder):
            return []
        return [name for name in self._disk.names(self._folder) if self._disk.exists(f"{self._folder}/{name}/{file}")]

    def _record_path(self, name: str) -> str:
        return f"{self.files(name).folder}/record"

    def record(self, name: str) -> Record | None:
        """Return the record of a guest; None if there is none."""
        try:
            return read(self._disk.read(self._record_path(name)))
        except FileNotFoundError:
            return None

    async def write(self, record: Record) -> None:
        """Create the guest's folder and write its record, in the current version."""
        await self._disk.make_directory(self.files(record.name).folder, mode=0o700)
        current = msgspec.structs.replace(record, version=VERSION)
        await self._disk.write(self._record_path(record.name), msgspec.json.encode(current), sync=False)

    async def forget(self, name: str) -> None:
        """Remove all files of a guest."""
        await self._disk.remove_tree(self.files(name).folder)

    async def write_ending(self, ending: calls.Ending) -> None:
        """Replace all files of a guest by the record of how the guest ended."""
        folder = self.files(ending.name).folder
        await self._disk.remove_tree(folder)
        await self._disk.make_directory(folder, mode=0o700)
        await self._disk.write(f"{folder}/ended", msgspec.json.encode(ending), sync=False)

    def ending(self, name: str) -> calls.Ending | None:
        """Return how a guest ended; None if there is no record of that."""
        try:
            return msgspec.json.decode(self._disk.read(f"{self.files(name).folder}/ended"), type=calls.Ending)
        except FileNotFoundError:
            return None

    def user(self, name: str) -> str:
        """Return the user that a guest's QEMU runs as; empty for the daemon's user."""
        record = self.record(name)
        hvparams = record.instance.hvparams if record and record.instance else {}
        return str(hvparams.get("security_domain", "")) if hvparams.get("security_model") == "user" else ""

    async def chown(self, name: str) -> None:
        """Make the user of a guest's QEMU the owner of the guest's files."""
        if user := self.user(name):
            await self._chown(self.files(name).folder, user, "-R")

    async def admit(self, name: str, path: str) -> None:
        """Let the user of a guest's QEMU open a disk: at its start QEMU opens the disks before it becomes that user."""
        if (user := self.user(name)) and self._disk.exists(path):
            await self._chown(path, user)

    async def _chown(self, path: str, user: str, *options: str) -> None:
        process = await self._processes.run(["chown", *options, "--", user, path])
        if process.code:
            reason = process.stderr.decode().strip()
            raise errors.EnvironmentFaultError(f"the owner of {path} cannot be changed to user {user}: {reason}")

    def pid(self, name: str) -> int | None:
        """Return the process id of a running guest; None if it does not run."""
        try:
            pid = int(self._disk.read(self.files(name).pid))
        except (FileNotFoundError, ValueError):
            return None
        return pid if self.is_guest(name, pid) else None

    def exited_regularly(self, name: str) -> bool:
        """Return whether a guest's QEMU, which has ended, removed its PID file."""
        return not self._disk.exists(self.files(name).pid)

    def is_guest(self, name: str, pid: int) -> bool:
        """Return whether a process is this guest, also while QEMU ends and has already removed its PID file."""
        return self._processes.alive(pid) and self.files(name).pid in self._processes.command_line(pid)

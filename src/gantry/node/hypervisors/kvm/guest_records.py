"""The guests of a node as files, so that a restarted daemon finds those that run.

    <instances>/<name>/
        record                          a Record in JSON, written before QEMU starts
        pid                             QEMU's process id, written by QEMU itself
        qmp serial monitor agent        sockets
        efi root tls                    UEFI's variables, the folder of use_chroot, the secret of a migration
        ended                           alone: how a guest ended that nobody stopped (calls.Ending)

A guest runs when the process of that id was started with this very pid file in its arguments; everything else is the
remains of one that died, and ``kvm`` clears them away. QEMU removes its pid file when it ends in good order: a guest
whose pid file is left was killed.

A record has a version. Older ones are read all the same, as what they would be today
(contracts/networks.md#configuration-objects): before there was a version, a NIC was its mode and interface only, named
by its place in QEMU; version 1 knew one address for each NIC, as text; version 2 did not know the machine, so a guest
of that time cannot be migrated. ``kvm`` writes them anew when it next has the guest's lock.
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
    """A NIC that was plugged in: ``device`` is its name in QEMU, ``uuid`` is empty where an old record has none."""

    mode: str
    interface: str
    device: str
    uuid: str = ""
    mac: str = ""
    ip: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a running guest; ``version`` is that of the file it was read from.

    ``memory`` is what it has now. ``instance`` is the machine as it is, with what was plugged in since its start,
    ``places`` where its devices sit (``hypervisors.guest_slots``), ``kind`` its versioned machine type. One that is
    ``incoming`` waits for a migration's end.
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
    places: dict[str, int] = {}
    kind: str = ""
    incoming: bool = False
    version: int = VERSION

    def plug(self, interface: str) -> Plug | None:
        """Return the NIC on an interface."""
        return next((nic for nic in self.nics if nic.interface == interface), None)

    def with_nic(self, nic: calls.Nic, interface: str, *, device: str) -> "Record":
        """Return the record after a NIC was plugged in or changed; ``device`` is its name in QEMU.

        The guest keeps the MTU that it was told when the NIC came, and has to find it again where it migrates to.
        """
        plugged = Plug(
            mode=nic.mode,
            interface=interface,
            device=device,
            uuid=nic.uuid,
            mac=nic.mac,
            ip=tuple(address.ip for address in nic.addresses),
        )
        rest = tuple(other for other in self.nics if other.interface != interface)
        changed = msgspec.structs.replace(self, nics=(*rest, plugged))
        if self.instance is None:
            return changed
        seen = next((one.mtu for one in self.instance.nics if one.uuid == nic.uuid), nic.mtu)
        nics = (*_others(self.instance.nics, nic.uuid), msgspec.structs.replace(nic, mtu=seen))
        places = guest_slots.with_nic(self.places, self.instance, nic)
        return msgspec.structs.replace(
            changed, instance=msgspec.structs.replace(self.instance, nics=nics), places=places
        )

    def without(self, interface: str) -> "Record":
        """Return the record after the NIC on an interface was taken out."""
        gone = self.plug(interface)
        if gone is None:
            return self
        rest = tuple(nic for nic in self.nics if nic.interface != interface)
        changed = msgspec.structs.replace(self, nics=rest)
        if self.instance is None:
            return changed
        instance = msgspec.structs.replace(self.instance, nics=_others(self.instance.nics, gone.uuid))
        places = {name: place for name, place in self.places.items() if name != f"nic-{gone.uuid}"}
        return msgspec.structs.replace(changed, instance=instance, places=places)

    def machine(self) -> calls.Instance:
        """Return the machine as it is; WrongStateError when an older node daemon did not remember it."""
        if self.instance is None:
            raise errors.WrongStateError(
                f"instance {self.name} was started by an older node daemon, which did not remember its devices",
                hint="stop and start it once",
            )
        return self.instance

    def with_disk(self, disk: calls.Disk) -> "Record":
        """Return the record after a disk was plugged in or changed."""
        instance = self.machine()
        disks = (*_others(instance.disks, disk.uuid), disk)
        return msgspec.structs.replace(
            self,
            instance=msgspec.structs.replace(instance, disks=disks),
            places=guest_slots.with_disk(self.places, instance, disk),
        )

    def without_disk(self, disk: calls.Disk) -> "Record":
        """Return the record after a disk was taken out."""
        instance, name = self.machine(), guest_slots.disk_name(disk)
        return msgspec.structs.replace(
            self,
            instance=msgspec.structs.replace(instance, disks=_others(instance.disks, disk.uuid)),
            places={other: place for other, place in self.places.items() if other != name},
        )


def _others(devices: Sequence[guest_slots.Device], uuid: str) -> tuple[guest_slots.Device, ...]:
    return tuple(device for device in devices if device.uuid != uuid)


def _upgraded(place: int, nic: object) -> object:
    """Return a NIC of an older record in today's form."""
    if isinstance(nic, list):
        mode, interface = nic
        return {"mode": mode, "interface": interface, "device": f"nic{place}"}
    if isinstance(nic, Mapping) and isinstance(nic.get("ip"), str):
        return {**nic, "ip": [nic["ip"]] if nic["ip"] else []}
    return nic


def read(raw: bytes | str) -> Record:
    """Read a record of any version; its ``version`` tells whether it has to be written anew."""
    stored = msgspec.json.decode(raw, type=dict[str, object])
    version = stored.setdefault("version", 0)
    nics = stored.get("nics")
    if version != VERSION and isinstance(nics, list):
        stored["nics"] = [_upgraded(place, nic) for place, nic in enumerate(nics)]
    return msgspec.convert(stored, Record)


class Guests:
    """The guests of one node; ``folder`` is the node's folder of running instances."""

    def __init__(self, runtime: interface.Runtime, folder: str) -> None:
        self._disk = runtime.disk
        self._network = runtime.network
        self._processes = runtime.processes
        self._folder = folder

    def files(self, name: str) -> command_line.Sockets:
        """Return where a guest's files are."""
        return command_line.Sockets(f"{self._folder}/{name}")

    @contextlib.asynccontextmanager
    async def control(self, name: str) -> AsyncIterator[qmp.Connection]:
        """Connect to a guest's QEMU; HypervisorError when it does not answer, or does not within a caller's limit."""
        try:
            async with timeout(qmp.ANSWER_LIMIT):
                control = await qmp.connect(self._network, self.files(name).control, guest=name)
            async with control:
                yield control
        except OSError:  # a time limit is one too
            raise errors.HypervisorError(f"QEMU of instance {name} does not answer") from None

    def names(self) -> list[str]:
        """List the guests that left a record, dead ones among them."""
        return self._holding("record")

    def ended(self) -> list[str]:
        """List the guests that ended, and nobody stopped them."""
        return self._holding("ended")

    def _holding(self, file: str) -> list[str]:
        if not self._disk.exists(self._folder):
            return []
        return [name for name in self._disk.names(self._folder) if self._disk.exists(f"{self._folder}/{name}/{file}")]

    def _record_path(self, name: str) -> str:
        return f"{self.files(name).folder}/record"

    def record(self, name: str) -> Record | None:
        """Return what is remembered of a guest."""
        try:
            return read(self._disk.read(self._record_path(name)))
        except FileNotFoundError:
            return None

    async def remember(self, record: Record) -> None:
        """Make the guest's folder and write its record, in today's version."""
        await self._disk.make_directory(self.files(record.name).folder, mode=0o700)
        newest = msgspec.structs.replace(record, version=VERSION)
        await self._disk.write(self._record_path(record.name), msgspec.json.encode(newest), sync=False)

    async def forget(self, name: str) -> None:
        """Remove all files of a guest."""
        await self._disk.remove_tree(self.files(name).folder)

    async def note(self, ending: calls.Ending) -> None:
        """Remember how a guest ended, and nothing else of it."""
        folder = self.files(ending.name).folder
        await self._disk.remove_tree(folder)
        await self._disk.make_directory(folder, mode=0o700)
        await self._disk.write(f"{folder}/ended", msgspec.json.encode(ending), sync=False)

    def ending(self, name: str) -> calls.Ending | None:
        """Return how a guest ended."""
        try:
            return msgspec.json.decode(self._disk.read(f"{self.files(name).folder}/ended"), type=calls.Ending)
        except FileNotFoundError:
            return None

    def user(self, name: str) -> str:
        """Return the user that a guest's QEMU runs as; empty for the daemon's own."""
        record = self.record(name)
        hvparams = record.instance.hvparams if record and record.instance else {}
        return str(hvparams.get("security_domain", "")) if hvparams.get("security_model") == "user" else ""

    async def hand_over(self, name: str) -> None:
        """Let a guest's files belong to the user that its QEMU runs as."""
        user, folder = self.user(name), self.files(name).folder
        if not user:
            return
        done = await self._processes.run(["chown", "-R", user, folder])
        if done.code:
            raise errors.EnvironmentFaultError(f"{folder} cannot be given to {user}: {done.stderr.decode().strip()}")

    def pid(self, name: str) -> int | None:
        """Return the process of a running guest."""
        try:
            pid = int(self._disk.read(self.files(name).pid))
        except (FileNotFoundError, ValueError):
            return None
        return pid if self.is_guest(name, pid) else None

    def left_in_order(self, name: str) -> bool:
        """Tell whether a guest's QEMU, which is gone, took its pid file away."""
        return not self._disk.exists(self.files(name).pid)

    def is_guest(self, name: str, pid: int) -> bool:
        """Tell whether a process is this guest; QEMU removes the pid file a moment before it ends."""
        return self._processes.alive(pid) and self.files(name).pid in self._processes.command_line(pid)

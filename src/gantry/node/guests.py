"""The guests of a node as files, so that a restarted daemon finds those that run.

    <instances>/<name>/
        record                          a Record in JSON, written before QEMU starts
        pid                             QEMU's process id, written by QEMU itself
        qmp serial monitor              sockets

A guest runs when the process of that id was started with this very pid file in its arguments; everything else is the
remains of one that died, and ``kvm`` clears them away.

A record has a version. Older ones are read all the same, as what they would be today (networks seed "KVM runtime
files"): before there was a version, a NIC was its mode and interface only, named by its place in QEMU; version 1 knew
one address for each NIC, as text. ``kvm`` writes them anew when it next has the guest's lock.
"""

from collections.abc import Mapping

import msgspec

from gantry.node import qemu
from gantry.rpc import calls
from gantry.runtime import interface

VERSION = 2


class Plug(msgspec.Struct, frozen=True, kw_only=True):
    """A NIC that was plugged in: ``device`` is its name in QEMU, ``uuid`` is empty where an old record has none."""

    mode: str
    interface: str
    device: str
    uuid: str = ""
    mac: str = ""
    ip: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a running guest; ``version`` is that of the file it was read from."""

    name: str
    uuid: str
    memory: int
    vcpus: int
    accelerator: str
    nics: tuple[Plug, ...] = ()
    ends_on_reboot: bool = False
    hotplug: bool = True
    version: int = VERSION

    def plug(self, interface: str) -> Plug | None:
        """Return the NIC on an interface."""
        return next((nic for nic in self.nics if nic.interface == interface), None)

    def with_nic(self, nic: calls.Nic, interface: str, *, device: str) -> "Record":
        """Return the record after a NIC was plugged in or changed."""
        plugged = Plug(
            mode=nic.mode,
            interface=interface,
            device=device,
            uuid=nic.uuid,
            mac=nic.mac,
            ip=tuple(address.ip for address in nic.addresses),
        )
        return msgspec.structs.replace(self, nics=(*self.without(interface).nics, plugged))

    def without(self, interface: str) -> "Record":
        """Return the record after the NIC on an interface was taken out."""
        return msgspec.structs.replace(self, nics=tuple(nic for nic in self.nics if nic.interface != interface))


def _upgraded(place: int, nic: object) -> object:
    """Return a NIC of an older record in today's form."""
    if isinstance(nic, list):
        mode, interface = nic
        return {"mode": mode, "interface": interface, "device": f"nic{place}"}
    if isinstance(nic, Mapping) and isinstance(nic.get("ip"), str):
        return {**nic, "ip": [nic["ip"]] if nic["ip"] else []}
    return nic


def read(raw: bytes) -> Record:
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
        self._processes = runtime.processes
        self._folder = folder

    def files(self, name: str) -> qemu.Sockets:
        """Return where a guest's files are."""
        return qemu.Sockets(f"{self._folder}/{name}")

    def names(self) -> list[str]:
        """List the guests that left a record, dead ones among them."""
        if not self._disk.exists(self._folder):
            return []
        return [name for name in self._disk.names(self._folder) if self._disk.exists(self._record_path(name))]

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

    def pid(self, name: str) -> int | None:
        """Return the process of a running guest."""
        try:
            pid = int(self._disk.read(self.files(name).pid))
        except (FileNotFoundError, ValueError):
            return None
        return pid if self.is_guest(name, pid) else None

    def is_guest(self, name: str, pid: int) -> bool:
        """Tell whether a process is this guest; QEMU removes the pid file a moment before it ends."""
        return self._processes.alive(pid) and self.files(name).pid in self._processes.command_line(pid)

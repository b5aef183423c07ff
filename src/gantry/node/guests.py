"""The guests of a node as files, so that a restarted daemon finds those that run.

    <instances>/<name>/
        record                          a Record in JSON, written before QEMU starts
        pid                             QEMU's process id, written by QEMU itself
        qmp serial monitor              sockets

A guest runs when the process of that id was started with this very pid file in its arguments; everything else is the
remains of one that died, and ``kvm`` clears them away.
"""

import msgspec

from gantry.node import qemu
from gantry.runtime import interface


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a running guest; ``nics`` are mode and interface of what was plugged in for it."""

    name: str
    uuid: str
    memory: int
    vcpus: int
    accelerator: str
    nics: tuple[tuple[str, str], ...] = ()
    ends_on_reboot: bool = False


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
            return msgspec.json.decode(self._disk.read(self._record_path(name)), type=Record)
        except FileNotFoundError:
            return None

    async def remember(self, record: Record) -> None:
        """Make the guest's folder and write its record."""
        await self._disk.make_directory(self.files(record.name).folder, mode=0o700)
        await self._disk.write(self._record_path(record.name), msgspec.json.encode(record), sync=False)

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

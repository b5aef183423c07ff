"""A qcow2 file as the raw disk that is in it, for programs that know nothing of qcow2: OS scripts, copies.

    <run>/views/<disk uuid>         a file that reads and writes as the disk, while it is open
    <run>/views/<disk uuid>.pid     the process behind it

QEMU's storage daemon serves the file over FUSE. A guest cannot use the image at the same time: QEMU's lock sees to it.
"""

import signal

from gantry import errors
from gantry.node.storage import programs
from gantry.runtime import interface

PROGRAM = "qemu-storage-daemon"
# seconds, for what it has not written yet
PATIENCE = 60.0


class Views:
    """The views of one node; ``folder`` is where they are."""

    def __init__(self, runtime: interface.Runtime, folder: str) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._tools = programs.Programs(runtime)
        self._folder = folder

    async def open(self, name: str, path: str, *, image: str) -> str:
        """Show the image at ``path`` and return where; WrongStateError while a guest uses it."""
        view = f"{self._folder}/{name}"
        if self._pid(view):
            return view
        await self._disk.make_directory(self._folder)
        await self._disk.write(view, b"", mode=0o600, sync=False)
        done = await self._tools.run(
            PROGRAM, "--daemonize", "--pidfile", f"{view}.pid",
            "--blockdev", f"driver=file,node-name=file,filename={path.replace(',', ',,')}",
            "--blockdev", f"driver={image},node-name=disk,file=file",
            "--export", f"type=fuse,id=view,node-name=disk,mountpoint={view.replace(',', ',,')},writable=on",
            package="qemu-system-common",
        )  # fmt: skip
        if done.code:
            await self._disk.remove(view)
            where, said = f"{path} on node {self._runtime.host}", programs.said(done)
            if "lock" in said:
                raise errors.WrongStateError(f"{where} is in use", hint="stop its instance")
            raise errors.BlockDeviceError(f"{where} cannot be shown as a raw disk: {said}")
        return view

    async def close(self, name: str) -> None:
        """Take a view away; all that was written to it is then in the image."""
        view = f"{self._folder}/{name}"
        pid = self._pid(view)
        if pid:
            self._runtime.processes.signal(pid, signal.SIGTERM)
        deadline = self._runtime.clock.monotonic() + PATIENCE
        while self._pid(view):
            if self._runtime.clock.monotonic() > deadline:
                raise errors.BlockDeviceError(f"{PROGRAM} behind {view} on node {self._runtime.host} does not end")
            await self._runtime.clock.sleep(0.05)
        for file in (view, f"{view}.pid"):
            if self._disk.exists(file):
                await self._disk.remove(file)

    def _pid(self, view: str) -> int:
        """Return the process behind a view, 0 when there is none; it takes its record away a moment before it ends."""
        try:
            pid = int(self._disk.read(f"{view}.pid"))
        except (FileNotFoundError, ValueError):
            return 0
        processes = self._runtime.processes
        return pid if processes.command_line(pid)[:1] == [PROGRAM] and processes.alive(pid) else 0

"""Presents a qcow2 file as the raw disk in it (a view), for programs that cannot read qcow2: OS scripts, copies.

    <run>/views/<disk uuid>         a file with the content of the raw disk, while the view is open
    <run>/views/<disk uuid>.pid     the process that serves the view

QEMU's storage daemon serves the file over FUSE. A guest cannot use the image at the same time: QEMU locks it.
"""

import signal

from gantry import errors
from gantry.node.storage import programs
from gantry.runtime import interface

PROGRAM = "qemu-storage-daemon"
CLOSE_TIMEOUT_SECONDS = 60.0
"""For the storage daemon to write its remaining data and exit."""


class Views:
    """The views of a node, in ``folder``."""

    def __init__(self, runtime: interface.Runtime, folder: str) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._tools = programs.Programs(runtime)
        self._folder = folder

    async def open(self, name: str, path: str, *, image: str) -> str:
        """Open a view of the file ``path``, return the view's path; WrongStateError while a guest uses the file."""
        view = f"{self._folder}/{name}"
        if self._pid(view):
            return view
        await self._disk.make_directory(self._folder)
        await self._disk.write(view, b"", mode=0o600, sync=False)
        process = await self._tools.run(
            PROGRAM, "--daemonize", "--pidfile", f"{view}.pid",
            "--blockdev", f"driver=file,node-name=file,filename={path.replace(',', ',,')}",
            "--blockdev", f"driver={image},node-name=disk,file=file",
            "--export", f"type=fuse,id=view,node-name=disk,mountpoint={view.replace(',', ',,')},writable=on",
            package="qemu-system-common",
        )  # fmt: skip
        if process.code:
            await self._disk.remove(view)
            where, reason = f"{path} on node {self._runtime.host}", programs.failure_reason(process)
            if "lock" in reason:
                raise errors.WrongStateError(f"{where} is in use", hint="stop its instance")
            raise errors.BlockDeviceError(f"{where} cannot be exported as a raw disk: {reason}")
        return view

    async def close(self, name: str) -> None:
        """Close a view; when this returns, all data written to the view is in the image."""
        view = f"{self._folder}/{name}"
        pid = self._pid(view)
        if pid:
            self._runtime.processes.signal(pid, signal.SIGTERM)
        deadline = self._runtime.clock.monotonic() + CLOSE_TIMEOUT_SECONDS
        while self._pid(view):
            if self._runtime.clock.monotonic() > deadline:
                raise errors.BlockDeviceError(
                    f"{PROGRAM} for {view} on node {self._runtime.host} did not exit within "
                    f"{CLOSE_TIMEOUT_SECONDS:.0f} s"
                )
            await self._runtime.clock.sleep(0.05)
        for file in (view, f"{view}.pid"):
            if self._disk.exists(file):
                await self._disk.remove(file)

    def _pid(self, view: str) -> int:
        """Return the id of the process that serves a view, 0 if none runs.

        The process removes its PID file shortly before it exits.
        """
        try:
            pid = int(self._disk.read(f"{view}.pid"))
        except (FileNotFoundError, ValueError):
            return 0
        processes = self._runtime.processes
        return pid if processes.command_line(pid)[:1] == [PROGRAM] and processes.alive(pid) else 0

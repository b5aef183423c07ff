"""The programs of a simulated machine that read and write disks and files: ``dd``, ``cat``, ``cp``, OS scripts.

They copy a disk's data, which is a short text (``volumes.Volume.content``, or the content of a file). Nothing has the
size of a real disk.
"""

from collections.abc import Awaitable, Callable

from gantry.runtime import commands, simulated
from gantry.runtime.simulated import processes
from gantry.sim.hardware import mirrors, volumes

OS_NAME = "sample"
SCRIPTS = ("create", "export", "import", "rename")
FOLDER = "/bin"
PROGRAMS = ("dd", "cat", "gzip")
"""The programs for which nodes look before they begin a stream."""
SECONDS = 0.5

Transform = Callable[[processes.Invocation], Awaitable[commands.Completed]]


class Copying:
    """The programs of one machine."""

    def __init__(
        self, machine: simulated.SimulatedRuntime, *, group: volumes.Volumes, kernels: mirrors.Mirrors
    ) -> None:
        self._machine = machine
        self._group = group
        self._kernels = kernels

    def install(self, os_folder: str) -> None:
        """Add the programs, and those of the operating system ``sample`` in a folder."""
        programs: dict[str, Transform] = {
            "dd": self._dd,
            "cat": self._cat,
            "cp": self._clone,
            "gzip": self._pass_on,
            "truncate": self._truncate,
            "blockdev": self._succeed,
            f"{os_folder}/create": self._create,
            f"{os_folder}/rename": self._succeed,
            f"{os_folder}/export": self._export,
            f"{os_folder}/import": self._import,
        }
        self._machine.processes.programs.update(programs)

    def read(self, path: str) -> bytes:
        """Return the data of a device or file."""
        if path.startswith("/dev/drbd"):
            minor = self._kernels.minor(self._machine.host, int(path.removeprefix("/dev/drbd")))
            volume = self._kernels.volume(minor) if minor else None
            return volume.content if volume else b""
        if path.startswith("/dev/"):
            volume = self._group.at(path)
            return volume.content if volume else b""
        return self._machine.disk.read(path)[:64].rstrip(b"\0")

    async def write(self, path: str, data: bytes) -> bool:
        """Replace the data of a device or file; return whether it exists."""
        if path.startswith("/dev/drbd"):
            minor = self._kernels.minor(self._machine.host, int(path.removeprefix("/dev/drbd")))
            if minor is None or not minor.primary:
                return False
            self._kernels.write(minor, data)
        elif path.startswith("/dev/"):
            volume = self._group.at(path)
            if volume is None:
                return False
            volume.content = data
        else:
            await self._machine.disk.write(path, data)
        return True

    async def _dd(self, call: processes.Invocation) -> commands.Completed:
        words = dict(word.partition("=")[::2] for word in call.arguments[1:])
        await self._machine.clock.sleep(SECONDS)
        if source := words.get("if", ""):
            if source == "/dev/zero" and words.get("seek", "0") != "0":
                # Only a new part of the disk is wiped.
                return commands.Completed(0, b"", b"")
            data = b"" if source == "/dev/zero" else self.read(source)
            if "of" not in words:
                return commands.Completed(0, data, b"")
        else:
            data = call.stdin
        if not await self.write(words["of"], data):
            return commands.Completed(1, b"", f"dd: failed to open '{words['of']}': No such file or directory".encode())
        return commands.Completed(0, b"", b"")

    async def _cat(self, call: processes.Invocation) -> commands.Completed:
        return commands.Completed(0, self.read(call.arguments[-1]), b"")

    async def _clone(self, call: processes.Invocation) -> commands.Completed:
        """Copy a file, as on a file system that can share blocks."""
        source, copy = call.arguments[-2:]
        disk = self._machine.disk
        await disk.write(copy, self.read(source))
        await disk.lengthen(copy, disk.status(source).size)
        return commands.Completed(0, b"", b"")

    async def _pass_on(self, call: processes.Invocation) -> commands.Completed:
        return commands.Completed(0, call.stdin, b"")

    async def _truncate(self, call: processes.Invocation) -> commands.Completed:
        size = int(call.arguments[-2].removeprefix("--size=").removesuffix("M")) << 20
        await self._machine.disk.lengthen(call.arguments[-1], size)
        return commands.Completed(0, b"", b"")

    async def _succeed(self, call: processes.Invocation) -> commands.Completed:
        await self._machine.clock.sleep(SECONDS)
        return commands.Completed(0, b"", b"")

    async def _create(self, call: processes.Invocation) -> commands.Completed:
        await self._machine.clock.sleep(SECONDS)
        environment = call.environment
        for index in range(int(environment.get("DISK_COUNT", "0"))):
            await self.write(environment[f"DISK_{index}_PATH"], environment["INSTANCE_NAME"].encode())
        return commands.Completed(0, b"installed\n", b"")

    async def _export(self, call: processes.Invocation) -> commands.Completed:
        return commands.Completed(0, self.read(call.environment["EXPORT_DEVICE"]), b"exported\n")

    async def _import(self, call: processes.Invocation) -> commands.Completed:
        await self.write(call.environment["IMPORT_DEVICE"], call.stdin)
        return commands.Completed(0, b"", b"imported\n")

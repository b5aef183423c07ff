"""The system's programs, as the drivers of disks run them: what a missing one means, and what all block devices can do.

``lvm``, ``drbd``, ``file`` and ``external`` use it. Programs speak English here (``LC_ALL``), because their errors are
told apart by their words, and get nothing else of the daemon's environment.
"""

from gantry import errors
from gantry.runtime import commands, interface

ENVIRONMENT = {"PATH": "/sbin:/bin:/usr/sbin:/usr/bin", "LC_ALL": "C", "LVM_SUPPRESS_FD_WARNINGS": "1"}
MIB = 1 << 20
# seconds: udev on a loaded machine makes a volume in several
PATIENCE = 120.0
# seconds for a part of a disk that is written to, as long as the slowest disk may take for what one call asks
LONG = 3000.0


class Programs:
    """Runs programs of one node."""

    def __init__(self, runtime: interface.Runtime) -> None:
        self._processes = runtime.processes
        self._disk = runtime.disk
        self.node = runtime.host

    async def run(self, *arguments: str, package: str, timeout: float = PATIENCE) -> commands.Completed:
        """Run a program to its end, however it ends; EnvironmentFaultError names the package of a missing one."""
        try:
            return await self._processes.run(arguments, environment=ENVIRONMENT, timeout=timeout)
        except FileNotFoundError:
            raise errors.EnvironmentFaultError(
                f"node {self.node} has no program {arguments[0]}", hint=f"install the package {package} there"
            ) from None

    async def succeed(self, *arguments: str, package: str, timeout: float = PATIENCE) -> str:
        """Run a program and return what it wrote; BlockDeviceError with its own words when it fails."""
        done = await self.run(*arguments, package=package, timeout=timeout)
        if done.code:
            raise errors.BlockDeviceError(f"{arguments[0]} failed on node {self.node}: {said(done)}")
        return done.stdout.decode(errors="replace")

    async def set_mode(self, path: str, mode: str, *, number: str = "") -> None:
        """Let a block device be written to (``rw``), or not (``ro``); by its number it is seen whether it is so."""
        mark = f"/sys/dev/block/{number}/ro"
        if number and self._disk.exists(mark) and (self._disk.read(mark).strip() == b"1") == (mode == "ro"):
            return
        await self.succeed("blockdev", "--setro" if mode == "ro" else "--setrw", path, package="util-linux")

    async def size(self, path: str) -> int:
        """Return the size of a block device in MiB."""
        return int(await self.succeed("blockdev", "--getsize64", path, package="util-linux")) // MIB

    async def wipe(self, path: str, *, offset: int, size: int) -> None:
        """Overwrite ``size`` MiB of a block device with zeros, past all caches."""
        await self.succeed(
            "dd", "if=/dev/zero", f"of={path}", "bs=1M", f"seek={offset}", f"count={size}",
            "conv=notrunc,nocreat", "oflag=direct", "status=none",
            package="coreutils", timeout=LONG,
        )  # fmt: skip


def said(done: commands.Completed) -> str:
    """Return why a program failed, in its own words: its first line that is no warning."""
    lines = [line.strip() for line in (done.stderr or done.stdout).decode(errors="replace").splitlines()]
    telling = [line for line in lines if line and not line.startswith(("WARNING", "Rounding"))]
    return (telling or lines or [f"exit code {done.code}"])[0]

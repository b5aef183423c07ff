"""Runs system programs for the disk drivers: reports missing programs, and has the operations of all block devices.

``lvm``, ``drbd``, ``file`` and ``external`` use it. Programs run in English (``LC_ALL``), because drivers distinguish
their errors by the text, and receive nothing else of the daemon's environment.
"""

from gantry import errors
from gantry.runtime import commands, interface

ENVIRONMENT = {"PATH": "/sbin:/bin:/usr/sbin:/usr/bin", "LC_ALL": "C", "LVM_SUPPRESS_FD_WARNINGS": "1"}
MIB = 1 << 20
TIMEOUT_SECONDS = 120.0
"""For a program; udev on a loaded machine needs several seconds for a volume."""

DATA_TIMEOUT_SECONDS = 3000.0
"""For a program that writes data: what the slowest disk may need for the amount of one call."""


class Programs:
    """Runs the programs of a node."""

    def __init__(self, runtime: interface.Runtime) -> None:
        self._processes = runtime.processes
        self._disk = runtime.disk
        self._runtime = runtime

    @property
    def node(self) -> str:
        """Return the node's name."""
        return self._runtime.host

    async def run(
        self, *arguments: str, package: str, timeout: float = TIMEOUT_SECONDS, tracked: bool = False
    ) -> commands.Completed:
        """Run a program to its end and return its result, whatever its exit code; track one that writes data.

        EnvironmentFaultError if the program is not installed; the error names its package.
        """
        try:
            return await self._processes.run(arguments, environment=ENVIRONMENT, timeout=timeout, tracked=tracked)
        except FileNotFoundError:
            raise errors.EnvironmentFaultError(
                f"node {self.node} has no program {arguments[0]}", hint=f"install the package {package} there"
            ) from None

    async def succeed(
        self, *arguments: str, package: str, timeout: float = TIMEOUT_SECONDS, tracked: bool = False
    ) -> str:
        """Run a program and return its output; BlockDeviceError with the program's own message if it fails."""
        process = await self.run(*arguments, package=package, timeout=timeout, tracked=tracked)
        if process.code:
            raise errors.BlockDeviceError(f"{arguments[0]} failed on node {self.node}: {failure_reason(process)}")
        return process.stdout.decode(errors="replace")

    async def set_mode(self, path: str, mode: str, *, number: str = "") -> None:
        """Make a block device writable (``rw``) or read-only (``ro``).

        With its ``number`` (major:minor) nothing runs if the device already has the mode.
        """
        flag = f"/sys/dev/block/{number}/ro"
        if number and self._disk.exists(flag) and (self._disk.read(flag).strip() == b"1") == (mode == "ro"):
            return
        await self.succeed("blockdev", "--setro" if mode == "ro" else "--setrw", path, package="util-linux")

    async def size(self, path: str) -> int:
        """Return the size of a block device in MiB."""
        return int(await self.succeed("blockdev", "--getsize64", path, package="util-linux")) // MIB

    async def wipe(self, path: str, *, offset: int, size: int) -> None:
        """Overwrite ``size`` MiB of a block device with zeros, from ``offset`` MiB, bypassing all caches."""
        await self.succeed(
            "dd", "if=/dev/zero", f"of={path}", "bs=1M", f"seek={offset}", f"count={size}",
            "conv=notrunc,nocreat", "oflag=direct", "status=none",
            package="coreutils", timeout=DATA_TIMEOUT_SECONDS, tracked=True,
        )  # fmt: skip


def failure_reason(process: commands.Completed) -> str:
    """Return why a program failed, in its own words: the first line that is not a warning."""
    lines = [line.strip() for line in (process.stderr or process.stdout).decode(errors="replace").splitlines()]
    reasons = [line for line in lines if line and not line.startswith(("WARNING", "Rounding"))]
    return (reasons or lines or [f"exit code {process.code}"])[0]

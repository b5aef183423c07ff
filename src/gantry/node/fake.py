"""The fake hypervisor: instances that are files. For tests, benchmarks and trying things out.

    <instances>/fake/<name>      what runs, a RunningInstance in JSON

Starting writes the file, stopping removes it, so that what "runs" survives a restart of the node daemon as real
guests do. Nothing is synced: a machine that crashes loses its guests.
"""

from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.rpc import calls
from gantry.runtime import interface

NAME = "fake"


class Fake:
    """The hypervisor ``fake``; ``folder`` is the node's folder of running instances."""

    def __init__(self, disk: interface.Disk, folder: str) -> None:
        self._disk = disk
        self._folder = f"{folder}/{NAME}"

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    async def validate(self, hvparams: Mapping[str, calls.Value]) -> None:
        """Accept everything: the master has checked names and types."""

    async def start(self, instance: calls.Instance, *, paused: bool) -> None:
        """Write the instance's file unless it is there."""
        if await self.info(instance.name) is not None:
            return
        await self._disk.make_directory(self._folder)
        running = calls.RunningInstance(
            name=instance.name,
            uuid=instance.uuid,
            hypervisor=NAME,
            memory=int(instance.beparams.get("maxmem", 0)),
            vcpus=int(instance.beparams.get("vcpus", 0)),
            state="paused" if paused else "running",
        )
        await self._disk.write(self._path(instance.name), msgspec.json.encode(running), sync=False)

    async def stop(self, name: str, *, timeout: float) -> None:
        """Remove the instance's file."""
        if self._disk.exists(self._path(name)):
            await self._disk.remove(self._path(name))

    async def reboot(self, name: str, *, kind: str, timeout: float) -> None:
        """Do nothing to an instance that runs."""
        if await self.info(name) is None:
            raise errors.HypervisorError(f"instance {name} does not run", hint="start it")

    async def info(self, name: str) -> calls.RunningInstance | None:
        """Read the instance's file."""
        if not self._disk.exists(self._path(name)):
            return None
        return msgspec.json.decode(self._disk.read(self._path(name)), type=calls.RunningInstance)

    async def running(self) -> tuple[calls.RunningInstance, ...]:
        """Read all files."""
        names = self._disk.names(self._folder) if self._disk.exists(self._folder) else []
        found = [await self.info(name) for name in names if not name.startswith(".")]
        return tuple(running for running in found if running is not None)

    async def console(self, name: str) -> calls.Console:
        """Say that there is none."""
        return calls.Console(instance=name, kind="message", message="a fake instance has no console")

    async def verify(self) -> list[str]:
        """Return no complaints."""
        return []

"""The fake hypervisor: instances that are files. For tests, benchmarks and trying things out.

    <instances>/fake/<name>      what runs, a Guest in JSON

Starting writes the file, stopping removes it, so that what "runs" survives a restart of the node daemon as real
guests do. Nothing is synced: a machine that crashes loses its guests.
"""

from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.rpc import calls
from gantry.runtime import interface

NAME = "fake"


class Guest(msgspec.Struct, frozen=True):
    """A guest that pretends to run."""

    running: calls.RunningInstance
    nics: tuple[calls.Nic, ...] = ()


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
            hotplug=True,
        )
        await self._write(Guest(running, instance.nics))

    async def _write(self, guest: Guest) -> None:
        await self._disk.write(self._path(guest.running.name), msgspec.json.encode(guest), sync=False)

    def _guest(self, name: str) -> Guest | None:
        if not self._disk.exists(self._path(name)):
            return None
        return msgspec.json.decode(self._disk.read(self._path(name)), type=Guest)

    async def stop(self, name: str, *, timeout: float) -> None:
        """Remove the instance's file."""
        if self._disk.exists(self._path(name)):
            await self._disk.remove(self._path(name))

    async def reboot(self, name: str, *, kind: str, timeout: float) -> None:
        """Do nothing to an instance that runs."""
        self._needed(name)

    def _needed(self, name: str) -> Guest:
        guest = self._guest(name)
        if guest is None:
            raise errors.HypervisorError(f"instance {name} does not run", hint="start it")
        return guest

    async def plug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Add the NIC to the instance's file."""
        await self._write(_without(self._needed(instance.name), nic, nic))

    async def unplug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Take the NIC out of the instance's file."""
        guest = self._guest(instance.name)
        if guest is not None:
            await self._write(_without(guest, nic))

    async def update_nic(self, instance: calls.Instance, nic: calls.Nic) -> bool:
        """Replace the NIC in the instance's file."""
        guest = self._needed(instance.name)
        if nic.uuid not in {one.uuid for one in guest.nics}:
            return False
        await self._write(_without(guest, nic, nic))
        return True

    async def info(self, name: str) -> calls.RunningInstance | None:
        """Read the instance's file."""
        guest = self._guest(name)
        return guest.running if guest else None

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


def _without(guest: Guest, nic: calls.Nic, *instead: calls.Nic) -> Guest:
    rest = tuple(one for one in guest.nics if one.uuid != nic.uuid)
    return msgspec.structs.replace(guest, nics=(*rest, *instead))

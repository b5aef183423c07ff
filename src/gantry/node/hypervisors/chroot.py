"""The hypervisor ``chroot``: an instance is a folder tree on its first disk, with programs of the node's own kernel.

    <instances>/chroot/<name>/
        record          a Record in JSON
        root            where the first disk is mounted
        ended           alone: how an instance ended that nobody stopped (calls.Ending)

Starting mounts the disk and runs the parameter ``init_script`` inside, with the word ``start``; stopping runs it with
``stop``, and what still runs inside then is killed. It runs as long as its disk is mounted. Such an instance shares the
node's processors, memory and network: its NICs are nobody's, nothing is plugged in, and it cannot be moved while it
runs. That is little protection: an instance is as trustworthy as a user of the node who is root.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.node import drivers
from gantry.node.storage import programs
from gantry.rpc import calls
from gantry.runtime import interface, paths

NAME = "chroot"
MOUNTS = "/proc/self/mounts"
# seconds: what a script may take to start or stop an instance where the caller gives no time
SCRIPT_LIMIT = 60.0
FREE_LIMIT = 10.0
POLL = 0.1


class Record(msgspec.Struct, frozen=True):
    """An instance whose disk is mounted."""

    instance: calls.Instance


class Chroot:
    """The hypervisor ``chroot`` of one node; ``parts`` has the drivers of its disks."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, parts: drivers.Registry) -> None:
        self._clock = runtime.clock
        self._disk = runtime.disk
        self._tools = programs.Programs(runtime)
        self._parts = parts
        self._folder = f"{folders.instances}/{NAME}"
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def _root(self, name: str) -> str:
        return f"{self._folder}/{name}/root"

    def _mounted(self, name: str) -> bool:
        lines = self._disk.read(MOUNTS).decode(errors="replace").splitlines()
        return self._root(name) in {line.split(" ")[1] for line in lines}

    def _record(self, name: str) -> Record | None:
        try:
            return msgspec.json.decode(self._disk.read(f"{self._folder}/{name}/record"), type=Record)
        except FileNotFoundError:
            return None

    async def validate(self, hvparams: Mapping[str, calls.Value]) -> None:
        """Check that the init script is a path from the disk's root."""
        script = str(hvparams.get("init_script", ""))
        if not script.startswith("/") or ".." in script.split("/"):
            raise errors.InvalidError(f"init_script: {script!r} is no path from the root of the disk")

    async def start(self, instance: calls.Instance, *, paused: bool) -> None:
        """Mount the first disk and run the init script, unless it is mounted; nothing stays when that fails."""
        if paused:
            raise errors.WrongStateError(f"instance {instance.name} cannot start paused: {NAME} has no processors")
        async with self._locks[instance.name]:
            if self._mounted(instance.name):
                return
            await self.validate(instance.hvparams)
            if not instance.disks:
                raise errors.InvalidError(f"instance {instance.name} needs a disk: {NAME} runs what is on the first")
            await self._forget(instance.name)
            root = self._root(instance.name)
            await self._disk.make_directory(root, mode=0o700)
            record = msgspec.json.encode(Record(instance))
            await self._disk.write(f"{self._folder}/{instance.name}/record", record, sync=False)
            try:
                await self._mount(instance, root)
                await self._run_script(instance, "start", timeout=SCRIPT_LIMIT)
            except errors.GantryError:
                await self._end(instance.name)
                raise

    async def _mount(self, instance: calls.Instance, root: str) -> None:
        disk = instance.disks[0]
        path = self._parts.disk_path(disk)
        options = ",".join(("nodev", disk.mode, *(() if path.startswith("/dev/") else ("loop",))))
        await self._succeed(
            "mount", "-o", options, "--", path, root, what=f"disk 0 of instance {instance.name} cannot be mounted"
        )

    async def _run_script(self, instance: calls.Instance, word: str, *, timeout: float) -> None:
        script = str(instance.hvparams["init_script"])
        await self._succeed(
            "chroot", self._root(instance.name), script, word,
            what=f"{script} {word} of instance {instance.name} failed", timeout=timeout,
        )  # fmt: skip

    async def _succeed(self, *arguments: str, what: str, timeout: float = SCRIPT_LIMIT) -> None:
        package = "util-linux" if arguments[0] == "mount" else "coreutils"
        try:
            done = await self._tools.run(*arguments, package=package, timeout=timeout)
        except TimeoutError:
            raise errors.HypervisorError(f"{what} on node {self._parts.node}: no end within {timeout:.0f} s") from None
        if done.code:
            raise errors.HypervisorError(f"{what} on node {self._parts.node}: {programs.failure_reason(done)}")

    async def _end(self, name: str) -> None:
        """Kill what runs inside, unmount, forget; HypervisorError while something keeps the disk."""
        root, limit = self._root(name), self._clock.monotonic() + FREE_LIMIT
        while self._mounted(name):
            await self._tools.run("fuser", "-k", "-M", "-m", root, package="psmisc")
            done = await self._tools.run("umount", "--recursive", root, package="util-linux")
            if self._mounted(name):
                if self._clock.monotonic() >= limit:
                    raise errors.HypervisorError(
                        f"{root} on node {self._parts.node} stays: {programs.failure_reason(done)}"
                    )
                await self._clock.sleep(POLL)
        await self._forget(name)

    async def _forget(self, name: str) -> None:
        if self._mounted(name):  # what is below would be the disk's
            raise errors.HypervisorError(f"{self._root(name)} on node {self._parts.node} is mounted")
        await self._disk.remove_tree(f"{self._folder}/{name}")

    async def stop(self, name: str, *, timeout: float) -> None:
        """Run the init script with ``stop`` for ``timeout`` seconds, kill what is left, unmount."""
        async with self._locks[name]:
            record = self._record(name)
            if record is not None and self._mounted(name) and timeout > 0:
                with contextlib.suppress(errors.HypervisorError):  # it had its time; what is left is killed
                    await self._run_script(record.instance, "stop", timeout=timeout)
            await self._end(name)

    async def reboot(self, name: str, *, kind: str, timeout: float) -> None:
        """Run the init script with ``stop`` (not for ``hard``), kill what is left, run it with ``start``."""
        instance = self._running(name)
        await self.stop(name, timeout=timeout if kind == "soft" else 0.0)
        await self.start(instance, paused=False)

    def _running(self, name: str) -> calls.Instance:
        record = self._record(name)
        if record is None or not self._mounted(name):
            raise errors.HypervisorError(f"instance {name} does not run on node {self._parts.node}")
        return record.instance

    async def info(self, name: str) -> calls.RunningInstance | None:
        """Describe an instance; what is left of one whose disk somebody unmounted is cleared away."""
        record = self._record(name)
        if record is None:
            return None
        if not self._mounted(name):
            if not self._locks[name].locked():
                async with self._locks[name]:
                    await self._bury(name)
            return None
        return calls.RunningInstance(
            name=name,
            uuid=record.instance.uuid,
            hypervisor=NAME,
            memory=int(record.instance.beparams["maxmem"]),
            vcpus=int(record.instance.beparams["vcpus"]),
            state="running",
        )

    async def _bury(self, name: str) -> None:
        record = self._record(name)
        if record is None or self._mounted(name):
            return
        ending = calls.Ending(
            name=name, uuid=record.instance.uuid, hypervisor=NAME, how="unknown", time=self._clock.now()
        )
        await self._forget(name)
        await self._disk.make_directory(f"{self._folder}/{name}", mode=0o700)
        await self._disk.write(f"{self._folder}/{name}/ended", msgspec.json.encode(ending), sync=False)

    def _names(self) -> list[str]:
        return self._disk.names(self._folder) if self._disk.exists(self._folder) else []

    async def running(self) -> tuple[calls.RunningInstance, ...]:
        """List what runs."""
        found = [await self.info(name) for name in self._names()]
        return tuple(one for one in found if one is not None)

    async def endings(self) -> tuple[calls.Ending, ...]:
        """List instances whose disk somebody unmounted."""
        await self.running()
        files = [f"{self._folder}/{name}/ended" for name in self._names()]
        return tuple(
            msgspec.json.decode(self._disk.read(file), type=calls.Ending) for file in files if self._disk.exists(file)
        )

    async def console(self, name: str) -> calls.Console:
        """Tell how to get a shell inside."""
        try:
            self._running(name)
        except errors.HypervisorError as error:
            return calls.Console(instance=name, kind="message", message=error.message)
        return calls.Console(instance=name, kind=NAME, host=self._parts.node, command=("chroot", self._root(name)))

    async def verify(self) -> list[str]:
        """Return no complaints: the programs it needs are on every system."""
        return []

    async def memory(self) -> tuple[int, int] | None:
        """Return None."""
        return None

    def _refuse(self, name: str, what: str) -> errors.GantryError:
        self._running(name)
        return errors.HypervisorError(f"instance {name}: {NAME} cannot {what}")

    async def plug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Do nothing: it has the node's network."""
        del nic
        self._running(instance.name)

    async def unplug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Do nothing: it has the node's network."""

    async def update_nic(self, instance: calls.Instance, nic: calls.Nic) -> bool:
        """Return False: it runs without that NIC."""
        del nic
        self._running(instance.name)
        return False

    async def plug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Raise HypervisorError."""
        raise self._refuse(instance.name, f"show disk {disk.index} to what runs; it waits for the next start")

    async def unplug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Raise HypervisorError for the disk that it runs on; others it never had."""
        if self._mounted(instance.name) and self._running(instance.name).disks[0].uuid == disk.uuid:
            raise self._refuse(instance.name, "give up the disk that it runs on")

    async def resize_disk(self, instance: calls.Instance, disk: calls.Disk) -> bool:
        """Return False: the file system inside is its owner's to grow."""
        del disk
        self._running(instance.name)
        return False

    async def balloon(self, instance: calls.Instance, memory: int) -> int:
        """Raise HypervisorError: it has the node's memory."""
        raise self._refuse(instance.name, f"hold it to {memory} MiB")

    async def migration_info(self, instance: calls.Instance) -> str:
        """Raise WrongStateError."""
        self._running(instance.name)
        raise errors.WrongStateError(
            f"instance {instance.name} cannot be migrated: {NAME} has no memory of its own to send",
            hint=f"gnt-instance failover {instance.name} stops and starts it",
        )

    async def accept(self, instance: calls.Instance, info: str, *, address: str, mirror: bool) -> calls.Reception:
        """Raise WrongStateError."""
        del info, address, mirror
        raise errors.WrongStateError(f"instance {instance.name} cannot arrive: {NAME} does not migrate")

    async def migrate(self, instance: calls.Instance, reception: calls.Reception, *, live: bool) -> None:
        """Raise HypervisorError."""
        del reception, live
        raise self._refuse(instance.name, "migrate")

    async def migration_status(self, instance: calls.Instance, *, wait: float) -> calls.MigrationStatus:
        """Return that there is none."""
        del wait
        self._running(instance.name)
        return calls.MigrationStatus(status="none")

    async def cancel_migration(self, instance: calls.Instance) -> calls.MigrationStatus:
        """Return that there is none."""
        return await self.migration_status(instance, wait=0.0)

    async def finalize_source(self, instance: calls.Instance, *, success: bool) -> None:
        """Raise WrongStateError for ``success``: it has not left."""
        if success and self._mounted(instance.name):
            raise errors.WrongStateError(f"instance {instance.name} has not left node {self._parts.node}")

    async def finalize_target(self, instance: calls.Instance, *, success: bool) -> None:
        """Do nothing to what runs; HypervisorError for ``success`` without it."""
        if success:
            self._running(instance.name)

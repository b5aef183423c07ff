"""The hypervisor ``chroot``: an instance is a folder tree on its first disk, whose programs run on the node's kernel.

    <instances>/chroot/<name>/
        record          a Record in JSON
        root            the mount point of the first disk
        ended           only this file, after an instance ended that ``stop`` did not stop (calls.Ending)

Starting mounts the disk and runs the script in the parameter ``init_script`` inside, with the argument ``start``.
Stopping runs the script with ``stop``, then kills the processes that still run inside. An instance counts as running
while its disk is mounted. The instance shares the node's processors, memory and network: its NICs have no effect,
devices cannot be plugged in, and it cannot be migrated. The isolation is weak: trust an instance no more than a user
who is root on the node.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import msgspec

from gantry import errors
from gantry.node import drivers
from gantry.node.storage import programs
from gantry.rpc import calls
from gantry.runtime import bytestream, interface, paths

NAME = "chroot"
MOUNTS = "/proc/self/mounts"
SCRIPT_TIMEOUT_SECONDS = 60.0
"""For a program or the init script, unless the caller has a timeout of its own."""
UNMOUNT_TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.1


class Record(msgspec.Struct, frozen=True):
    """An instance whose disk was mounted to start the instance."""

    instance: calls.Instance


class Chroot:
    """The hypervisor ``chroot`` of a node; ``parts`` has the drivers of its disks."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, parts: drivers.Registry) -> None:
        self._clock = runtime.clock
        self._disk = runtime.disk
        self._tools = programs.Programs(runtime)
        self._processes = runtime.processes
        self._drivers = parts
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
        """Check that the init script is an absolute path inside the disk."""
        script = str(hvparams.get("init_script", ""))
        if not script.startswith("/") or ".." in script.split("/"):
            raise errors.InvalidError(f"init_script: {script!r} is not an absolute path inside the disk")

    async def start(self, instance: calls.Instance, *, paused: bool) -> None:
        """Mount the first disk and run the init script, unless the disk is mounted; undo everything after a failure."""
        if paused:
            raise errors.WrongStateError(f"instance {instance.name} cannot start paused: {NAME} has no processors")
        async with self._locks[instance.name]:
            if self._mounted(instance.name):
                return
            await self.validate(instance.hvparams)
            if not instance.disks:
                raise errors.InvalidError(
                    f"instance {instance.name} has no disk: {NAME} needs a first disk with the instance's system"
                )
            await self._forget(instance.name)
            root = self._root(instance.name)
            await self._disk.make_directory(root, mode=0o700)
            record = msgspec.json.encode(Record(instance))
            await self._disk.write(f"{self._folder}/{instance.name}/record", record, sync=False)
            try:
                await self._mount(instance, root)
                await self._run_script(instance, "start", timeout=SCRIPT_TIMEOUT_SECONDS)
            except errors.GantryError:
                await self._end(instance.name)
                raise

    async def _mount(self, instance: calls.Instance, root: str) -> None:
        disk = instance.disks[0]
        path = self._drivers.disk_path(disk)
        options = ",".join(("nodev", disk.mode, *(() if path.startswith("/dev/") else ("loop",))))
        await self._succeed(
            "mount", "-o", options, "--", path, root, failure=f"disk 0 of instance {instance.name} cannot be mounted"
        )

    async def _run_script(self, instance: calls.Instance, action: str, *, timeout: float) -> None:
        script = str(instance.hvparams["init_script"])
        arguments: Sequence[str] = ["chroot", self._root(instance.name), script, action]
        if action == "start":
            arguments = await self._processes.in_scope(instance.name, arguments)
        await self._succeed(
            *arguments, failure=f"{script} {action} of instance {instance.name} failed", timeout=timeout
        )

    async def _succeed(self, *arguments: str, failure: str, timeout: float = SCRIPT_TIMEOUT_SECONDS) -> None:
        package = "util-linux" if arguments[0] == "mount" else "coreutils"
        try:
            process = await self._tools.run(*arguments, package=package, timeout=timeout)
        except TimeoutError:
            raise errors.HypervisorError(
                f"{failure} on node {self._drivers.node}: timed out after {timeout:.0f} s"
            ) from None
        if process.code:
            raise errors.HypervisorError(f"{failure} on node {self._drivers.node}: {programs.failure_reason(process)}")

    async def _end(self, name: str) -> None:
        """Kill the processes inside, unmount the disk, delete the record; HypervisorError if the disk stays in use."""
        root, limit = self._root(name), self._clock.monotonic() + UNMOUNT_TIMEOUT_SECONDS
        while self._mounted(name):
            await self._tools.run("fuser", "-k", "-M", "-m", root, package="psmisc")
            process = await self._tools.run("umount", "--recursive", root, package="util-linux")
            if self._mounted(name):
                if self._clock.monotonic() >= limit:
                    raise errors.HypervisorError(
                        f"{root} on node {self._drivers.node} cannot be unmounted: {programs.failure_reason(process)}"
                    )
                await self._clock.sleep(POLL_SECONDS)
        await self._forget(name)

    async def _forget(self, name: str) -> None:
        if self._mounted(name):  # the files below would be those of the disk
            raise errors.HypervisorError(f"{self._root(name)} on node {self._drivers.node} is still mounted")
        await self._disk.remove_tree(f"{self._folder}/{name}")

    async def stop(self, name: str, *, timeout: float) -> None:
        """Run the init script with ``stop`` for ``timeout`` seconds, kill the remaining processes, unmount."""
        async with self._locks[name]:
            record = self._record(name)
            if record is not None and self._mounted(name) and timeout > 0:
                with contextlib.suppress(errors.HypervisorError):  # _end kills the remaining processes
                    await self._run_script(record.instance, "stop", timeout=timeout)
            await self._end(name)

    async def reboot(self, name: str, *, kind: str, timeout: float) -> None:
        """Run the init script with ``stop`` (except for ``hard``), kill the remaining processes, start again."""
        instance = self._running(name)
        await self.stop(name, timeout=timeout if kind == "soft" else 0.0)
        await self.start(instance, paused=False)

    def _running(self, name: str) -> calls.Instance:
        record = self._record(name)
        if record is None or not self._mounted(name):
            raise errors.HypervisorError(f"instance {name} does not run on node {self._drivers.node}")
        return record.instance

    async def info(self, name: str) -> calls.RunningInstance | None:
        """Describe an instance; clean up after an instance whose disk something else has unmounted."""
        record = self._record(name)
        if record is None:
            return None
        if not self._mounted(name):
            if not self._locks[name].locked():
                async with self._locks[name]:
                    await self._record_ending(name)
            return None
        return calls.RunningInstance(
            name=name,
            uuid=record.instance.uuid,
            hypervisor=NAME,
            memory=int(record.instance.beparams["maxmem"]),
            vcpus=int(record.instance.beparams["vcpus"]),
            state="running",
        )

    async def machine(self, name: str) -> calls.Instance | None:
        """Return the instance in the record."""
        record = self._record(name)
        return record.instance if record and self._mounted(name) else None

    async def _record_ending(self, name: str) -> None:
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

    async def running(self, names: Collection[str] | None = None) -> tuple[calls.RunningInstance, ...]:
        """Return the running instances, all or those of some names."""
        instances = [await self.info(name) for name in self._names() if names is None or name in names]
        return tuple(instance for instance in instances if instance is not None)

    async def endings(self) -> tuple[calls.Ending, ...]:
        """Return the endings of instances whose disk something else has unmounted."""
        await self.running()
        files = [f"{self._folder}/{name}/ended" for name in self._names()]
        return tuple(
            msgspec.json.decode(self._disk.read(file), type=calls.Ending) for file in files if self._disk.exists(file)
        )

    async def usage(self) -> tuple[calls.Usage, ...]:
        """Return none: its programs are among the node's own, which are not separated."""
        return ()

    async def console(self, name: str) -> calls.Console:
        """Return how to get a shell inside."""
        try:
            self._running(name)
        except errors.HypervisorError as error:
            return calls.Console(instance=name, kind="message", message=error.message)
        return calls.Console(instance=name, kind=NAME, host=self._drivers.node, command=("chroot", self._root(name)))

    async def connect_console(self, name: str, kind: str) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Raise WrongStateError: its console needs a terminal on the node."""
        self._running(name)
        raise errors.WrongStateError(
            f"instance {name}: a console of the hypervisor {NAME} needs a terminal", hint=f"gnt-instance console {name}"
        )

    async def verify(self) -> list[str]:
        """Return no faults: every system has the required programs."""
        return []

    async def memory(self) -> tuple[int, int] | None:
        """Return None: the node's kernel manages the memory."""
        return None

    def _unsupported(self, name: str, action: str) -> errors.GantryError:
        self._running(name)
        return errors.HypervisorError(f"instance {name}: {NAME} cannot {action}")

    async def plug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Do nothing: the instance uses the node's network."""
        del nic
        self._running(instance.name)

    async def unplug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Do nothing: the instance uses the node's network."""

    async def update_nic(self, instance: calls.Instance, nic: calls.Nic) -> bool:
        """Return False: the instance runs without NICs."""
        del nic
        self._running(instance.name)
        return False

    async def plug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Raise HypervisorError."""
        raise self._unsupported(
            instance.name, f"add disk {disk.index} while the instance runs; the disk is used from the next start"
        )

    async def unplug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Raise HypervisorError for the mounted disk; do nothing for other disks, which are not in use."""
        if self._mounted(instance.name) and self._running(instance.name).disks[0].uuid == disk.uuid:
            raise self._unsupported(instance.name, "remove the first disk while the instance runs")

    async def resize_disk(self, instance: calls.Instance, disk: calls.Disk) -> bool:
        """Return False: the instance's administrator grows the file system."""
        del disk
        self._running(instance.name)
        return False

    async def balloon(self, instance: calls.Instance, memory: int) -> int:
        """Raise HypervisorError: the instance uses the node's memory without a limit."""
        raise self._unsupported(instance.name, f"limit the memory to {memory} MiB")

    async def migration_info(self, instance: calls.Instance) -> str:
        """Raise WrongStateError."""
        self._running(instance.name)
        raise errors.WrongStateError(
            f"instance {instance.name} cannot be migrated: hypervisor {NAME} does not support migration",
            hint=f"use gnt-instance failover {instance.name}, which stops and starts it",
        )

    async def accept(self, instance: calls.Instance, info: str, *, address: str, mirror: bool) -> calls.Reception:
        """Raise WrongStateError."""
        del info, address, mirror
        raise errors.WrongStateError(
            f"instance {instance.name} cannot be migrated: hypervisor {NAME} does not support migration"
        )

    async def migrate(self, instance: calls.Instance, reception: calls.Reception, *, live: bool) -> None:
        """Raise HypervisorError."""
        del reception, live
        raise self._unsupported(instance.name, "migrate")

    async def migration_status(self, instance: calls.Instance, *, wait: float) -> calls.MigrationStatus:
        """Return that there is no migration."""
        del wait
        self._running(instance.name)
        return calls.MigrationStatus(status="none")

    async def cancel_migration(self, instance: calls.Instance) -> calls.MigrationStatus:
        """Return that there is no migration."""
        return await self.migration_status(instance, wait=0.0)

    async def finalize_source(self, instance: calls.Instance, *, success: bool) -> None:
        """Raise WrongStateError for ``success``, because the instance still runs here."""
        if success and self._mounted(instance.name):
            raise errors.WrongStateError(f"instance {instance.name} still runs on node {self._drivers.node}")

    async def finalize_target(self, instance: calls.Instance, *, success: bool) -> None:
        """Change nothing; HypervisorError for ``success`` if the instance does not run here."""
        if success:
            self._running(instance.name)

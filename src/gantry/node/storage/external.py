"""The disk type ``ext``: disks that a provider's scripts create, on storage that the cluster does not manage.

    <one of paths.storage_providers>/<provider>/
        create attach detach remove grow setinfo verify     mandatory, executable
        snapshot open close                                 optional; snapshots need the script ``snapshot``
        parameters.list                                     the scripts' parameters: on each line a name and a text

    <run>/external/<disk uuid>      the output of ``attach``: the device, and URIs for direct access by hypervisors

The logical id is (provider, volume). Scripts get these variables (contracts/external-storage.md#environment): VOL_NAME,
VOL_SIZE, VOL_NEW_SIZE, VOL_METADATA, VOL_CNAME, VOL_UUID, VOL_SNAPSHOT_NAME, VOL_SNAPSHOT_SIZE, and each parameter of
the disk as EXTP_<NAME>. ``attach`` prints the device's path. Scripts must be idempotent
(contracts/external-storage.md#scripts).
"""

import re
from collections.abc import Sequence

from gantry import errors
from gantry.node.storage import programs
from gantry.rpc import calls
from gantry.runtime import commands, interface, paths, retention

KIND = "ext"
MANDATORY = ("create", "attach", "detach", "remove", "grow", "setinfo", "verify")
OPTIONAL = ("snapshot", "open", "close")
CLUSTER_PARAMETERS = ("provider", "access")
"""Disk parameters for the cluster, which scripts do not receive."""
SCRIPT_TIMEOUT_SECONDS = 900.0
LAST_LINES = 5
"""How many lines of a failed script's output the error has, from its end."""
LOGS = 1000
"""How many log files of failed scripts a node keeps; it removes the oldest."""

_NAME = re.compile(r"(?!\.)[A-Za-z0-9_.-]+")
_VOLUME = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_.:/+@-]*")


class Providers:
    """The providers on a node; of several with the same name, the first on the search path is used."""

    def __init__(self, runtime: interface.Runtime, folders: Sequence[str]) -> None:
        self._disk = runtime.disk
        self._folders = folders
        self._runtime = runtime

    def diagnose(self) -> tuple[calls.Provider, ...]:
        """Return all providers, sorted by name, including those with problems."""
        providers: dict[str, calls.Provider] = {}
        for folder in self._folders:
            for name in self._disk.names(folder) if self._disk.exists(folder) else []:
                if name not in providers and self._disk.status(f"{folder}/{name}").is_directory:
                    providers[name] = self._read(f"{folder}/{name}")
        return tuple(providers[name] for name in sorted(providers))

    def find(self, name: str) -> calls.Provider:
        """Return a provider; NotFoundError, WrongStateError if it is not valid."""
        for folder in self._folders:
            if _NAME.fullmatch(name) and self._disk.exists(f"{folder}/{name}"):
                provider = self._read(f"{folder}/{name}")
                if provider.problem:
                    raise errors.WrongStateError(
                        f"storage provider {name} in {provider.path} on node {self._runtime.host} is not valid: "
                        + provider.problem
                    )
                return provider
        raise errors.NotFoundError(
            f"node {self._runtime.host} has no storage provider {name}",
            hint=f"install it in {' or '.join(self._folders)}",
        )

    def _read(self, path: str) -> calls.Provider:
        scripts = tuple(script for script in (*MANDATORY, *OPTIONAL) if self._disk.exists(f"{path}/{script}"))
        parameter_list = f"{path}/parameters.list"
        text = self._disk.read(parameter_list).decode(errors="replace") if self._disk.exists(parameter_list) else ""
        parameters = [line.strip().partition(" ") for line in text.splitlines() if line.strip()]
        return calls.Provider(
            name=path.rpartition("/")[2],
            path=path,
            problem=self._problem(path, scripts, parameter_list=parameter_list),
            parameters=tuple((name, description.strip()) for name, _, description in parameters),
            scripts=scripts,
        )

    def _problem(self, path: str, scripts: Sequence[str], *, parameter_list: str) -> str:
        missing = [script for script in MANDATORY if script not in scripts]
        if missing:
            return f"the script {missing[0]} is missing"
        if not self._disk.exists(parameter_list):
            return "parameters.list is missing"
        for script in scripts:
            status = self._disk.status(f"{path}/{script}")
            if status.is_directory or not status.mode & 0o111:
                return f"the script {script} is not executable"
        return ""


class External:
    """The disk type ``ext`` on a node."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, providers: Providers) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._attached = f"{folders.run}/external"
        self._log = f"{folders.log}/extstorage"
        self._providers = providers
        self._tools = programs.Programs(runtime)

    def logical_id(self, instance: str, uuid: str, *, index: int) -> str:
        """Return the name of a volume."""
        return f"{uuid}.ext.disk{index}"

    def path(self, disk: calls.Disk) -> str:
        """Return the path of the disk's device; WrongStateError if the disk is not attached to this node."""
        record = self._record(disk)
        if not self._disk.exists(record):
            raise errors.WrongStateError(
                f"disk {disk.index} is not attached to node {self._runtime.host}", hint="activate the instance's disks"
            )
        return self._disk.read(record).decode().partition("\n")[0]

    def _record(self, disk: calls.Disk) -> str:
        if not _NAME.fullmatch(disk.uuid):
            raise errors.InvalidError(f"{disk.uuid!r} is not a valid UUID of a disk")
        return f"{self._attached}/{disk.uuid}"

    async def choose_volumes(self, disks: Sequence[calls.Disk]) -> tuple[tuple[str, ...], ...]:
        """Return no physical volumes: the provider chooses."""
        return ((),) * len(disks)

    async def create(self, disk: calls.Disk, *, owner: str, on: Sequence[str] = ()) -> str:
        """Check the parameters, create the volume unless it exists with the same name and size, and attach it."""
        if disk.size <= 0:
            raise errors.InvalidError(f"disk {disk.index} of {owner}: a size of {disk.size} MiB is not possible")
        await self._run("verify", disk)
        existing = await self.find(disk)
        if existing and existing.size != disk.size:
            raise errors.ExistsError(
                f"disk {disk.index} of {owner}: {disk.logical_id[1]} exists already on node {self._runtime.host}"
            )
        if existing is None:
            await self._run("create", disk, VOL_SIZE=str(disk.size))
        await self.set_info(disk, owner)
        return await self._attach(disk)

    async def adopt(self, disk: calls.Disk, source: str, *, owner: str) -> int:
        """Use the existing volume; its name must be the one in the disk's logical id."""
        if source != disk.logical_id[-1]:
            raise errors.InvalidError(
                f"volume {source} cannot be adopted as {disk.logical_id[-1]}",
                hint="a volume of a storage provider keeps its name",
            )
        path = await self._attach(disk)
        await self.set_info(disk, owner)
        return await self._size(path)

    async def remove(self, disk: calls.Disk) -> None:
        """Detach and remove the volume."""
        await self.deactivate(disk)
        try:
            await self._run("remove", disk)
        except errors.ExecutionError:
            if await self.find(disk):
                raise

    async def find(self, disk: calls.Disk) -> calls.DiskState | None:
        """Describe the volume; attach it for that time, because scripts have no query."""
        attached = self._disk.exists(self._record(disk))
        try:
            path = await self._attach(disk)
        except errors.ExecutionError:
            return None
        size = await self._size(path)
        if not attached:
            await self.deactivate(disk)
        return calls.DiskState(path=path, size=size, active=attached)

    async def _size(self, path: str) -> int:
        if path.startswith("/dev/"):
            return await self._tools.size(path)
        return self._disk.status(path).size // programs.MIB

    async def activate(self, disk: calls.Disk, *, primary: bool) -> str:
        """Attach the volume."""
        path = await self._attach(disk)
        await self.set_mode(disk)
        return path

    async def _attach(self, disk: calls.Disk) -> str:
        output = await self._run("attach", disk)
        path = output.partition("\n")[0].strip()
        if not path.startswith("/") or not self._disk.exists(path):
            raise errors.ExecutionError(
                f"the attach script of storage provider {disk.logical_id[0]} printed {path!r} "
                f"on node {self._runtime.host}, not the path of a device"
            )
        await self._disk.make_directory(self._attached)
        await self._disk.write(self._record(disk), f"{path}\n{output.partition(chr(10))[2]}".encode(), sync=False)
        return path

    async def deactivate(self, disk: calls.Disk) -> None:
        """Detach the volume."""
        if self._disk.exists(self._record(disk)):
            await self._run("detach", disk)
            await self._disk.remove(self._record(disk))

    async def open(self, disk: calls.Disk, *, force: bool) -> None:
        """Run the provider's script ``open``, if there is one: this node is now the writer."""
        await self._run_optional("open", disk, VOL_OPEN_EXCLUSIVE="True")

    async def close(self, disk: calls.Disk) -> None:
        """Run the provider's script ``close``, if there is one: this node no longer writes."""
        await self._run_optional("close", disk)

    async def _run_optional(self, action: str, disk: calls.Disk, **values: str) -> None:
        if action in self._providers.find(disk.logical_id[0]).scripts:
            await self._run(action, disk, **values)

    async def expose(self, disk: calls.Disk) -> str:
        """Return the device's path, which has the disk's content itself."""
        return self.path(disk)

    async def conceal(self, disk: calls.Disk) -> None:
        """Do nothing."""

    async def set_mode(self, disk: calls.Disk) -> None:
        """Set or clear the kernel's read-only flag of the device."""
        path = self.path(disk)
        if path.startswith("/dev/"):
            await self._tools.set_mode(path, disk.mode)

    async def grow(self, disk: calls.Disk, size: int, *, backing: bool, dry_run: bool) -> None:
        """Have the provider grow the volume."""
        existing = await self.find(disk)
        if existing is None:
            raise errors.NotFoundError(f"disk {disk.index}: its provider has no volume {disk.logical_id[-1]}")
        if existing.size < size and not dry_run:
            await self._run("grow", disk, VOL_SIZE=str(existing.size), VOL_NEW_SIZE=str(size))

    async def snapshot(self, disk: calls.Disk, name: str) -> tuple[str, tuple[str, ...]]:
        """Have the provider create a snapshot; WrongStateError unless it has the script."""
        provider = disk.logical_id[0]
        if "snapshot" not in self._providers.find(provider).scripts:
            raise errors.WrongStateError(f"storage provider {provider} does not support snapshots")
        size = str(disk.size)
        await self._run("snapshot", disk, VOL_SIZE=size, VOL_SNAPSHOT_NAME=name, VOL_SNAPSHOT_SIZE=size)
        return KIND, (provider, name)

    async def rename(self, disk: calls.Disk, to: tuple[str, ...]) -> None:
        """Refuse: the providers' protocol cannot rename a volume."""
        raise errors.InvalidError("a volume of a storage provider cannot be renamed")

    async def set_info(self, disk: calls.Disk, owner: str) -> None:
        """Pass the instance's name to the provider."""
        await self._run("setinfo", disk, VOL_METADATA=f"originstname+{owner}")

    async def wipe(self, disk: calls.Disk, *, offset: int, size: int) -> None:
        """Write zeros to the device."""
        await self._tools.wipe(self.path(disk), offset=offset, size=size)

    async def storage(self, name: str) -> calls.StorageInfo:
        """Return a capacity of zero, because it is unknown; NotFoundError if there is no such provider."""
        return calls.StorageInfo(kind=KIND, path=self._providers.find(name).path, free=0, total=0)

    async def verify(self, name: str) -> list[str]:
        """Raise NotFoundError or WrongStateError if the provider is missing or not valid."""
        self._providers.find(name)
        return []

    async def _run(self, action: str, disk: calls.Disk, **values: str) -> str:
        """Run a script of the provider and return its output; ExecutionError with its last lines if it fails."""
        if len(disk.logical_id) != 2 or not _VOLUME.fullmatch(disk.logical_id[1]):
            raise errors.InvalidError(
                f"{disk.logical_id} is not the logical id of a volume", hint="it must be (provider, volume)"
            )
        provider = self._providers.find(disk.logical_id[0])
        try:
            process = await self._runtime.processes.run(
                [f"{provider.path}/{action}"],
                environment=environment(disk, **values),
                directory=provider.path,
                timeout=SCRIPT_TIMEOUT_SECONDS,
            )
        except TimeoutError:
            raise errors.ExecutionError(
                f"the {action} script of storage provider {provider.name} timed out on node {self._runtime.host} "
                f"after {SCRIPT_TIMEOUT_SECONDS:.0f} s"
            ) from None
        if process.code:
            log = await self._write_log(f"{action}-{provider.name}-{disk.logical_id[1].replace('/', '_')}", process)
            lines = (process.stdout + process.stderr).decode(errors="replace").strip().splitlines()[-LAST_LINES:]
            raise errors.ExecutionError(
                f"the {action} script of storage provider {provider.name} failed with exit code {process.code}: "
                + "; ".join(lines),
                hint=f"its whole output is in {log} on node {self._runtime.host}",
            )
        return process.stdout.decode(errors="replace")

    async def _write_log(self, name: str, process: commands.Completed) -> str:
        await self._disk.make_directory(self._log)
        path = f"{self._log}/{name}.log"
        await retention.keep_newest(self._disk, self._log, most=LOGS)
        await self._disk.write(path, process.stdout + process.stderr, sync=False)
        return path


def environment(disk: calls.Disk, **values: str) -> dict[str, str]:
    """Return the environment of a script: the variables of a disk, and ``values``; pure."""
    known = {"PATH": programs.ENVIRONMENT["PATH"], "VOL_NAME": disk.logical_id[-1], "VOL_UUID": disk.uuid}
    if disk.name:
        known["VOL_CNAME"] = disk.name
    provider = {name: value for name, value in disk.params.items() if name not in CLUSTER_PARAMETERS}
    return known | values | {f"EXTP_{name.upper()}": str(value) for name, value in provider.items()}

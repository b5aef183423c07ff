"""The disk type ``ext``: disks that a provider's scripts make, on storage that the cluster knows nothing of.

    <one of paths.storage_providers>/<provider>/
        create attach detach remove grow setinfo verify     mandatory, executable
        snapshot open close                                 optional; what needs a missing one is refused
        parameters.list                                     names that the scripts take, one a line, with a text

    <run>/external/<disk uuid>      what ``attach`` printed: the device, and how a hypervisor may reach it by itself

The logical id is (provider, volume). Scripts get these variables (contracts/external-storage.md#environment): VOL_NAME,
VOL_SIZE, VOL_NEW_SIZE, VOL_METADATA, VOL_CNAME, VOL_UUID, VOL_SNAPSHOT_NAME, VOL_SNAPSHOT_SIZE, and each parameter of
the disk as EXTP_<NAME>. ``attach`` prints the device's path. Scripts must bear being repeated, as
contracts/external-storage.md#scripts asks.
"""

import re
from collections.abc import Sequence

from gantry import errors
from gantry.node.storage import programs
from gantry.rpc import calls
from gantry.runtime import commands, interface, paths

KIND = "ext"
NEEDED = ("create", "attach", "detach", "remove", "grow", "setinfo", "verify")
OPTIONAL = ("snapshot", "open", "close")
# Parameters of the cluster's, not of the provider's.
OURS = ("provider", "access")
LIMIT = 900.0
LAST_LINES = 5
_NAME = re.compile(r"(?!\.)[A-Za-z0-9_.-]+")
_VOLUME = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_.:/+@-]*")


class Providers:
    """The providers on one node; of two with one name the first on the search path counts."""

    def __init__(self, runtime: interface.Runtime, folders: Sequence[str]) -> None:
        self._disk = runtime.disk
        self._folders = folders
        self._node = runtime.host

    def diagnose(self) -> tuple[calls.Provider, ...]:
        """List all providers, by name, those with problems among them."""
        found: dict[str, calls.Provider] = {}
        for folder in self._folders:
            for name in self._disk.names(folder) if self._disk.exists(folder) else []:
                if name not in found and self._disk.status(f"{folder}/{name}").is_directory:
                    found[name] = self._read(f"{folder}/{name}")
        return tuple(found[name] for name in sorted(found))

    def find(self, name: str) -> calls.Provider:
        """Return a provider that is valid; NotFoundError, WrongStateError."""
        for folder in self._folders:
            if _NAME.fullmatch(name) and self._disk.exists(f"{folder}/{name}"):
                provider = self._read(f"{folder}/{name}")
                if provider.problem:
                    raise errors.WrongStateError(
                        f"storage provider {name} in {provider.path} on node {self._node} is not valid: "
                        + provider.problem
                    )
                return provider
        raise errors.NotFoundError(
            f"node {self._node} has no storage provider {name}", hint=f"put it into {' or '.join(self._folders)}"
        )

    def _read(self, path: str) -> calls.Provider:
        scripts = tuple(script for script in (*NEEDED, *OPTIONAL) if self._disk.exists(f"{path}/{script}"))
        listed = f"{path}/parameters.list"
        text = self._disk.read(listed).decode(errors="replace") if self._disk.exists(listed) else ""
        parameters = [line.strip().partition(" ") for line in text.splitlines() if line.strip()]
        return calls.Provider(
            name=path.rpartition("/")[2],
            path=path,
            problem=self._problem(path, scripts, listed=listed),
            parameters=tuple((name, about.strip()) for name, _, about in parameters),
            scripts=scripts,
        )

    def _problem(self, path: str, scripts: Sequence[str], *, listed: str) -> str:
        missing = [script for script in NEEDED if script not in scripts]
        if missing:
            return f"the script {missing[0]} is missing"
        if not self._disk.exists(listed):
            return "parameters.list is missing"
        for script in scripts:
            status = self._disk.status(f"{path}/{script}")
            if status.is_directory or not status.mode & 0o111:
                return f"the script {script} is not executable"
        return ""


class External:
    """The disk type ``ext`` on one node."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, providers: Providers) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._attached = f"{folders.run}/external"
        self._log = f"{folders.log}/extstorage"
        self._providers = providers
        self._tools = programs.Programs(runtime)
        self._node = runtime.host

    def logical_id(self, instance: str, uuid: str, *, index: int) -> str:
        """Return the name of a volume."""
        return f"{uuid}.ext.disk{index}"

    def path(self, disk: calls.Disk) -> str:
        """Return where the disk is attached; WrongStateError when it is not."""
        record = self._record(disk)
        if not self._disk.exists(record):
            raise errors.WrongStateError(
                f"disk {disk.index} is not attached to node {self._node}", hint="activate the instance's disks"
            )
        return self._disk.read(record).decode().partition("\n")[0]

    def _record(self, disk: calls.Disk) -> str:
        if not _NAME.fullmatch(disk.uuid):
            raise errors.InvalidError(f"{disk.uuid!r} is no UUID")
        return f"{self._attached}/{disk.uuid}"

    async def place(self, disks: Sequence[calls.Disk]) -> tuple[tuple[str, ...], ...]:
        """Leave it to the provider."""
        return ((),) * len(disks)

    async def create(self, disk: calls.Disk, *, owner: str, on: Sequence[str] = ()) -> str:
        """Check the parameters, make the volume and attach it; one of its name and size is the disk itself."""
        if disk.size <= 0:
            raise errors.InvalidError(f"disk {disk.index} of {owner}: a size of {disk.size} MiB is not possible")
        await self._run("verify", disk)
        found = await self.find(disk)
        if found and found.size != disk.size:
            raise errors.ExistsError(
                f"disk {disk.index} of {owner}: {disk.logical_id[1]} exists already on node {self._node}"
            )
        if found is None:
            await self._run("create", disk, VOL_SIZE=str(disk.size))
        await self.set_info(disk, owner)
        return await self._attach(disk)

    async def adopt(self, disk: calls.Disk, source: str, *, owner: str) -> int:
        """Take the volume that the disk names."""
        if source != disk.logical_id[-1]:
            raise errors.InvalidError(f"volume {source} cannot be adopted as {disk.logical_id[-1]}", hint="name it so")
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
        """Attach the volume, for there is no other way to look, and describe it."""
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
        printed = await self._run("attach", disk)
        path = printed.partition("\n")[0].strip()
        if not path.startswith("/") or not self._disk.exists(path):
            raise errors.ExecutionError(
                f"the attach script of storage provider {disk.logical_id[0]} named no device on node {self._node}"
                f" but {path!r}"
            )
        await self._disk.make_directory(self._attached)
        await self._disk.write(self._record(disk), f"{path}\n{printed.partition(chr(10))[2]}".encode(), sync=False)
        return path

    async def deactivate(self, disk: calls.Disk) -> None:
        """Detach the volume."""
        if self._disk.exists(self._record(disk)):
            await self._run("detach", disk)
            await self._disk.remove(self._record(disk))

    async def open(self, disk: calls.Disk, *, force: bool) -> None:
        """Tell the provider who writes, if it wants to know."""
        await self._tell("open", disk, VOL_OPEN_EXCLUSIVE="True")

    async def close(self, disk: calls.Disk) -> None:
        """Tell the provider that nobody here writes any more, if it wants to know."""
        await self._tell("close", disk)

    async def _tell(self, action: str, disk: calls.Disk, **values: str) -> None:
        if action in self._providers.find(disk.logical_id[0]).scripts:
            await self._run(action, disk, **values)

    async def expose(self, disk: calls.Disk) -> str:
        """Return the path, for what is there is the disk itself."""
        return self.path(disk)

    async def conceal(self, disk: calls.Disk) -> None:
        """Do nothing."""

    async def set_mode(self, disk: calls.Disk) -> None:
        """Set the kernel's read-only mark of the device."""
        path = self.path(disk)
        if path.startswith("/dev/"):
            await self._tools.set_mode(path, disk.mode)

    async def grow(self, disk: calls.Disk, size: int, *, backing: bool, dry_run: bool) -> None:
        """Let the provider grow the volume."""
        found = await self.find(disk)
        if found is None:
            raise errors.NotFoundError(f"disk {disk.index}: its provider has no volume {disk.logical_id[-1]}")
        if found.size < size and not dry_run:
            await self._run("grow", disk, VOL_SIZE=str(found.size), VOL_NEW_SIZE=str(size))

    async def snapshot(self, disk: calls.Disk, name: str) -> tuple[str, tuple[str, ...]]:
        """Let the provider make a snapshot, if it can."""
        provider = disk.logical_id[0]
        if "snapshot" not in self._providers.find(provider).scripts:
            raise errors.WrongStateError(f"storage provider {provider} keeps no snapshots")
        size = str(disk.size)
        await self._run("snapshot", disk, VOL_SIZE=size, VOL_SNAPSHOT_NAME=name, VOL_SNAPSHOT_SIZE=size)
        return KIND, (provider, name)

    async def rename(self, disk: calls.Disk, to: tuple[str, ...]) -> None:
        """Refuse: the protocol of providers has no such thing."""
        raise errors.InvalidError("a volume of a storage provider cannot be renamed")

    async def set_info(self, disk: calls.Disk, owner: str) -> None:
        """Give the provider the instance's name."""
        await self._run("setinfo", disk, VOL_METADATA=f"originstname+{owner}")

    async def wipe(self, disk: calls.Disk, *, offset: int, size: int) -> None:
        """Write zeros to the device."""
        await self._tools.wipe(self.path(disk), offset=offset, size=size)

    async def storage(self, name: str) -> calls.StorageInfo:
        """Say that nobody knows; NotFoundError when there is no such provider."""
        return calls.StorageInfo(kind=KIND, path=self._providers.find(name).path, free=0, total=0)

    async def verify(self, name: str) -> list[str]:
        """Complain of a provider that is missing or not valid."""
        self._providers.find(name)
        return []

    async def _run(self, action: str, disk: calls.Disk, **values: str) -> str:
        """Run one of the provider's scripts; ExecutionError with its last lines. Returns what it printed."""
        if len(disk.logical_id) != 2 or not _VOLUME.fullmatch(disk.logical_id[1]):
            raise errors.InvalidError(f"{disk.logical_id} names no volume", hint="it must be (provider, volume)")
        provider = self._providers.find(disk.logical_id[0])
        try:
            done = await self._runtime.processes.run(
                [f"{provider.path}/{action}"],
                environment=environment(disk, **values),
                directory=provider.path,
                timeout=LIMIT,
            )
        except TimeoutError:
            raise errors.ExecutionError(
                f"the {action} script of storage provider {provider.name} took longer than {LIMIT:.0f} s"
            ) from None
        if done.code:
            log = await self._keep(f"{action}-{provider.name}-{disk.logical_id[1].replace('/', '_')}", done)
            lines = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()[-LAST_LINES:]
            raise errors.ExecutionError(
                f"the {action} script of storage provider {provider.name} failed with exit code {done.code}: "
                + "; ".join(lines),
                hint=f"all that it wrote is in {log} on node {self._node}",
            )
        return done.stdout.decode(errors="replace")

    async def _keep(self, name: str, done: commands.Completed) -> str:
        await self._disk.make_directory(self._log)
        path = f"{self._log}/{name}.log"
        await self._disk.write(path, done.stdout + done.stderr, sync=False)
        return path


def environment(disk: calls.Disk, **values: str) -> dict[str, str]:
    """Return what a script is told of a disk, beside ``values``; pure."""
    known = {"PATH": programs.ENVIRONMENT["PATH"], "VOL_NAME": disk.logical_id[-1], "VOL_UUID": disk.uuid}
    if disk.name:
        known["VOL_CNAME"] = disk.name
    parameters = {f"EXTP_{name.upper()}": str(value) for name, value in disk.params.items() if name not in OURS}
    return known | values | parameters

"""The disk type ``drbd``: a disk that two nodes keep, each on two logical volumes of its own.

    /dev/drbd<minor>                            where the disk is, on the node that has the role primary
        <uuid>.disk<index>_data                 its data, a volume as of ``plain``
        <uuid>.disk<index>_meta                 DRBD's record of what the peer does not have yet

The master gives minor, port, addresses and secret with every call (``calls.Mirror``): nothing is searched, so to find
and to activate a disk costs the same with one minor in use as with a hundred (contracts/cluster-design.md#drbd-minors).
The minor is ours: whoever else has it is taken down; when that cannot be, because it is open, nothing is done. Two
disks are never connected to each other by mistake: both must know the secret
(contracts/cluster-design.md#drbd-secrets).

Life: ``create`` on both nodes, ``activate`` on both, ``open`` with force on the first (which starts the first
synchronisation). For a migration ``connect`` with both primary, ``close`` on the node that is left, ``connect`` with
one.
"""

from collections.abc import Sequence

from gantry import errors
from gantry.node.storage import plain, programs
from gantry.node.storage.drbd import setup, status
from gantry.rpc import calls

KIND = "drbd"


class Drbd:
    """The disk type ``drbd`` on one node; ``volumes`` makes what it lies on."""

    def __init__(self, commands: setup.Setup, tools: programs.Programs, *, volumes: plain.Plain) -> None:
        self._setup = commands
        self._tools = tools
        self._volumes = volumes
        self._node = tools.node

    def logical_id(self, instance: str, uuid: str, *, index: int) -> str:
        """Return what the names of both volumes begin with."""
        return self._volumes.logical_id(instance, uuid, index=index)

    def path(self, disk: calls.Disk) -> str:
        """Return the device."""
        return f"/dev/drbd{_mirror(disk).minor}"

    async def place(self, disks: Sequence[calls.Disk]) -> tuple[tuple[str, ...], ...]:
        """Choose physical volumes for all volumes of all disks, so that data and metadata are together."""
        parts = [_parts(disk) for disk in disks]
        chosen = await self._volumes.place([child for pair in parts for child in pair])
        return tuple(tuple(dict.fromkeys(data + meta)) for data, meta in zip(chosen[::2], chosen[1::2], strict=True))

    async def create(self, disk: calls.Disk, *, owner: str, on: Sequence[str] = ()) -> str:
        """Make both volumes and write the metadata, unless they hold a disk already."""
        mirror, parts = _mirror(disk), _parts(disk)
        self._setup.check()
        made: list[calls.Disk] = []
        try:
            for child in parts:
                made += [child] if await self._volumes.make(child, owner=owner, on=on) else []
            if await self._ours(disk) is None:
                await self._clear(mirror.minor)
                if parts[1] not in made:
                    await self._volumes.activate(parts[1], primary=False)
                await self._label(mirror.minor, parts[1])
        except errors.GantryError:
            for child in made:
                await self._volumes.remove(child)
            raise
        return self.path(disk)

    async def _label(self, minor: int, meta: calls.Disk) -> None:
        """Write metadata where there is none. What a volume held before it was made is gone, so any is this disk's."""
        if not await self._setup.has_metadata(minor, self._volumes.path(meta)):
            await self._setup.create_metadata(minor, self._volumes.path(meta))

    async def _ours(self, disk: calls.Disk) -> status.Shown | None:
        """Return how the disk is set up; None when it is not, or when its minor is somebody else's."""
        mirror, (data, meta) = _mirror(disk), _parts(disk)
        minor = self._setup.minor(mirror.minor)
        if minor is None or not minor.configured:
            return None
        shown = await self._setup.show(mirror.minor)
        if shown is None or shown.resource != setup.resource(mirror.minor):
            return None
        if not shown.data:
            return shown if (shown.local, shown.remote) == _addresses(mirror) else None
        return shown if (shown.data, shown.meta) == (self._volumes.path(data), self._volumes.path(meta)) else None

    async def adopt(self, disk: calls.Disk, source: str, *, owner: str) -> int:
        """Refuse: what is there has no metadata of its own size."""
        raise errors.InvalidError("a mirrored disk cannot be adopted", hint="adopt it as plain and convert it")

    async def remove(self, disk: calls.Disk) -> None:
        """Take the device down and remove both volumes."""
        await self._down(disk)
        for child in _parts(disk):
            await self._volumes.remove(child)

    async def find(self, disk: calls.Disk) -> calls.DiskState | None:
        """Describe the device, or its volumes while it is not active."""
        mirror, (data, meta) = _mirror(disk), _parts(disk)
        minor = self._setup.minor(mirror.minor)
        if minor and await self._ours(disk):
            return calls.DiskState(
                path=self.path(disk),
                size=self._setup.size(mirror.minor),
                active=True,
                role="primary" if minor.role == "Primary" else "secondary",
                connection=minor.connection,
                local=minor.local,
                peer=minor.peer,
                degraded=minor.degraded,
                sync_percent=minor.percent,
                sync_seconds=minor.seconds,
                problem=await self._problem(mirror, minor),
            )
        found, record = await self._volumes.find(data), await self._volumes.find(meta)
        if found is None:
            return None
        lost = "" if record else f"the metadata of disk {disk.index} is gone on node {self._node}"
        taken = f"drbd{mirror.minor} on node {self._node} is somebody else's" if minor and minor.configured else ""
        return calls.DiskState(
            path=self.path(disk),
            size=found.size,
            active=False,
            degraded=True,
            problem=found.problem or lost or taken,
            on=found.on,
        )

    async def _problem(self, mirror: calls.Mirror, minor: status.Minor) -> str:
        where = f"drbd{mirror.minor} on node {self._node}"
        if minor.connection == status.STANDALONE and mirror.remote:
            reason = await self._setup.reason(mirror.minor)
            return f"{where} has given its peer up: {reason}" if reason else f"{where} is not connected to its peer"
        return f"{where} has no local disk" if minor.local == "Diskless" else ""

    async def activate(self, disk: calls.Disk, *, primary: bool) -> str:
        """Set the device up as it shall be, from whatever there is; a connection that fits is left alone."""
        self._setup.check()
        mirror = _mirror(disk)
        parameters = setup.Parameters.of(disk)
        shown = await self._ours(disk)
        if shown is None or not shown.data:
            await self._activate_parts(disk)
        if shown is None:
            await self._take(mirror.minor)
        if shown and shown.data:
            await self._setup.tune(mirror.minor, parameters)
        else:
            await self._attach(disk)
        if mirror.remote:
            await self._join(disk, shown, multimaster=None, discard=False)
        if primary:
            await self._promote(disk, force=False)
        return self.path(disk)

    async def _activate_parts(self, disk: calls.Disk) -> None:
        for child in _parts(disk):
            await self._volumes.activate(child, primary=False)

    async def _take(self, number: int) -> None:
        """Make the minor anew."""
        await self._clear(number)
        await self._setup.new(number)

    async def _clear(self, number: int) -> None:
        """Take whoever has the minor down (contracts/cluster-design.md#drbd-minors), or WrongStateError."""
        if self._setup.minor(number) is not None:
            shown = await self._setup.show(number)
            await self._setup.down(shown.resource if shown else setup.resource(number), number=number)

    async def deactivate(self, disk: calls.Disk) -> None:
        """Take the device down, unless it is somebody else's, and deactivate the volumes."""
        await self._down(disk)
        for child in _parts(disk):
            await self._volumes.deactivate(child)

    async def _down(self, disk: calls.Disk) -> None:
        number = _mirror(disk).minor
        if await self._ours(disk):
            await self._setup.down(setup.resource(number), number=number)

    async def open(self, disk: calls.Disk, *, force: bool) -> None:
        """Take the role primary; a disk of mode ``ro`` cannot be written to all the same."""
        await self._needed(disk)
        await self._promote(disk, force=force)

    async def _promote(self, disk: calls.Disk, *, force: bool) -> None:
        await self._setup.role(_mirror(disk).minor, "primary", force=force)
        if disk.mode == "ro":
            await self.set_mode(disk)

    async def close(self, disk: calls.Disk) -> None:
        """Take the role secondary."""
        if await self._ours(disk):
            await self._setup.role(_mirror(disk).minor, "secondary")

    async def _needed(self, disk: calls.Disk) -> status.Shown:
        shown = await self._ours(disk)
        if shown is None:
            raise errors.WrongStateError(
                f"disk {disk.index} ({self.path(disk)}) is not active on node {self._node}", hint="activate it first"
            )
        return shown

    async def expose(self, disk: calls.Disk) -> str:
        """Return the path, for what is there is the disk itself."""
        return self.path(disk)

    async def conceal(self, disk: calls.Disk) -> None:
        """Do nothing."""

    async def set_mode(self, disk: calls.Disk) -> None:
        """Set the kernel's read-only mark of the device; as secondary it cannot be written to anyway."""
        minor = self._setup.minor(_mirror(disk).minor)
        if minor and minor.role == "Primary":
            await self._tools.set_mode(self.path(disk), disk.mode)

    async def grow(self, disk: calls.Disk, size: int, *, backing: bool, dry_run: bool) -> None:
        """Grow the data's volume, or let the device use what both volumes have."""
        if backing or dry_run:
            await self._volumes.grow(_parts(disk)[0], size, backing=True, dry_run=dry_run)
            return
        number = _mirror(disk).minor
        await self._needed(disk)
        if self._setup.size(number) < size:
            here = await self._volumes.find(_parts(disk)[0])
            if here and here.size >= size:
                await self._setup.resize(number, size)
        if self._setup.size(number) < size:
            raise errors.BlockDeviceError(
                f"drbd{number} on node {self._node} has {self._setup.size(number)} MiB, not {size}",
                hint="grow the volumes under it on both nodes first",
            )

    async def snapshot(self, disk: calls.Disk, name: str) -> tuple[str, tuple[str, ...]]:
        """Make a snapshot of this node's data."""
        return await self._volumes.snapshot(_parts(disk)[0], name)

    async def rename(self, disk: calls.Disk, to: tuple[str, ...]) -> None:
        """Refuse: a mirrored disk has no name but its minor."""
        raise errors.InvalidError("a mirrored disk has no name that could change")

    async def set_info(self, disk: calls.Disk, owner: str) -> None:
        """Tag both volumes with the instance."""
        for child in _parts(disk):
            await self._volumes.set_info(child, owner)

    async def wipe(self, disk: calls.Disk, *, offset: int, size: int) -> None:
        """Write zeros to the device, and so to both nodes."""
        await self._tools.wipe(self.path(disk), offset=offset, size=size)

    async def storage(self, name: str) -> calls.StorageInfo:
        """Return the room of a volume group."""
        found = await self._volumes.storage(name)
        return calls.StorageInfo(kind=KIND, path=found.path, free=found.free, total=found.total)

    async def verify(self, name: str) -> list[str]:
        """Complain of a kernel that cannot, and of what is wrong with a volume group."""
        problem, hint = self._setup.problem()
        return ([f"{problem}; {hint}"] if problem else []) + await self._volumes.verify(name)

    async def connect(self, disk: calls.Disk, *, multimaster: bool, discard: bool) -> None:
        """Connect to the peer, or change how the two are connected."""
        shown = await self._needed(disk)
        await self._join(disk, shown, multimaster=multimaster, discard=discard)

    async def _join(
        self, disk: calls.Disk, shown: status.Shown | None, *, multimaster: bool | None, discard: bool
    ) -> None:
        """Bring the connection to what it shall be; with ``multimaster`` None one that fits is left as it is."""
        mirror = _mirror(disk)
        if shown and shown.remote:
            known = (shown.net or {}).get("shared-secret", "")
            same = (shown.local, shown.remote) == _addresses(mirror) and known == mirror.secret
            minor = self._setup.minor(mirror.minor)
            if same and not discard and minor and minor.connection != status.STANDALONE:
                if multimaster is not None:
                    await self._setup.net_options(mirror, allow_two_primaries="yes" if multimaster else "no")
                return
            await self._setup.disconnect(setup.endpoint(shown.local), setup.endpoint(shown.remote))
        options = {"allow-two-primaries": "yes"} if multimaster else {}
        options |= {"discard-my-data": "yes"} if discard else {}
        await self._setup.connect(mirror, parameters=setup.Parameters.of(disk), options=options)

    async def disconnect(self, disk: calls.Disk) -> None:
        """Part from the peer, whichever it is."""
        shown = await self._ours(disk)
        if shown and shown.remote:
            await self._setup.disconnect(setup.endpoint(shown.local), setup.endpoint(shown.remote))

    async def attach(self, disk: calls.Disk) -> None:
        """Attach both volumes; new ones get metadata that knows of no data, so all comes from the peer."""
        shown = await self._setup.show(_mirror(disk).minor)
        if shown is None or shown.data != self._volumes.path(_parts(disk)[0]):
            await self._activate_parts(disk)
            await self._label(_mirror(disk).minor, _parts(disk)[1])
            await self._attach(disk)

    async def _attach(self, disk: calls.Disk) -> None:
        """Attach volumes that have metadata; without it nobody knows how good their data is, and they are refused."""
        data, meta = _parts(disk)
        await self._setup.attach(
            _mirror(disk).minor,
            data=self._volumes.path(data),
            meta=self._volumes.path(meta),
            parameters=setup.Parameters.of(disk),
        )

    async def detach(self, disk: calls.Disk) -> None:
        """Detach both volumes."""
        number = _mirror(disk).minor
        shown = await self._setup.show(number)
        if shown and shown.data and shown.resource == setup.resource(number):
            await self._setup.detach(number)

    async def pause(self, disk: calls.Disk, *, pause: bool) -> None:
        """Let the resynchronisation wait, or go on."""
        await self._needed(disk)
        await self._setup.pause(_mirror(disk).minor, pause=pause)


def _mirror(disk: calls.Disk) -> calls.Mirror:
    if disk.mirror is None:
        raise errors.InvalidError(f"disk {disk.index} is mirrored, but nothing says with whom")
    return disk.mirror


def _parts(disk: calls.Disk) -> tuple[calls.Disk, calls.Disk]:
    """Return the volumes for data and metadata."""
    if len(disk.children) != 2:
        raise errors.InvalidError(f"disk {disk.index} is mirrored, but has not two volumes under it")
    data, meta = disk.children
    return data, meta


def _addresses(mirror: calls.Mirror) -> tuple[str, str]:
    return setup.address(mirror.local, mirror.port), setup.address(mirror.remote, mirror.port)

"""The disk type ``drbd``: a disk that is mirrored on two nodes, on two logical volumes on each.

    /dev/drbd<minor>                            the disk's device, usable on the node with the role primary
        <uuid>.disk<index>_data                 its data, a volume like those of ``plain``
        <uuid>.disk<index>_meta                 DRBD's metadata: which blocks the peer does not have yet

The master passes minor, port, addresses and secret with every call (``calls.Mirror``). The driver does not search for
them, so finding and activating a disk costs the same with one minor in use as with a hundred
(contracts/cluster-design.md#drbd-minors). A minor belongs to the disk for which the master passes it: another resource
with that minor is shut down; if it cannot be, because it is open, the call fails and changes nothing. Two disks are
never connected to each other by mistake: both nodes must have the same secret
(contracts/cluster-design.md#drbd-secrets).

Life cycle: ``create`` on both nodes, ``activate`` on both, ``open`` with force on the first (which starts the first
synchronization). For a migration: ``connect`` with both nodes primary, ``close`` on the source node, ``connect`` with
a single primary.
"""

from collections.abc import Sequence

from gantry import errors
from gantry.node.storage import plain, programs
from gantry.node.storage.drbd import setup, status
from gantry.rpc import calls

KIND = "drbd"


class Drbd:
    """The disk type ``drbd`` on a node; ``volumes`` creates the logical volumes below it."""

    def __init__(self, commands: setup.Setup, tools: programs.Programs, *, volumes: plain.Plain) -> None:
        self._setup = commands
        self._tools = tools
        self._volumes = volumes

    def logical_id(self, instance: str, uuid: str, *, index: int) -> str:
        """Return the common prefix of both volumes' names."""
        return self._volumes.logical_id(instance, uuid, index=index)

    def path(self, disk: calls.Disk) -> str:
        """Return the path of the device."""
        return f"/dev/drbd{_mirror(disk).minor}"

    async def choose_volumes(self, disks: Sequence[calls.Disk]) -> tuple[tuple[str, ...], ...]:
        """Choose physical volumes for the data and metadata of all disks together."""
        parts = [_parts(disk) for disk in disks]
        chosen = await self._volumes.choose_volumes([child for pair in parts for child in pair])
        return tuple(tuple(dict.fromkeys(data + meta)) for data, meta in zip(chosen[::2], chosen[1::2], strict=True))

    async def create(self, disk: calls.Disk, *, owner: str, on: Sequence[str] = ()) -> str:
        """Create both volumes and write the metadata, unless they already are this disk."""
        mirror, parts = _mirror(disk), _parts(disk)
        self._setup.check()
        created: list[calls.Disk] = []
        try:
            for child in parts:
                created += [child] if await self._volumes.ensure_volume(child, owner=owner, on=on) else []
            if await self._configuration(disk) is None:
                await self._free_minor(mirror.minor)
                if parts[1] not in created:
                    await self._volumes.activate(parts[1], primary=False)
                await self._ensure_metadata(mirror.minor, parts[1])
        except errors.GantryError:
            for child in created:
                await self._volumes.remove(child)
            raise
        return self.path(disk)

    async def _ensure_metadata(self, minor: int, meta: calls.Disk) -> None:
        """Write metadata unless the volume has some, which is this disk's: volumes are wiped when they are created."""
        if not await self._setup.has_metadata(minor, self._volumes.path(meta)):
            await self._setup.create_metadata(minor, self._volumes.path(meta))

    async def _configuration(self, disk: calls.Disk) -> status.Configuration | None:
        """Return the disk's configuration; None if it has none, or if its minor is in use by another disk."""
        mirror, (data, meta) = _mirror(disk), _parts(disk)
        minor = self._setup.minor(mirror.minor)
        if minor is None or not minor.configured:
            return None
        current = await self._setup.show(mirror.minor)
        if current is None or current.resource != setup.resource(mirror.minor):
            return None
        if not current.data:
            return current if (current.local, current.remote) == _addresses(mirror) else None
        return current if (current.data, current.meta) == (self._volumes.path(data), self._volumes.path(meta)) else None

    async def adopt(self, disk: calls.Disk, source: str, *, owner: str) -> int:
        """Refuse: an existing volume has no DRBD metadata."""
        raise errors.InvalidError("a mirrored disk cannot be adopted", hint="adopt it as plain and convert it")

    async def remove(self, disk: calls.Disk) -> None:
        """Shut the device down and remove both volumes."""
        await self._down(disk)
        for child in _parts(disk):
            await self._volumes.remove(child)

    async def find(self, disk: calls.Disk) -> calls.DiskState | None:
        """Describe the device, or its volumes while it is not active."""
        mirror, (data, meta) = _mirror(disk), _parts(disk)
        minor = self._setup.minor(mirror.minor)
        if minor and await self._configuration(disk):
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
        data_state, meta_state = await self._volumes.find(data), await self._volumes.find(meta)
        if data_state is None:
            return None
        lost = "" if meta_state else f"the metadata volume of disk {disk.index} is missing on node {self._tools.node}"
        conflict = (
            f"drbd{mirror.minor} on node {self._tools.node} is in use by another resource"
            if minor and minor.configured
            else ""
        )
        return calls.DiskState(
            path=self.path(disk),
            size=data_state.size,
            active=False,
            degraded=True,
            problem=data_state.problem or lost or conflict,
            on=data_state.on,
        )

    async def _problem(self, mirror: calls.Mirror, minor: status.Minor) -> str:
        where = f"drbd{mirror.minor} on node {self._tools.node}"
        if minor.connection == status.STANDALONE and mirror.remote:
            reason = await self._setup.reason(mirror.minor)
            return f"{where} is not connected to its peer" + (f": {reason}" if reason else "")
        return f"{where} has no local disk" if minor.local == "Diskless" else ""

    async def activate(self, disk: calls.Disk, *, primary: bool) -> str:
        """Bring the device to the disk's configuration from any state; keep a connection that matches."""
        self._setup.check()
        mirror = _mirror(disk)
        parameters = setup.Parameters.of(disk)
        current = await self._configuration(disk)
        if current is None or not current.data:
            await self._activate_parts(disk)
        if current is None:
            await self._recreate_minor(mirror.minor)
        if current and current.data:
            await self._setup.tune(mirror.minor, parameters)
        else:
            await self._attach(disk)
        if mirror.remote:
            await self._ensure_connection(disk, current, multimaster=None, discard=False)
        if primary:
            await self._promote(disk, force=False)
        return self.path(disk)

    async def _activate_parts(self, disk: calls.Disk) -> None:
        for child in _parts(disk):
            await self._volumes.activate(child, primary=False)

    async def _recreate_minor(self, number: int) -> None:
        await self._free_minor(number)
        await self._setup.new(number)

    async def _free_minor(self, number: int) -> None:
        """Shut down any resource that has the minor (contracts/cluster-design.md#drbd-minors); WrongStateError."""
        if self._setup.minor(number) is not None:
            current = await self._setup.show(number)
            await self._setup.down(current.resource if current else setup.resource(number), number=number)

    async def deactivate(self, disk: calls.Disk) -> None:
        """Shut the device down, unless another disk uses the minor, and deactivate the volumes."""
        await self._down(disk)
        for child in _parts(disk):
            await self._volumes.deactivate(child)

    async def _down(self, disk: calls.Disk) -> None:
        number = _mirror(disk).minor
        if await self._configuration(disk):
            await self._setup.down(setup.resource(number), number=number)

    async def open(self, disk: calls.Disk, *, force: bool) -> None:
        """Make this node primary; a disk of mode ``ro`` stays read-only."""
        await self._active(disk)
        await self._promote(disk, force=force)

    async def _promote(self, disk: calls.Disk, *, force: bool) -> None:
        await self._setup.role(_mirror(disk).minor, "primary", force=force)
        if disk.mode == "ro":
            await self.set_mode(disk)

    async def close(self, disk: calls.Disk) -> None:
        """Make this node secondary."""
        if await self._configuration(disk):
            await self._setup.role(_mirror(disk).minor, "secondary")

    async def _active(self, disk: calls.Disk) -> status.Configuration:
        current = await self._configuration(disk)
        if current is None:
            raise errors.WrongStateError(
                f"disk {disk.index} ({self.path(disk)}) is not active on node {self._tools.node}",
                hint="activate it first",
            )
        return current

    async def expose(self, disk: calls.Disk) -> str:
        """Return the device's path, which has the disk's content itself."""
        return self.path(disk)

    async def conceal(self, disk: calls.Disk) -> None:
        """Do nothing."""

    async def set_mode(self, disk: calls.Disk) -> None:
        """Set or clear the kernel's read-only flag of the device; a secondary is read-only in any case."""
        minor = self._setup.minor(_mirror(disk).minor)
        if minor and minor.role == "Primary":
            await self._tools.set_mode(self.path(disk), disk.mode)

    async def grow(self, disk: calls.Disk, size: int, *, backing: bool, dry_run: bool) -> None:
        """Grow the data volume (``backing``), or the device to the size of the data volumes."""
        if backing or dry_run:
            await self._volumes.grow(_parts(disk)[0], size, backing=True, dry_run=dry_run)
            return
        number = _mirror(disk).minor
        await self._active(disk)
        if self._setup.size(number) < size:
            data = await self._volumes.find(_parts(disk)[0])
            if data and data.size >= size:
                await self._setup.resize(number, size)
        if self._setup.size(number) < size:
            raise errors.BlockDeviceError(
                f"drbd{number} on node {self._tools.node} has {self._setup.size(number)} MiB, not {size}",
                hint="grow the volumes under it on both nodes first",
            )

    async def snapshot(self, disk: calls.Disk, name: str) -> tuple[str, tuple[str, ...]]:
        """Create a snapshot of this node's data volume."""
        return await self._volumes.snapshot(_parts(disk)[0], name)

    async def rename(self, disk: calls.Disk, to: tuple[str, ...]) -> None:
        """Refuse: a mirrored disk has only a minor, no name."""
        raise errors.InvalidError("a mirrored disk cannot be renamed")

    async def set_info(self, disk: calls.Disk, owner: str) -> None:
        """Tag both volumes with the instance."""
        for child in _parts(disk):
            await self._volumes.set_info(child, owner)

    async def wipe(self, disk: calls.Disk, *, offset: int, size: int) -> None:
        """Write zeros to the device, and by it to both nodes."""
        await self._tools.wipe(self.path(disk), offset=offset, size=size)

    async def storage(self, name: str) -> calls.StorageInfo:
        """Return the capacity of a volume group."""
        info = await self._volumes.storage(name)
        return calls.StorageInfo(kind=KIND, path=info.path, free=info.free, total=info.total)

    async def verify(self, name: str) -> list[str]:
        """Return why the kernel cannot mirror disks, and the faults of the volume group."""
        problem, hint = self._setup.problem()
        return ([f"{problem}; {hint}"] if problem else []) + await self._volumes.verify(name)

    async def connect(self, disk: calls.Disk, *, multimaster: bool, discard: bool) -> None:
        """Connect to the peer, or change the connection's options."""
        current = await self._active(disk)
        await self._ensure_connection(disk, current, multimaster=multimaster, discard=discard)

    async def _ensure_connection(
        self, disk: calls.Disk, current: status.Configuration | None, *, multimaster: bool | None, discard: bool
    ) -> None:
        """Connect with the requested options; with ``multimaster`` None keep a matching connection unchanged."""
        mirror = _mirror(disk)
        if current and current.remote:
            secret = (current.net or {}).get("shared-secret", "")
            matches = (current.local, current.remote) == _addresses(mirror) and secret == mirror.secret
            minor = self._setup.minor(mirror.minor)
            if matches and not discard and minor and minor.connection != status.STANDALONE:
                if multimaster is not None:
                    await self._setup.net_options(mirror, allow_two_primaries="yes" if multimaster else "no")
                return
            await self._setup.disconnect(setup.endpoint(current.local), setup.endpoint(current.remote))
        options = {"allow-two-primaries": "yes"} if multimaster else {}
        options |= {"discard-my-data": "yes"} if discard else {}
        await self._setup.connect(mirror, parameters=setup.Parameters.of(disk), options=options)

    async def disconnect(self, disk: calls.Disk) -> None:
        """Disconnect from the peer, whichever node it is."""
        current = await self._configuration(disk)
        if current and current.remote:
            await self._setup.disconnect(setup.endpoint(current.local), setup.endpoint(current.remote))

    async def attach(self, disk: calls.Disk) -> None:
        """Attach both volumes; new volumes get metadata without data, so all data is copied from the peer."""
        current = await self._setup.show(_mirror(disk).minor)
        if current is None or current.data != self._volumes.path(_parts(disk)[0]):
            await self._activate_parts(disk)
            await self._ensure_metadata(_mirror(disk).minor, _parts(disk)[1])
            await self._attach(disk)

    async def _attach(self, disk: calls.Disk) -> None:
        """Attach volumes that have metadata; DRBD refuses volumes without, whose data's age is unknown."""
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
        current = await self._setup.show(number)
        if current and current.data and current.resource == setup.resource(number):
            await self._setup.detach(number)

    async def pause(self, disk: calls.Disk, *, pause: bool) -> None:
        """Pause the resynchronization, or resume it."""
        await self._active(disk)
        await self._setup.pause(_mirror(disk).minor, pause=pause)


def _mirror(disk: calls.Disk) -> calls.Mirror:
    if disk.mirror is None:
        raise errors.InvalidError(f"disk {disk.index} is mirrored, but the call does not name its peer")
    return disk.mirror


def _parts(disk: calls.Disk) -> tuple[calls.Disk, calls.Disk]:
    """Return the volumes for data and metadata."""
    if len(disk.children) != 2:
        raise errors.InvalidError(f"mirrored disk {disk.index} needs two volumes, the call has {len(disk.children)}")
    data, meta = disk.children
    return data, meta


def _addresses(mirror: calls.Mirror) -> tuple[str, str]:
    return setup.address(mirror.local, mirror.port), setup.address(mirror.remote, mirror.port)

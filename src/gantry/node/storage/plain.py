"""The disk type ``plain``: a logical volume per disk.

    /dev/<volume group>/<uuid>.disk<index>      the logical id is (volume group, volume)

Every volume carries the tag ``originstname+<instance>`` (contracts/configuration.md#disk-identifiers), by which people
find whose it is and by which a repeated ``create`` knows its own volume. What LVM says of a lost group or disk is in
``lvm``.

Volumes of one instance are kept on the same physical volumes where they fit
(contracts/cluster-design.md#placement-of-volumes): ``place`` looks at all of them at once and names physical volumes,
which ``create`` tries first; when they are full it spills over.
"""

from collections.abc import Mapping, Sequence

from gantry import errors
from gantry.node.storage import lvm, programs
from gantry.rpc import calls

KIND = "plain"


class Plain:
    """The disk type ``plain`` on one node."""

    def __init__(self, volumes: lvm.Lvm, tools: programs.Programs) -> None:
        self._lvm = volumes
        self._tools = tools
        self._node = tools.node

    def logical_id(self, instance: str, uuid: str, *, index: int) -> str:
        """Return the name of a volume."""
        return lvm.checked(f"{uuid}.disk{index}")

    def path(self, disk: calls.Disk) -> str:
        """Return where udev shows the volume."""
        return "/dev/{}/{}".format(*self._names(disk.logical_id))

    def _names(self, logical_id: tuple[str, ...]) -> tuple[str, str]:
        if len(logical_id) != 2:
            raise errors.InvalidError(f"{logical_id} names no volume", hint="it must be (volume group, volume)")
        group, name = logical_id
        return lvm.checked(group), lvm.checked(name)

    async def place(self, disks: Sequence[calls.Disk]) -> tuple[tuple[str, ...], ...]:
        """Choose physical volumes, as few as possible, those with most room first."""
        chosen: list[tuple[str, ...]] = [()] * len(disks)
        for name in dict.fromkeys(self._names(disk.logical_id)[0] for disk in disks):
            group = await self._lvm.group(name)
            members = [index for index, disk in enumerate(disks) if disk.logical_id[0] == name]
            wanted = [(disks[index].size, stripes_of(disks[index])) for index in members]
            if sum(size for size, _ in wanted) > group.free:
                raise self._no_room(sum(size for size, _ in wanted), group)
            for index, on in zip(members, spread(group.on, wanted), strict=True):
                chosen[index] = on
        return tuple(chosen)

    async def create(self, disk: calls.Disk, *, owner: str, on: Sequence[str] = ()) -> str:
        """Make the volume."""
        await self.make(disk, owner=owner, on=on)
        return self.path(disk)

    async def make(self, disk: calls.Disk, *, owner: str, on: Sequence[str]) -> bool:
        """Make the volume, and tell whether it was not there before."""
        group, name = self._names(disk.logical_id)
        if disk.size <= 0:
            raise errors.InvalidError(f"disk {disk.index} of {owner}: a size of {disk.size} MiB is not possible")
        room = await self._lvm.group(group)
        found = await self._lvm.volume(group, name)
        if found:
            if calls.OWNER_TAG + owner in found.tags and 0 <= found.size - disk.size <= room.extent:
                return False
            raise errors.ExistsError(
                f"disk {disk.index} of {owner}: {self.path(disk)} exists already on node {self._node}"
            )
        if disk.size > room.free:
            raise self._no_room(disk.size, room)
        stripes = min(stripes_of(disk), len(room.on))
        near = [volume for volume in on if volume in room.on]
        await self._allocate(disk, owner, stripes=stripes, on=near if len(near) >= stripes else ())
        return True

    async def _allocate(self, disk: calls.Disk, owner: str, *, stripes: int, on: Sequence[str]) -> None:
        group, name = disk.logical_id
        try:
            await self._lvm.create(group, name, disk.size, tags=[calls.OWNER_TAG + owner], stripes=stripes, on=on)
        except errors.NoRoomError:
            if not on:
                raise
            await self._lvm.create(group, name, disk.size, tags=[calls.OWNER_TAG + owner], stripes=stripes)

    def _no_room(self, size: int, group: calls.VolumeGroup) -> errors.NoRoomError:
        return errors.NoRoomError(
            f"disk of {size} MiB does not fit, {group.free} MiB are free in {group.name} on node {self._node}"
        )

    async def adopt(self, disk: calls.Disk, source: str, *, owner: str) -> int:
        """Rename the volume ``source``, in the disk's group, to the disk's name and write its owner down."""
        group, name = self._names(disk.logical_id)
        found = await self._lvm.volume(group, source)
        if found is None:
            found = await self._found(disk)
        elif found.open:
            raise errors.WrongStateError(
                f"volume {group}/{source} on node {self._node} is in use", hint="stop what uses it, or choose another"
            )
        else:
            await self._lvm.rename(group, source, name)
        await self._own(disk, found, owner)
        return found.size

    async def _found(self, disk: calls.Disk) -> calls.Volume:
        found = await self._lvm.volume(*self._names(disk.logical_id))
        if found is None:
            raise errors.NotFoundError(f"disk {disk.index}: there is no volume {self.path(disk)} on node {self._node}")
        return found

    async def _own(self, disk: calls.Disk, found: calls.Volume, owner: str) -> None:
        old = [tag for tag in found.tags if tag.startswith(calls.OWNER_TAG) and tag != calls.OWNER_TAG + owner]
        if old or calls.OWNER_TAG + owner not in found.tags:
            await self._lvm.tag(*self._names(disk.logical_id), add=[calls.OWNER_TAG + owner], remove=old)

    async def remove(self, disk: calls.Disk) -> None:
        """Remove the volume; it must not be open."""
        if await self._lvm.volume(*self._names(disk.logical_id)):
            await self._lvm.remove(*disk.logical_id)

    async def find(self, disk: calls.Disk) -> calls.DiskState | None:
        """Describe the volume."""
        found = await self._lvm.volume(*self._names(disk.logical_id))
        if found is None:
            return None
        lost = f"a physical volume under {self.path(disk)} on node {self._node} is missing" if found.partial else ""
        return calls.DiskState(
            path=self.path(disk),
            size=found.size,
            active=found.active,
            degraded=found.partial,
            problem=lost,
            on=found.on,
        )

    async def activate(self, disk: calls.Disk, *, primary: bool) -> str:
        """Activate the volume."""
        found = await self._found(disk)
        if found.partial:
            raise errors.EnvironmentFaultError(
                f"disk {disk.index}: a physical volume under {self.path(disk)} on node {self._node} is missing",
                hint="bring its disk back; if it is lost for good, repair the volume group and replace the disk",
            )
        if not found.active:
            await self._lvm.activate(*disk.logical_id, active=True)
        if found.active or disk.mode == "ro":
            await self._set_mode(disk, number=found.number)
        return self.path(disk)

    async def deactivate(self, disk: calls.Disk) -> None:
        """Deactivate the volume."""
        found = await self._lvm.volume(*self._names(disk.logical_id))
        if found and found.active:
            await self._lvm.activate(*disk.logical_id, active=False)

    async def open(self, disk: calls.Disk, *, force: bool) -> None:
        """Do nothing: a volume has no mirror."""

    async def close(self, disk: calls.Disk) -> None:
        """Do nothing: a volume has no mirror."""

    async def expose(self, disk: calls.Disk) -> str:
        """Return the path, for what is there is the disk itself."""
        return self.path(disk)

    async def conceal(self, disk: calls.Disk) -> None:
        """Do nothing."""

    async def set_mode(self, disk: calls.Disk) -> None:
        """Set the kernel's read-only mark of the volume's device."""
        await self._set_mode(disk)

    async def _set_mode(self, disk: calls.Disk, *, number: str = "") -> None:
        if self._lvm.mapper:
            await self._tools.set_mode(self.path(disk), disk.mode, number=number)

    async def grow(self, disk: calls.Disk, size: int, *, backing: bool, dry_run: bool) -> None:
        """Extend the volume."""
        found = await self._found(disk)
        if found.size >= size:
            return
        group = await self._lvm.group(disk.logical_id[0])
        if size - found.size > group.free:
            raise self._no_room(size - found.size, group)
        if not dry_run:
            await self._lvm.extend(*self._names(disk.logical_id), size)

    async def snapshot(self, disk: calls.Disk, name: str) -> tuple[str, tuple[str, ...]]:
        """Make an LVM snapshot."""
        origin, group = await self._found(disk), await self._lvm.group(disk.logical_id[0])
        made = await self._lvm.volume(group.name, name)
        if made is None:
            if origin.size > group.free:
                raise self._no_room(origin.size, group)
            await self._lvm.snapshot(group.name, name, origin=origin)
        elif made.origin != origin.name:
            raise errors.ExistsError(f"volume {group.name}/{name} exists already on node {self._node}")
        return KIND, (group.name, name)

    async def rename(self, disk: calls.Disk, to: tuple[str, ...]) -> None:
        """Rename the volume inside its group."""
        group, name = self._names(disk.logical_id)
        new_group, new = self._names(to)
        if new_group != group:
            raise errors.InvalidError(f"a volume cannot be renamed from group {group} to {new_group}")
        if await self._lvm.volume(group, new) is None:
            await self._found(disk)
            await self._lvm.rename(group, name, new)

    async def set_info(self, disk: calls.Disk, owner: str) -> None:
        """Tag the volume with its instance."""
        await self._own(disk, await self._found(disk), owner)

    async def wipe(self, disk: calls.Disk, *, offset: int, size: int) -> None:
        """Write zeros to the volume."""
        await self._tools.wipe(self.path(disk), offset=offset, size=size)

    async def storage(self, name: str) -> calls.StorageInfo:
        """Return the room of a volume group."""
        found = await self._lvm.group(name)
        return calls.StorageInfo(kind=KIND, path=name, free=found.free, total=found.size)

    async def verify(self, name: str) -> list[str]:
        """Complain of a group that is gone, physical volumes that are missing, volumes that lay on them."""
        found = await self._lvm.group(name)
        if not found.missing:
            return []
        lost = [volume.name for volume in await self._lvm.volumes(name) if volume.partial]
        return [
            f"volume group {name} misses {found.missing} of its physical volumes, and with them "
            f"{', '.join(lost) or 'no volumes'}; bring the disk back, or repair the group and replace the disks"
        ]


def stripes_of(disk: calls.Disk) -> int:
    """Return over how many physical volumes a disk shall be spread."""
    return max(1, int(disk.params.get("stripes", 1)))


def spread(free: Mapping[str, int], wanted: Sequence[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Choose physical volumes for volumes of one instance, given as (size, stripes); pure.

    As few as hold all, those with most room first, so that room stays even over the group; a volume gets those of them
    that have room for it, and all where no set of one per stripe has: LVM then divides it among them.
    """
    order = sorted(free, key=lambda name: (-free[name], name))
    count = max([1, *(stripes for _, stripes in wanted)])
    total = sum(size for size, _ in wanted)
    while count < len(order) and sum(free[name] for name in order[:count]) < total:
        count += 1
    left = {name: free[name] for name in order[:count]}
    chosen: list[tuple[str, ...]] = []
    for size, stripes in wanted:
        part = -(-size // stripes)
        roomy = tuple(name for name in left if left[name] >= part)[:stripes]
        on = roomy if len(roomy) == stripes else tuple(left)
        for name in on:
            left[name] -= -(-size // len(on))
        chosen.append(on)
    return chosen

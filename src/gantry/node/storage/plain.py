"""The disk type ``plain``: a logical volume per disk.

    /dev/<volume group>/<uuid>.disk<index>      the logical id is (volume group, volume)

Every volume has the tag ``originstname+<instance>`` (contracts/configuration.md#disk-identifiers). The tag shows
administrators which instance owns the volume, and a repeated ``create`` recognizes its own volume by it. ``lvm`` turns
LVM's messages about a lost group or disk into errors.

Volumes of an instance are kept on the same physical volumes if they fit
(contracts/cluster-design.md#placement-of-volumes): ``choose_volumes`` considers all of them together and names physical
volumes. ``create`` tries those first, and uses any others when they are full.
"""

from collections.abc import Mapping, Sequence

from gantry import errors
from gantry.node.storage import lvm, programs
from gantry.rpc import calls

KIND = "plain"


class Plain:
    """The disk type ``plain`` on a node."""

    def __init__(self, volumes: lvm.Lvm, tools: programs.Programs) -> None:
        self._lvm = volumes
        self._tools = tools

    def logical_id(self, instance: str, uuid: str, *, index: int) -> str:
        """Return the name of a volume."""
        return lvm.checked(f"{uuid}.disk{index}")

    def path(self, disk: calls.Disk) -> str:
        """Return the volume's device path, which udev creates."""
        return "/dev/{}/{}".format(*self._names(disk.logical_id))

    def _names(self, logical_id: tuple[str, ...]) -> tuple[str, str]:
        if len(logical_id) != 2:
            raise errors.InvalidError(
                f"{logical_id} is not the logical id of a volume", hint="it must be (volume group, volume)"
            )
        group, name = logical_id
        return lvm.checked(group), lvm.checked(name)

    async def choose_volumes(self, disks: Sequence[calls.Disk]) -> tuple[tuple[str, ...], ...]:
        """Choose physical volumes, as few as possible, those with most free space first."""
        chosen: list[tuple[str, ...]] = [()] * len(disks)
        for name in dict.fromkeys(self._names(disk.logical_id)[0] for disk in disks):
            group = await self._lvm.group(name)
            members = [index for index, disk in enumerate(disks) if disk.logical_id[0] == name]
            requests = [(disks[index].size, stripes_of(disks[index])) for index in members]
            if sum(size for size, _ in requests) > group.free:
                raise self._no_space(sum(size for size, _ in requests), group)
            for index, on in zip(members, spread(group.on, requests), strict=True):
                chosen[index] = on
        return tuple(chosen)

    async def create(self, disk: calls.Disk, *, owner: str, on: Sequence[str] = ()) -> str:
        """Create the volume."""
        await self.ensure_volume(disk, owner=owner, on=on)
        return self.path(disk)

    async def ensure_volume(self, disk: calls.Disk, *, owner: str, on: Sequence[str]) -> bool:
        """Create the volume unless it exists; return whether it was created."""
        group, name = self._names(disk.logical_id)
        if disk.size <= 0:
            raise errors.InvalidError(f"disk {disk.index} of {owner}: a size of {disk.size} MiB is not possible")
        volume_group = await self._lvm.group(group)
        existing = await self._lvm.volume(group, name)
        if existing:
            if calls.OWNER_TAG + owner in existing.tags and 0 <= existing.size - disk.size <= volume_group.extent:
                return False
            raise errors.ExistsError(
                f"disk {disk.index} of {owner}: {self.path(disk)} exists already on node {self._tools.node}"
            )
        if disk.size > volume_group.free:
            raise self._no_space(disk.size, volume_group)
        stripes = min(stripes_of(disk), len(volume_group.on))
        preferred = [volume for volume in on if volume in volume_group.on]
        await self._allocate(disk, owner, stripes=stripes, on=preferred if len(preferred) >= stripes else ())
        return True

    async def _allocate(self, disk: calls.Disk, owner: str, *, stripes: int, on: Sequence[str]) -> None:
        group, name = disk.logical_id
        try:
            await self._lvm.create(group, name, disk.size, tags=[calls.OWNER_TAG + owner], stripes=stripes, on=on)
        except errors.NoRoomError:
            if not on:
                raise
            await self._lvm.create(group, name, disk.size, tags=[calls.OWNER_TAG + owner], stripes=stripes)

    def _no_space(self, size: int, group: calls.VolumeGroup) -> errors.NoRoomError:
        return errors.NoRoomError(
            f"disk of {size} MiB does not fit, {group.free} MiB are free in {group.name} on node {self._tools.node}"
        )

    async def adopt(self, disk: calls.Disk, source: str, *, owner: str) -> int:
        """Rename the volume ``source``, in the disk's group, to the disk's name and tag it with its owner."""
        group, name = self._names(disk.logical_id)
        volume = await self._lvm.volume(group, source)
        if volume is None:
            volume = await self._existing(disk)
        elif volume.open:
            raise errors.WrongStateError(
                f"volume {group}/{source} on node {self._tools.node} is in use",
                hint="stop the program that uses it, or choose another volume",
            )
        else:
            await self._lvm.rename(group, source, name)
        await self._tag_owner(disk, volume, owner)
        return volume.size

    async def _existing(self, disk: calls.Disk) -> calls.Volume:
        volume = await self._lvm.volume(*self._names(disk.logical_id))
        if volume is None:
            raise errors.NotFoundError(
                f"disk {disk.index}: there is no volume {self.path(disk)} on node {self._tools.node}"
            )
        return volume

    async def _tag_owner(self, disk: calls.Disk, volume: calls.Volume, owner: str) -> None:
        old = [tag for tag in volume.tags if tag.startswith(calls.OWNER_TAG) and tag != calls.OWNER_TAG + owner]
        if old or calls.OWNER_TAG + owner not in volume.tags:
            await self._lvm.tag(*self._names(disk.logical_id), add=[calls.OWNER_TAG + owner], remove=old)

    async def remove(self, disk: calls.Disk) -> None:
        """Remove the volume; it must not be open."""
        if await self._lvm.volume(*self._names(disk.logical_id)):
            await self._lvm.remove(*disk.logical_id)

    async def find(self, disk: calls.Disk) -> calls.DiskState | None:
        """Describe the volume."""
        volume = await self._lvm.volume(*self._names(disk.logical_id))
        if volume is None:
            return None
        problem = (
            f"a physical volume under {self.path(disk)} on node {self._tools.node} is missing" if volume.partial else ""
        )
        return calls.DiskState(
            path=self.path(disk),
            size=volume.size,
            active=volume.active,
            degraded=volume.partial,
            problem=problem,
            on=volume.on,
        )

    async def activate(self, disk: calls.Disk, *, primary: bool) -> str:
        """Activate the volume."""
        volume = await self._existing(disk)
        if volume.partial:
            raise errors.EnvironmentFaultError(
                f"disk {disk.index}: a physical volume under {self.path(disk)} on node {self._tools.node} is missing",
                hint="reconnect it; if it is lost, repair the volume group and replace the instance's disk",
            )
        if not volume.active:
            await self._lvm.activate(*disk.logical_id, active=True)
        if volume.active or disk.mode == "ro":
            await self._set_mode(disk, number=volume.number)
        return self.path(disk)

    async def deactivate(self, disk: calls.Disk) -> None:
        """Deactivate the volume."""
        volume = await self._lvm.volume(*self._names(disk.logical_id))
        if volume and volume.active:
            await self._lvm.activate(*disk.logical_id, active=False)

    async def open(self, disk: calls.Disk, *, force: bool) -> None:
        """Do nothing: a volume has no mirror."""

    async def close(self, disk: calls.Disk) -> None:
        """Do nothing: a volume has no mirror."""

    async def expose(self, disk: calls.Disk) -> str:
        """Return the volume's path, which has the disk's content itself."""
        return self.path(disk)

    async def conceal(self, disk: calls.Disk) -> None:
        """Do nothing."""

    async def set_mode(self, disk: calls.Disk) -> None:
        """Set or clear the kernel's read-only flag of the volume's device."""
        await self._set_mode(disk)

    async def _set_mode(self, disk: calls.Disk, *, number: str = "") -> None:
        if self._lvm.mapper:
            await self._tools.set_mode(self.path(disk), disk.mode, number=number)

    async def grow(self, disk: calls.Disk, size: int, *, backing: bool, dry_run: bool) -> None:
        """Extend the volume."""
        volume = await self._existing(disk)
        if volume.size >= size:
            return
        group = await self._lvm.group(disk.logical_id[0])
        if size - volume.size > group.free:
            raise self._no_space(size - volume.size, group)
        if not dry_run:
            await self._lvm.extend(*self._names(disk.logical_id), size)

    async def snapshot(self, disk: calls.Disk, name: str) -> tuple[str, tuple[str, ...]]:
        """Create an LVM snapshot."""
        origin, group = await self._existing(disk), await self._lvm.group(disk.logical_id[0])
        snapshot = await self._lvm.volume(group.name, name)
        if snapshot is None:
            if origin.size > group.free:
                raise self._no_space(origin.size, group)
            await self._lvm.snapshot(group.name, name, origin=origin)
        elif snapshot.origin != origin.name:
            raise errors.ExistsError(f"volume {group.name}/{name} exists already on node {self._tools.node}")
        return KIND, (group.name, name)

    async def rename(self, disk: calls.Disk, to: tuple[str, ...]) -> None:
        """Rename the volume inside its group."""
        group, name = self._names(disk.logical_id)
        new_group, new = self._names(to)
        if new_group != group:
            raise errors.InvalidError(f"a volume cannot be renamed from group {group} to {new_group}")
        if await self._lvm.volume(group, new) is None:
            await self._existing(disk)
            await self._lvm.rename(group, name, new)

    async def set_info(self, disk: calls.Disk, owner: str) -> None:
        """Tag the volume with its instance."""
        await self._tag_owner(disk, await self._existing(disk), owner)

    async def wipe(self, disk: calls.Disk, *, offset: int, size: int) -> None:
        """Write zeros to the volume."""
        await self._tools.wipe(self.path(disk), offset=offset, size=size)

    async def storage(self, name: str) -> calls.StorageInfo:
        """Return the capacity of a volume group."""
        group = await self._lvm.group(name)
        return calls.StorageInfo(kind=KIND, path=name, free=group.free, total=group.size)

    async def verify(self, name: str) -> list[str]:
        """Report missing physical volumes and the volumes on them; EnvironmentFaultError if there is no such group."""
        group = await self._lvm.group(name)
        if not group.missing:
            return []
        lost = [volume.name for volume in await self._lvm.volumes(name) if volume.partial]
        return [
            f"volume group {name} misses {group.missing} of its physical volumes, and with them "
            f"{', '.join(lost) or 'no volumes'}; reconnect the disk, or repair the group and replace the disks"
        ]


def stripes_of(disk: calls.Disk) -> int:
    """Return the number of physical volumes to spread a disk over."""
    return max(1, int(disk.params.get("stripes", 1)))


def spread(free: Mapping[str, int], requests: Sequence[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Choose physical volumes for the volumes of an instance, requested as (size in MiB, stripes); pure.

    ``free`` has the free MiB of each physical volume. The function chooses as few of them as have enough space for all
    requests, those with most free space first, so that usage stays even over the group. A volume gets one of the chosen
    for each stripe, with enough space each; if there are too few of those, it gets all chosen ones, and LVM divides it
    among them.
    """
    order = sorted(free, key=lambda name: (-free[name], name))
    count = max([1, *(stripes for _, stripes in requests)])
    total = sum(size for size, _ in requests)
    while count < len(order) and sum(free[name] for name in order[:count]) < total:
        count += 1
    remaining = {name: free[name] for name in order[:count]}
    chosen: list[tuple[str, ...]] = []
    for size, stripes in requests:
        stripe_size = -(-size // stripes)
        sufficient = tuple(name for name in remaining if remaining[name] >= stripe_size)[:stripes]
        on = sufficient if len(sufficient) == stripes else tuple(remaining)
        for name in on:
            remaining[name] -= -(-size // len(on))
        chosen.append(on)
    return chosen

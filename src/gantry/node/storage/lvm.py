"""LVM by its own commands: reports read as JSON, volumes made, grown and removed, groups repaired.

``plain`` and ``drbd`` make disks with it, ``daemon.disk_calls`` answers calls about groups. Sizes are MiB; LVM rounds a
volume up to whole extents. A volume group that has lost a physical volume can be read but not changed before
``reduce``.

Without a device mapper (``mapper=False``) all of LVM's records are kept as always but no volume can be activated: the
tests of machines whose kernel has none run so.
"""

import re
from collections.abc import Sequence

import msgspec

from gantry import errors
from gantry.node.storage import programs
from gantry.rpc import calls

PACKAGE = "lvm2"
MIB = programs.MIB
_NAME = re.compile(r"(?!-)(?!\.{1,2}$)[A-Za-z0-9+_.-]{1,127}")
_VOLUME = "lv_name,lv_size,lv_tags,lv_attr,origin,devices,lv_kernel_major,lv_kernel_minor"
_GROUP = "vg_name,vg_size,vg_free,vg_extent_size,vg_missing_pv_count,pv_name,pv_size,pv_free,pv_missing,pv_allocatable"
Row = dict[str, str]


class _Report(msgspec.Struct):
    report: list[dict[str, list[Row]]]


class Lvm:
    """LVM on one node."""

    def __init__(self, tools: programs.Programs, *, mapper: bool = True) -> None:
        self._tools = tools
        self.node = tools.node
        self.mapper = mapper
        self._options = () if mapper else ("--driverloaded", "n")

    async def groups(self) -> tuple[calls.VolumeGroup, ...]:
        """List the volume groups, with the physical volumes that are there and take extents."""
        rows = await self._report("pvs", _GROUP)
        return tuple(_group(name, rows) for name in sorted({row["vg_name"] for row in rows} - {""}))

    async def group(self, name: str) -> calls.VolumeGroup:
        """Describe a volume group; EnvironmentFaultError when it is gone."""
        rows = await self._report("pvs", _GROUP, "--select", f'vg_name="{checked(name)}"')
        if not rows:
            raise self._gone(name)
        return _group(name, rows)

    async def volumes(self, group: str) -> tuple[calls.Volume, ...]:
        """List the logical volumes of a group."""
        return _volumes(await self._report("lvs", _VOLUME, checked(group)))

    async def volume(self, group: str, name: str) -> calls.Volume | None:
        """Describe a logical volume; None when it is not there, EnvironmentFaultError when its group is gone."""
        choice = ("--select", f'lv_name="{checked(name)}"')
        found = _volumes(await self._report("lvs", _VOLUME, *choice, checked(group)))
        return found[0] if found else None

    async def create(
        self, group: str, name: str, size: int, *, tags: Sequence[str], stripes: int = 1, on: Sequence[str] = ()
    ) -> None:
        """Make a volume, its first bytes zero and without traces of what was there; NoRoomError."""
        made = ["--wipesignatures", "y", "--zero", "y"] if self.mapper else ["-an", "-Wn", "-Zn"]
        spread = ["--stripes", str(stripes)] if stripes > 1 else []
        labels = [word for tag in tags for word in ("--addtag", tag)]
        await self._change(
            "lvcreate",
            "--yes",
            *made,
            "--name",
            checked(name),
            "--size",
            f"{size}m",
            *spread,
            *labels,
            checked(group),
            *on,
        )

    async def snapshot(self, group: str, name: str, *, origin: calls.Volume) -> None:
        """Make a snapshot that has room for every block of its origin to change."""
        size = f"{origin.size + origin.size // 64 + 4}m"
        labels = [word for tag in origin.tags for word in ("--addtag", tag)]
        await self._change(
            "lvcreate",
            "--yes",
            "--snapshot",
            "--name",
            checked(name),
            "--size",
            size,
            *labels,
            f"{group}/{origin.name}",
        )

    async def extend(self, group: str, name: str, size: int) -> None:
        """Grow a volume; NoRoomError."""
        await self._change("lvextend", "--size", f"{size}m", f"{group}/{name}")

    async def remove(self, group: str, name: str) -> None:
        """Remove a volume with its snapshots."""
        await self._change("lvremove", "--yes", "--force", f"{group}/{name}")

    async def rename(self, group: str, old: str, new: str) -> None:
        """Rename a volume."""
        await self._change("lvrename", checked(group), checked(old), checked(new))

    async def tag(self, group: str, name: str, *, add: Sequence[str], remove: Sequence[str] = ()) -> None:
        """Change the tags of a volume."""
        words = [word for tag in add for word in ("--addtag", tag)]
        words += [word for tag in remove for word in ("--deltag", tag)]
        await self._change("lvchange", *words, f"{group}/{name}")

    async def activate(self, group: str, name: str, *, active: bool) -> None:
        """Let the kernel have a volume, or take it away from it."""
        await self._change("lvchange", "--activate", "y" if active else "n", f"{group}/{name}")

    async def allocate(self, device: str, *, allocatable: bool) -> None:
        """Let new volumes take extents of a physical volume, or not; NotFoundError where it is none of a group."""
        known = {one.name: one for group in await self.groups() for one in group.physical}
        if device not in known:
            raise errors.NotFoundError(
                f"node {self.node} has no physical volume {device}",
                hint=f"there are {', '.join(sorted(known)) or 'none'}",
            )
        # LVM fails where there is nothing to change.
        if known[device].allocatable != allocatable:
            await self._change("pvchange", "--allocatable", "y" if allocatable else "n", device)

    async def reduce(self, group: str, *, force: bool) -> tuple[str, ...]:
        """Take missing physical volumes out of a group; return the volumes that are gone with them.

        WrongStateError names the volumes that stand in the way without ``force``. A group that misses none is left
        alone.
        """
        if not (await self.group(group)).missing:
            return ()
        before = await self.volumes(group)
        partial = [volume.name for volume in before if volume.partial]
        if partial and not force:
            raise errors.WrongStateError(
                f"volume group {group} on node {self.node} has volumes on a physical volume that is missing: "
                + ", ".join(partial),
                hint="bring the disk back, or force the repair: it removes these volumes",
            )
        await self._change("vgreduce", "--removemissing", *(("--force",) if force else ()), group)
        left = {volume.name for volume in await self.volumes(group)}
        return tuple(volume.name for volume in before if volume.name not in left)

    async def _report(self, program: str, fields: str, *rest: str) -> list[Row]:
        words = ("--reportformat", "json", "--units", "b", "--nosuffix", "--options", fields)
        done = await self._tools.run(program, *words, *rest, *self._options, package=PACKAGE)
        if done.code:
            raise self._failure(program, programs.said(done))
        decoded = msgspec.json.decode(done.stdout, type=_Report)
        return [row for part in decoded.report for rows in part.values() for row in rows]

    async def _change(self, program: str, *arguments: str) -> None:
        done = await self._tools.run(program, "--quiet", *arguments, *self._options, package=PACKAGE)
        if done.code:
            raise self._failure(program, programs.said(done))

    def _gone(self, group: str) -> errors.EnvironmentFaultError:
        return errors.EnvironmentFaultError(
            f"there is no volume group {group} on node {self.node}",
            hint="pvs and vgs show there what LVM sees; is its disk lost?",
        )

    def _failure(self, program: str, text: str) -> errors.GantryError:
        """Return the error that LVM's own words amount to."""
        where = f"on node {self.node}"
        if found := re.search(r'[Vv]olume group "?([\w.+-]+)"? not found|process volume group ([\w.+-]+)', text):
            return self._gone(found[1] or found[2])
        if re.search(r"insufficient (free space|suitable)|have space available", text, re.IGNORECASE):
            return errors.NoRoomError(f"the volume does not fit {where}: {text}")
        if "already exists in volume group" in text:
            return errors.ExistsError(f"{text} {where}")
        if "are missing" in text or "is missing" in text:
            return errors.EnvironmentFaultError(
                f"a physical volume is missing {where}: {text}", hint="bring its disk back, or repair the volume group"
            )
        if "in use" in text or "used by another device" in text:
            return errors.WrongStateError(f"{text} {where}", hint="stop what uses it")
        return errors.BlockDeviceError(f"{program} failed {where}: {text}")


def checked(name: str) -> str:
    """Return a name that LVM takes for a group or a volume; InvalidError, because it comes over the wire."""
    if not _NAME.fullmatch(name):
        raise errors.InvalidError(f"{name!r} is no name for a volume or a volume group")
    return name


def _group(name: str, rows: Sequence[Row]) -> calls.VolumeGroup:
    """Return a group from the rows of its physical volumes, each of which tells of the group too."""
    members = [row for row in rows if row["vg_name"] == name]
    first = members[0]
    physical = tuple(
        calls.PhysicalVolume(
            name=row["pv_name"],
            size=int(row["pv_size"]) // MIB,
            free=int(row["pv_free"]) // MIB,
            allocatable=bool(row["pv_allocatable"]),
        )
        for row in members
        if not row["pv_missing"]
    )
    return calls.VolumeGroup(
        name=name,
        size=int(first["vg_size"]) // MIB,
        free=int(first["vg_free"]) // MIB,
        extent=int(first["vg_extent_size"]) / MIB,
        missing=int(first["vg_missing_pv_count"]),
        on={one.name: one.free for one in physical if one.allocatable},
        physical=physical,
    )


def _volumes(rows: Sequence[Row]) -> tuple[calls.Volume, ...]:
    """Put the rows together, of which a volume has one per segment; ``lv_attr`` is a letter per property."""
    found: dict[str, calls.Volume] = {}
    for row in rows:
        name, attributes = row["lv_name"], row["lv_attr"].ljust(10, "-")
        devices = [re.sub(r"\(\d+\)$", "", device) for device in row["devices"].split(",") if device[:1] == "/"]
        before = found[name].on if name in found else ()
        found[name] = calls.Volume(
            name=name,
            size=-(-int(row["lv_size"]) // MIB),
            tags=tuple(tag for tag in row["lv_tags"].split(",") if tag),
            on=tuple(dict.fromkeys((*before, *devices))),
            origin=row["origin"],
            active=attributes[4] in "aiIsSmM",
            open=attributes[5] == "o",
            partial=attributes[8] == "p",
            number=f"{row['lv_kernel_major']}:{row['lv_kernel_minor']}",
        )
    return tuple(found.values())

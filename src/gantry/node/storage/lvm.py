"""LVM, through its commands: reads reports as JSON, creates, grows and removes volumes, repairs volume groups.

``plain`` and ``drbd`` create disks with it, ``daemon.disk_calls`` answers calls about groups. Sizes are MiB; LVM rounds
a volume up to whole extents. A volume group that has lost a physical volume can be read, but not changed until
``reduce`` has repaired it.

Without a device mapper (``mapper=False``) LVM keeps all of its records as usual, but cannot activate volumes; tests use
that on machines whose kernel has no device mapper.
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
    """LVM on a node."""

    def __init__(self, tools: programs.Programs, *, mapper: bool = True) -> None:
        self._tools = tools
        self.mapper = mapper
        self._options = () if mapper else ("--driverloaded", "n")

    async def groups(self) -> tuple[calls.VolumeGroup, ...]:
        """Return the volume groups, by name, with those of their physical volumes that are present."""
        rows = await self._report("pvs", _GROUP)
        return tuple(_group(name, rows) for name in sorted({row["vg_name"] for row in rows} - {""}))

    async def group(self, name: str) -> calls.VolumeGroup:
        """Describe a volume group; EnvironmentFaultError if it does not exist."""
        rows = await self._report("pvs", _GROUP, "--select", f'vg_name="{checked(name)}"')
        if not rows:
            raise self._group_missing(name)
        return _group(name, rows)

    async def volumes(self, group: str) -> tuple[calls.Volume, ...]:
        """Return the logical volumes of a group."""
        return _volumes(await self._report("lvs", _VOLUME, checked(group)))

    async def volume(self, group: str, name: str) -> calls.Volume | None:
        """Describe a logical volume; None if it does not exist, EnvironmentFaultError if its group does not."""
        selection = ("--select", f'lv_name="{checked(name)}"')
        volumes = _volumes(await self._report("lvs", _VOLUME, *selection, checked(group)))
        return volumes[0] if volumes else None

    async def create(
        self, group: str, name: str, size: int, *, tags: Sequence[str], stripes: int = 1, on: Sequence[str] = ()
    ) -> None:
        """Create a volume, with its first bytes zeroed and old signatures wiped; NoRoomError."""
        clearing = ["--wipesignatures", "y", "--zero", "y"] if self.mapper else ["-an", "-Wn", "-Zn"]
        striping = ["--stripes", str(stripes)] if stripes > 1 else []
        tagging = [word for tag in tags for word in ("--addtag", tag)]
        await self._change(
            "lvcreate",
            "--yes",
            *clearing,
            "--name",
            checked(name),
            "--size",
            f"{size}m",
            *striping,
            *tagging,
            checked(group),
            *on,
        )

    async def snapshot(self, group: str, name: str, *, origin: calls.Volume) -> None:
        """Create a snapshot with enough space for a change of every block of its origin."""
        size = f"{origin.size + origin.size // 64 + 4}m"
        tagging = [word for tag in origin.tags for word in ("--addtag", tag)]
        await self._change(
            "lvcreate",
            "--yes",
            "--snapshot",
            "--name",
            checked(name),
            "--size",
            size,
            *tagging,
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
        """Activate or deactivate a volume."""
        await self._change("lvchange", "--activate", "y" if active else "n", f"{group}/{name}")

    async def allocate(self, device: str, *, allocatable: bool) -> None:
        """Allow or forbid new volumes on a physical volume; NotFoundError if it does not belong to a group."""
        known = {volume.name: volume for group in await self.groups() for volume in group.physical}
        if device not in known:
            raise errors.NotFoundError(
                f"node {self._tools.node} has no physical volume {device}",
                hint=f"available: {', '.join(sorted(known)) or 'none'}",
            )
        # LVM fails if the volume already has the value.
        if known[device].allocatable != allocatable:
            await self._change("pvchange", "--allocatable", "y" if allocatable else "n", device)

    async def reduce(self, group: str, *, force: bool) -> tuple[str, ...]:
        """Remove missing physical volumes from a group; return the logical volumes that are lost with them.

        WrongStateError, which names these logical volumes, if there are any and ``force`` is not set. A group without
        missing physical volumes does not change.
        """
        if not (await self.group(group)).missing:
            return ()
        before = await self.volumes(group)
        partial = [volume.name for volume in before if volume.partial]
        if partial and not force:
            raise errors.WrongStateError(
                f"volume group {group} on node {self._tools.node} has volumes on a physical volume that is missing: "
                + ", ".join(partial),
                hint="reconnect the disk, or force the repair, which removes these volumes",
            )
        await self._change("vgreduce", "--removemissing", *(("--force",) if force else ()), group)
        remaining = {volume.name for volume in await self.volumes(group)}
        return tuple(volume.name for volume in before if volume.name not in remaining)

    async def _report(self, program: str, fields: str, *arguments: str) -> list[Row]:
        options = ("--reportformat", "json", "--units", "b", "--nosuffix", "--options", fields)
        process = await self._tools.run(program, *options, *arguments, *self._options, package=PACKAGE)
        if process.code:
            raise self._failure(program, programs.failure_reason(process))
        decoded = msgspec.json.decode(process.stdout, type=_Report)
        return [row for part in decoded.report for rows in part.values() for row in rows]

    async def _change(self, program: str, *arguments: str) -> None:
        process = await self._tools.run(program, "--quiet", *arguments, *self._options, package=PACKAGE)
        if process.code:
            raise self._failure(program, programs.failure_reason(process))

    def _group_missing(self, group: str) -> errors.EnvironmentFaultError:
        return errors.EnvironmentFaultError(
            f"there is no volume group {group} on node {self._tools.node}",
            hint="check there with pvs and vgs whether the group's disk is lost",
        )

    def _failure(self, program: str, text: str) -> errors.GantryError:
        """Return the error for a message of LVM."""
        where = f"on node {self._tools.node}"
        if match := re.search(r'[Vv]olume group "?([\w.+-]+)"? not found|process volume group ([\w.+-]+)', text):
            return self._group_missing(match[1] or match[2])
        if re.search(r"insufficient (free space|suitable)|have space available", text, re.IGNORECASE):
            return errors.NoRoomError(f"the volume does not fit {where}: {text}")
        if "already exists in volume group" in text:
            return errors.ExistsError(f"{text} {where}")
        if "are missing" in text or "is missing" in text:
            return errors.EnvironmentFaultError(
                f"a physical volume is missing {where}: {text}", hint="reconnect its disk, or repair the volume group"
            )
        if "in use" in text or "used by another device" in text:
            return errors.WrongStateError(f"{text} {where}", hint="stop the program that uses it")
        return errors.BlockDeviceError(f"{program} failed {where}: {text}")


def checked(name: str) -> str:
    """Return the name if it is valid for an LVM group or volume; InvalidError. Names come over the wire."""
    if not _NAME.fullmatch(name):
        raise errors.InvalidError(f"{name!r} is not a valid name of a volume or volume group")
    return name


def _group(name: str, rows: Sequence[Row]) -> calls.VolumeGroup:
    """Return a group from the rows of its physical volumes; each row has the group's values too."""
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
        on={volume.name: volume.free for volume in physical if volume.allocatable},
        physical=physical,
    )


def _volumes(rows: Sequence[Row]) -> tuple[calls.Volume, ...]:
    """Return the volumes from rows, each row a segment of a volume; ``lv_attr`` has a letter per property."""
    volumes: dict[str, calls.Volume] = {}
    for row in rows:
        name, attributes = row["lv_name"], row["lv_attr"].ljust(10, "-")
        devices = [re.sub(r"\(\d+\)$", "", device) for device in row["devices"].split(",") if device[:1] == "/"]
        before = volumes[name].on if name in volumes else ()
        volumes[name] = calls.Volume(
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
    return tuple(volumes.values())

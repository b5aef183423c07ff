"""LVM of a simulated machine: one volume group, and the commands that ``node.storage.lvm`` runs.

Volumes survive a power loss, as LVM writes its records at once. ``broken`` is the share of changes that fail.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from gantry.runtime import commands, interface
from gantry.runtime.simulated import processes

GROUP = "xenvg"
DEVICE = "/dev/sdb"
SIZE = 8192
"""MiB of the group: so few that it runs full sometimes."""
MIB = 1 << 20
SECONDS = (0.005, 0.03)
"""The time of a command."""


@dataclass
class Generation:
    """DRBD's metadata of a copy (``mirrors``): its version, 0 without data, earlier ones; whether it is incomplete."""

    version: int = 0
    history: frozenset[int] = frozenset()
    partial: bool = False

    @property
    def complete(self) -> bool:
        """Return whether the copy has data of one moment."""
        return bool(self.version) and not self.partial


@dataclass
class Volume:
    """A logical volume: MiB, tags, and what was written to it; ``generation`` is DRBD's metadata on it, if any."""

    name: str
    size: int
    tags: list[str]
    active: bool = True
    origin: str = ""
    content: bytes = b""
    number: int = 0
    generation: Generation | None = None


@dataclass(frozen=True)
class Failure(Exception):  # noqa: N818 - the message of a program, not an error of the simulation
    """A command fails with this message."""

    text: str


@dataclass
class Words:
    """The words of a command line: options with their values, and the other words."""

    options: dict[str, list[str]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)

    def first(self, option: str) -> str:
        """Return an option's first value; empty if it is not there."""
        return next(iter(self.options.get(option, ())), "")


WITH_VALUE = (
    "--reportformat", "--units", "--options", "--select", "--name", "--size", "--addtag", "--deltag", "--stripes",
    "--wipesignatures", "--zero", "--activate", "--allocatable",
)  # fmt: skip


def split(arguments: Sequence[str]) -> Words:
    """Separate options from other words."""
    words, remaining = Words(), list(arguments)
    while remaining:
        word = remaining.pop(0)
        if word in WITH_VALUE:
            words.options.setdefault(word, []).append(remaining.pop(0))
        elif word.startswith("-"):
            words.options.setdefault(word, []).append("")
        else:
            words.others.append(word)
    return words


class Volumes:
    """The volume group of a machine, and the programs that read and change it."""

    def __init__(self, clock: interface.Clock, source: random.Random) -> None:
        self.by_name: dict[str, Volume] = {}
        self.broken = 0.0
        self.allocatable = True
        self._clock = clock
        self._random = source
        self._numbers = 0

    def install(self, programs: dict[str, processes.Program]) -> None:
        """Add the commands of LVM to a machine's programs."""
        reports: dict[str, Callable[[Words], object]] = {"pvs": self._physical, "lvs": self._logical}
        changes = {
            "lvcreate": self._create,
            "lvextend": self._extend,
            "lvremove": self._remove,
            "lvrename": self._rename,
            "lvchange": self._change,
            "pvchange": self._allocate,
        }
        programs.update({name: self._reporting(report) for name, report in reports.items()})
        programs.update({name: self._changing(change) for name, change in changes.items()})

    def at(self, path: str) -> Volume | None:
        """Return the volume with a device path; None if there is none."""
        return self.by_name.get(path.removeprefix(f"/dev/{GROUP}/")) if path.startswith(f"/dev/{GROUP}/") else None

    def _reporting(self, report: Callable[[Words], object]) -> processes.Program:
        async def run(call: processes.Invocation) -> commands.Completed:
            await self._clock.sleep(self._random.uniform(*SECONDS))
            try:
                rows = report(split(call.arguments[1:]))
            except Failure as failure:
                return commands.Completed(5, b"", failure.text.encode())
            return commands.Completed(0, msgspec.json.encode({"report": [{"rows": rows}]}), b"")

        return run

    def _changing(self, change: Callable[[Words], None]) -> processes.Program:
        async def run(call: processes.Invocation) -> commands.Completed:
            await self._clock.sleep(self._random.uniform(*SECONDS))
            if self.broken and self._random.random() < self.broken:
                return commands.Completed(5, b"", b"  device-mapper: ioctl failed: Input/output error")
            try:
                change(split(call.arguments[1:]))
            except Failure as failure:
                return commands.Completed(5, b"", failure.text.encode())
            return commands.Completed(0, b"", b"")

        return run

    @property
    def free(self) -> int:
        """Return the free MiB of the group."""
        return SIZE - sum(volume.size for volume in self.by_name.values())

    def _physical(self, words: Words) -> object:
        if (choice := words.first("--select")) and f'"{GROUP}"' not in choice:
            return []
        size, free = str(SIZE * MIB), str(self.free * MIB)
        return [
            {
                "vg_name": GROUP,
                "vg_size": size,
                "vg_free": free,
                "vg_extent_size": str(4 * MIB),
                "vg_missing_pv_count": "0",
                "pv_name": DEVICE,
                "pv_size": size,
                "pv_free": free,
                "pv_missing": "",
                "pv_allocatable": "allocatable" if self.allocatable else "",
            }
        ]

    def _logical(self, words: Words) -> object:
        self._check_group(words.others[0])
        name = words.first("--select").partition('"')[2].rstrip('"')
        return [
            {
                "lv_name": volume.name,
                "lv_size": str(volume.size * MIB),
                "lv_tags": ",".join(volume.tags),
                "lv_attr": f"-wi-{'a' if volume.active else '-'}-----",
                "origin": volume.origin,
                "devices": f"{DEVICE}(0)",
                "lv_kernel_major": "253",
                "lv_kernel_minor": str(volume.number),
            }
            for volume in self.by_name.values()
            if name in ("", volume.name)
        ]

    def _check_group(self, name: str) -> None:
        if name != GROUP:
            raise Failure(f'  Volume group "{name}" not found')

    def _existing(self, name: str) -> Volume:
        group, _, volume = name.partition("/")
        self._check_group(group)
        if volume not in self.by_name:
            raise Failure(f'  Failed to find logical volume "{name}"')
        return self.by_name[volume]

    def _create(self, words: Words) -> None:
        group, _, origin = words.others[0].partition("/")
        self._check_group(group)
        name, size = words.first("--name"), -(-int(words.first("--size").removesuffix("m")) // 4) * 4
        if name in self.by_name:
            raise Failure(f'  Logical volume "{name}" already exists in volume group "{GROUP}"')
        if size > self.free or not self.allocatable:
            raise Failure(f'  Volume group "{GROUP}" has insufficient free space')
        self._numbers += 1
        content = self.by_name[origin].content if origin else b""
        self.by_name[name] = Volume(
            name, size, words.options.get("--addtag", []), origin=origin, content=content, number=self._numbers
        )

    def _extend(self, words: Words) -> None:
        volume, size = self._existing(words.others[0]), int(words.first("--size").removesuffix("m"))
        if size - volume.size > self.free:
            raise Failure("  Insufficient free space")
        volume.size = max(volume.size, -(-size // 4) * 4)

    def _remove(self, words: Words) -> None:
        volume = self._existing(words.others[0])
        snapshots = [each.name for each in self.by_name.values() if each.origin == volume.name]
        for name in (volume.name, *snapshots):
            del self.by_name[name]

    def _rename(self, words: Words) -> None:
        group, old, new = words.others
        volume = self._existing(f"{group}/{old}")
        if new in self.by_name:
            raise Failure(f'  Logical volume "{new}" already exists in volume group "{group}"')
        del self.by_name[old]
        volume.name = new
        self.by_name[new] = volume

    def _change(self, words: Words) -> None:
        volume = self._existing(words.others[0])
        removed = words.options.get("--deltag", [])
        added = [tag for tag in words.options.get("--addtag", []) if tag not in volume.tags]
        volume.tags = [tag for tag in volume.tags if tag not in removed] + added
        if words.first("--activate"):
            volume.active = words.first("--activate") == "y"

    def _allocate(self, words: Words) -> None:
        self.allocatable = words.first("--allocatable") == "y"

"""Disks to be: from what is asked for to what the state holds, and whose volumes are whose. Pure.

Used wherever disks are made: with a new instance, added to one that exists, made anew after they were lost. What a kind
of disks does not have is refused with what it has; names are the node's driver's (``calls.BlockdevPath``).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import structs

from gantry import errors
from gantry.ipam import mirrors
from gantry.model import instance, opcodes, parameters, templates
from gantry.operations import base
from gantry.rpc import calls
from gantry.state import snapshot as states

OWN: dict[str, tuple[str, ...]] = {
    "file": ("path", "format", "adopt"),
    "sharedfile": ("path", "format", "adopt"),
    "plain": ("vg", "adopt"),
    "drbd": ("vg", "metavg"),
    "ext": ("provider", "access", "params"),
}
"""What only some kinds of disks have."""

MODES = {"w": "rw", "r": "ro"}
_VOLUME = re.compile(r"[A-Za-z0-9+_.][A-Za-z0-9+_.-]{0,126}")
_SECRET = 1 << 160


def is_volume_name(name: str) -> bool:
    """Tell whether a volume or a volume group can have a name."""
    return bool(_VOLUME.fullmatch(name)) and name not in (".", "..")


def check(spec: opcodes.DiskSpec, index: int, *, template: str) -> None:
    """Refuse what disks of a template do not have, or have to have; raises InvalidError."""
    own = OWN[template]
    strange = {name for names in OWN.values() for name in names} - {*own}
    if wrong := sorted(name for name in strange if getattr(spec, name)):
        raise errors.InvalidError(
            f"disk {index}: disks of template {template} have no {wrong[0]}",
            hint=f"they have size, mode, name, {', '.join(own)}",
        )
    if template == "ext" and not spec.provider:
        raise errors.InvalidError(f"disk {index}: no provider is named", hint="as in --disk 0:size=10g,provider=NAME")
    for name in (spec.vg, spec.metavg):
        if name is not None and not is_volume_name(name):
            raise errors.InvalidError(f"disk {index}: {name!r} is no name of a volume group")
    if spec.adopt and spec.size != "auto":
        raise errors.InvalidError(
            f"disk {index}: what is adopted has its size already", hint=f"leave size={spec.size} out"
        )


def check_template(snapshot: states.Snapshot, template: str) -> None:
    """Refuse a template that there is not, or that the cluster does not allow; raises InvalidError."""
    enabled = snapshot.the_cluster.enabled_disk_templates
    if template not in parameters.DISK_TEMPLATES:
        raise parameters.unknown("disk template", [template], parameters.DISK_TEMPLATES)
    if template not in enabled:
        raise errors.InvalidError(f"disk template {template} is not enabled", hint=f"enabled are {', '.join(enabled)}")


def size(snapshot: states.Snapshot, spec: opcodes.DiskSpec, index: int) -> int:
    """Return the size of a disk in MiB; ``auto`` is the cluster's default.

    See contracts/cluster-design.md#sizes-of-disks.
    """
    default = snapshot.the_cluster.default_disk_size
    if spec.adopt:
        return 0
    if spec.size == "auto" and not default:
        raise errors.InvalidError(
            f"disk {index} has no size, and the cluster has no default for it",
            hint=f"say it, as in {index}:size=10g; or gnt-cluster modify --defaults disksize=10g",
        )
    found = default if spec.size == "auto" else parameters.size(spec.size)
    if found <= 0:
        raise errors.InvalidError(f"disk {index}: size {spec.size} is not above 0 MiB")
    return found


def units(snapshot: states.Snapshot, template: str, specs: Sequence[opcodes.DiskSpec]) -> tuple[calls.StorageUnit, ...]:
    """Return the storage places that disks are taken from, for a look at their room."""
    if template in templates.IN_VOLUME_GROUPS:
        names = [spec.vg or snapshot.the_cluster.vg_name for spec in specs]
        return tuple(calls.StorageUnit(kind=template, name=name) for name in dict.fromkeys(names))
    if template == "ext":
        # A provider has no word for how much room it has.
        return ()
    return (calls.StorageUnit(kind=template),) if template != "diskless" else ()


def places(snapshot: states.Snapshot) -> tuple[calls.StorageUnit, ...]:
    """Return the storage places that the cluster's templates draw from, the default template's first."""
    found: tuple[calls.StorageUnit, ...] = ()
    for template in snapshot.the_cluster.enabled_disk_templates:
        found += units(snapshot, template, [opcodes.DiskSpec()])
    return found or (calls.StorageUnit(kind="file"),)


def volumes_of(held: Iterable[instance.Disk]) -> list[tuple[str, str]]:
    """Return the logical volumes that disks have on each of their nodes, group and name."""
    plain = [part for disk in held for part in (disk.children or (disk,)) if part.dev_type == "plain"]
    return [(part.logical_id[0], part.logical_id[1]) for part in plain]


def owners_of_volumes(snapshot: states.Snapshot) -> dict[tuple[str, str, str], str]:
    """Return the instance of each volume, by UUID of the node, group and name."""
    holders = [(vm.name, vm.nodes, vm.disks) for vm in snapshot.instances.values()]
    holders += [("(detached)", one.nodes, (one.disk,)) for one in snapshot.disks.values()]
    return {(node, *volume): name for name, nodes, held in holders for node in nodes for volume in volumes_of(held)}


@dataclass(frozen=True)
class Maker:
    """Makes disks of one template for nodes, whose UUIDs stand with the primary one first."""

    snapshot: states.Snapshot
    template: str
    nodes: tuple[str, ...]
    inputs: base.Inputs
    picks: mirrors.Picks

    def make(self, index: int, spec: opcodes.DiskSpec, *, size: int, uuid: str, name: str) -> instance.Disk:
        """Return a disk; ``name`` is what its driver calls it, the last part of its logical id."""
        disk = instance.Disk(
            uuid=uuid,
            dev_type=self.template,
            size=size,
            name=spec.name or "",
            mode=MODES.get(spec.mode, spec.mode),
        )
        match self.template:
            case "plain":
                return structs.replace(disk, logical_id=(self._group(spec), name))
            case "drbd":
                return structs.replace(disk, children=self._children(spec, disk, name), mirror=self.mirror())
            case "ext":
                provider = str(spec.provider)
                own = {"provider": provider} | ({"access": spec.access} if spec.access else {})
                return structs.replace(disk, logical_id=(provider, name), params={**spec.params, **own})
            case _:
                own = {"format": spec.format} if spec.format else {}
                return structs.replace(disk, logical_id=(self.template, _path(spec, name)), params=own)

    def _group(self, spec: opcodes.DiskSpec) -> str:
        return spec.vg or self.snapshot.the_cluster.vg_name

    def _children(self, spec: opcodes.DiskSpec, disk: instance.Disk, name: str) -> tuple[instance.Disk, ...]:
        """Return the volumes under a mirrored disk; its metadata is beside its data unless something else is said."""
        group = self.snapshot.nodegroups[self.snapshot.nodes[self.nodes[0]].group]
        levels = (group.diskparams, self.snapshot.the_cluster.diskparams)
        said = [spec.metavg, *(level.get("drbd", {}).get("metavg") for level in levels), self._group(spec)]
        where = {"data": self._group(spec), "meta": str(next(filter(None, said)))}
        sizes = {"data": disk.size, "meta": templates.META_SIZE}
        return tuple(
            instance.Disk(
                uuid=self.inputs.uuid(), dev_type="plain", size=sizes[part], logical_id=(where[part], f"{name}_{part}")
            )
            for part in ("data", "meta")
        )

    def mirror(self) -> instance.Mirror:
        """Return minors, port and secret that nobody has."""
        return instance.Mirror(
            minors={node: self.picks.minor(node) for node in self.nodes},
            port=self.picks.port(),
            secret=f"{self.inputs.below(_SECRET):040x}",
        )


def _path(spec: opcodes.DiskSpec, default: str) -> str:
    """Return where the file of a disk is: a name alone is in the folder that the node gives its instance."""
    if not spec.path:
        return default
    return spec.path if "/" in spec.path else f"{default.rpartition('/')[0]}/{spec.path}"


def resized(disk: instance.Disk, size: int) -> instance.Disk:
    """Return a disk with another size, of which its data has to have as much."""
    children = disk.children and (structs.replace(disk.children[0], size=size), *disk.children[1:])
    return structs.replace(disk, size=size, children=children)

"""Disk specifications: turn a requested disk into the disk that the state stores; owners of volumes. Pure.

Used wherever disks are created: with a new instance, added to an instance, recreated after a loss. Parameters that a
template does not have are refused, with those that it has; the node's driver names disks (``calls.BlockdevPath``).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import structs

from gantry import errors
from gantry.ipam import mirrors
from gantry.model import instance, opcodes, parameters, templates
from gantry.operations import draws
from gantry.operations.disk_planning import disk_owners
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

OWN: dict[str, tuple[str, ...]] = {
    "file": ("path", "format", "adopt"),
    "sharedfile": ("path", "format", "adopt"),
    "plain": ("vg", "adopt"),
    "drbd": ("vg", "metavg"),
    "ext": ("provider", "access", "params"),
}
"""The parameters that only some templates have."""

MODES = {"w": "rw", "r": "ro"}
_VOLUME = re.compile(r"[A-Za-z0-9+_.][A-Za-z0-9+_.-]{0,126}")
_SECRET = 1 << 160


def is_volume_name(name: str) -> bool:
    """Return whether the name is valid for a volume or a volume group."""
    return bool(_VOLUME.fullmatch(name)) and name not in (".", "..")


def check(spec: opcodes.DiskSpec, index: int, *, template: str) -> None:
    """Refuse parameters that the template does not have, and missing required ones; raises InvalidError."""
    own = OWN[template]
    foreign = {name for names in OWN.values() for name in names} - {*own}
    if refused := sorted(name for name in foreign if getattr(spec, name)):
        raise errors.InvalidError(
            f"disk {index}: disks of template {template} have no parameter {refused[0]}",
            hint=f"valid parameters: size, mode, name, {', '.join(own)}",
        )
    if template == "ext" and not spec.provider:
        raise errors.InvalidError(f"disk {index}: no provider specified", hint="as in --disk 0:size=10g,provider=NAME")
    for name in (spec.vg, spec.metavg):
        if name is not None and not is_volume_name(name):
            raise errors.InvalidError(f"disk {index}: {name!r} is not a valid volume group name")
    if spec.adopt and spec.size != "auto":
        raise errors.InvalidError(f"disk {index}: an adopted disk keeps its size", hint=f"omit size={spec.size}")


def check_template(snapshot: states.Snapshot, template: str) -> None:
    """Refuse an unknown template, and a template that the cluster does not enable; raises InvalidError."""
    enabled = snapshot.the_cluster.enabled_disk_templates
    if template not in parameters.DISK_TEMPLATES:
        raise parameters.unknown("disk template", [template], parameters.DISK_TEMPLATES)
    if template not in enabled:
        raise errors.InvalidError(
            f"disk template {template} is not enabled",
            hint=f"enabled templates: {', '.join(enabled)}; to enable it: "
            f"gnt-cluster modify --enabled-disk-templates {','.join([*enabled, template])}",
        )


def size(snapshot: states.Snapshot, spec: opcodes.DiskSpec, index: int) -> int:
    """Return the size of a disk in MiB; ``auto`` is the cluster's default.

    See contracts/cluster-design.md#sizes-of-disks.
    """
    default = snapshot.the_cluster.default_disk_size
    if spec.adopt:
        return 0
    if spec.size == "auto" and not default:
        raise errors.InvalidError(
            f"disk {index} has no size, and the cluster has no default disk size",
            hint=f"specify a size, as in {index}:size=10g; or gnt-cluster modify --defaults disksize=10g",
        )
    size_mib = default if spec.size == "auto" else parameters.size(spec.size)
    if size_mib <= 0:
        raise errors.InvalidError(f"disk {index}: size {spec.size} is not above 0 MiB")
    return size_mib


def units(snapshot: states.Snapshot, template: str, specs: Sequence[opcodes.DiskSpec]) -> tuple[calls.StorageUnit, ...]:
    """Return the storage units that the disks are taken from, to ask nodes for their free space."""
    if template in templates.IN_VOLUME_GROUPS:
        names = [spec.vg or snapshot.the_cluster.vg_name for spec in specs]
        return tuple(calls.StorageUnit(kind=template, name=name) for name in dict.fromkeys(names))
    if template == "ext":
        # An external storage provider does not report its free space.
        return ()
    return (calls.StorageUnit(kind=template),) if template != "diskless" else ()


def cluster_units(snapshot: states.Snapshot) -> tuple[calls.StorageUnit, ...]:
    """Return the storage units of all the cluster's disk templates, those of the default template first."""
    storage_units: tuple[calls.StorageUnit, ...] = ()
    for template in snapshot.the_cluster.enabled_disk_templates:
        storage_units += units(snapshot, template, [opcodes.DiskSpec()])
    return storage_units or (calls.StorageUnit(kind="file"),)


def volumes_of(disks: Iterable[instance.Disk]) -> list[tuple[str, str]]:
    """Return the logical volumes (group, name) that disks have on each of their nodes."""
    plain = [part for disk in disks for part in (disk.children or (disk,)) if part.dev_type == "plain"]
    return [(part.logical_id[0], part.logical_id[1]) for part in plain]


def owners_of_volumes(snapshot: states.Snapshot) -> dict[tuple[str, str, str], str]:
    """Return the owner of each volume, by node UUID, group and name: an instance name, or ``(detached)``."""
    owners = [(vm.name, vm.nodes, vm.disks) for vm in snapshot.instances.values()]
    owners += [("(detached)", detached.nodes, (detached.disk,)) for detached in snapshot.disks.values()]
    return {(node, *volume): name for name, nodes, disks in owners for node in nodes for volume in volumes_of(disks)}


def paths_of_files(snapshot: states.Snapshot) -> set[tuple[str, str]]:
    """Return where file-based disks are, those of instances and detached ones, each as node UUID and path.

    The node is empty for a file that all nodes share.
    """
    placed = [(vm.nodes, vm.disks) for vm in snapshot.instances.values()]
    placed += [(detached.nodes, (detached.disk,)) for detached in snapshot.disks.values()]
    return {
        ("" if disk.dev_type in templates.SHARED else node, disk.logical_id[-1])
        for nodes, disks in placed
        for node in nodes
        for disk in disks
        if disk.dev_type in templates.BY_NAME
    }


@dataclass(frozen=True)
class Maker:
    """Creates disks of one template for nodes (UUIDs, the primary node first)."""

    snapshot: states.Snapshot
    template: str
    nodes: tuple[str, ...]
    inputs: draws.Inputs
    picks: mirrors.Picks

    def make(self, index: int, spec: opcodes.DiskSpec, *, size: int, uuid: str, name: str) -> instance.Disk:
        """Return a disk; ``name`` is the name that its driver gives it, the last part of its logical id.

        NotUniqueError if the path that a file shall have is another disk's.
        """
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
                disk = structs.replace(disk, logical_id=(self.template, _path(spec, name)), params=own)
                if spec.path:
                    disk_owners.check(self.snapshot, disk, index, node=self.nodes[0], source=disk.logical_id)
                return disk

    def _group(self, spec: opcodes.DiskSpec) -> str:
        return spec.vg or self.snapshot.the_cluster.vg_name

    def _children(self, spec: opcodes.DiskSpec, disk: instance.Disk, name: str) -> tuple[instance.Disk, ...]:
        """Return the volumes under a mirrored disk; metadata is in the data's group unless a parameter sets another."""
        group = self.snapshot.nodegroups[self.snapshot.nodes[self.nodes[0]].group]
        levels = (group.diskparams, self.snapshot.the_cluster.diskparams)
        metadata_groups = [spec.metavg, *(level.get("drbd", {}).get("metavg") for level in levels), self._group(spec)]
        group_of = {"data": self._group(spec), "meta": str(next(filter(None, metadata_groups)))}
        sizes = {"data": disk.size, "meta": templates.META_SIZE}
        return tuple(
            instance.Disk(
                uuid=self.inputs.uuid(),
                dev_type="plain",
                size=sizes[part],
                logical_id=(group_of[part], f"{name}_{part}"),
            )
            for part in ("data", "meta")
        )

    def mirror(self) -> instance.Mirror:
        """Return a mirror with unused minors, port and secret."""
        return instance.Mirror(
            minors={node: self.picks.minor(node) for node in self.nodes},
            port=self.picks.port(),
            secret=f"{self.inputs.below(_SECRET):040x}",
        )


def _path(spec: opcodes.DiskSpec, default: str) -> str:
    """Return the path of a disk's file; a path without a slash is in the instance's folder on the node."""
    if not spec.path:
        return default
    return spec.path if "/" in spec.path else f"{default.rpartition('/')[0]}/{spec.path}"


def resized(disk: instance.Disk, size: int) -> instance.Disk:
    """Return a disk with another size; the volume under a mirrored disk gets the same size."""
    children = disk.children and (structs.replace(disk.children[0], size=size), *disk.children[1:])
    return structs.replace(disk, size=size, children=children)

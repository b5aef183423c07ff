"""The opcodes of disks and storage, and the disks in opcodes of instances.

A disk of a storage provider may have parameters that only the provider knows. Other clients send them beside the common
fields of disks (contracts/opcodes.md#device-modifications); ``gathered`` moves them into ``params``.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gantry.model import base
from gantry.model.opcodes.base import (
    Allocator,
    AnyGroup,
    DeviceName,
    GroupName,
    IgnorePolicy,
    InstanceName,
    Name,
    NodeName,
    NoEffect,
    Opcode,
    Size,
    WaitForSync,
)

Volume = Annotated[str, Meta(max_length=127)]
Path = Annotated[str, Meta(max_length=4096)]
AccessMode = Annotated[
    Literal["rw", "ro", "w", "r"], Meta(description="Access mode, rw or ro; w and r are older forms")
]
VolumeGroup = Annotated[Volume, Meta(description="Volume group; by default the cluster's")]
MetadataVolumeGroup = Annotated[Volume, Meta(description="Volume group of a mirrored disk's metadata")]
AdoptedVolume = Annotated[Path, Meta(description="Existing volume or file that becomes the disk")]
DiskFile = Annotated[Path, Meta(description="File of the disk; a name without a path is in the instance's folder")]
FileFormat = Annotated[Literal["raw", "qcow2"], Meta(description="File format")]
Provider = Annotated[str, Meta(max_length=64, description="Provider of external storage")]
AccessMethod = Annotated[
    Literal["kernelspace", "userspace"], Meta(description="Access method of guests to an external disk")
]
Spindles = Annotated[int, Meta(ge=0, le=1024, description="Number of disk spindles that the disk uses; only stored")]
ProviderParameters = Annotated[base.Parameters, Meta(description="Parameters of the storage provider")]
DiskNumber = Annotated[int, Meta(ge=0, description="Disk number, from 0")]
Nodes = Annotated[tuple[Name, ...], Meta(max_length=10000, description="Nodes; empty for all")]


class DiskSpec(base.Part, frozen=True):
    """A disk to create.

    ``adopt`` names an existing volume that becomes the disk, with its size. ``path`` is the file of a file disk.
    ``spindles`` is accepted for older tools and has no effect. ``access`` may also be the mode, as ``r`` or ``w``.
    """

    size: Annotated[Size, Meta(description="MiB, a number with the unit m, g or t, or auto for the default")] = "auto"
    mode: AccessMode = "rw"
    name: DeviceName | None = None
    vg: VolumeGroup | None = None
    metavg: MetadataVolumeGroup | None = None
    adopt: AdoptedVolume | None = None
    path: DiskFile | None = None
    format: FileFormat | None = None
    provider: Provider | None = None
    access: AccessMethod | None = None
    spindles: Spindles | None = None
    params: ProviderParameters = {}


def gathered(raw: object) -> object:
    """Return a client's disk, or the list of a disk change, in the form of ``DiskSpec``.

    ``access`` with r or w becomes the mode; unknown keys become parameters of the provider.
    """
    if isinstance(raw, list):
        return [gathered(item) if isinstance(item, dict) else item for item in raw]
    if not isinstance(raw, dict):
        return raw
    disk = dict(raw)
    if disk.get("access") in ("r", "w") and "mode" not in disk:
        disk["mode"] = disk.pop("access")
    if not disk.get("provider"):
        return disk
    extra = {name: disk.pop(name) for name in [*disk] if name not in DiskSpec.__struct_fields__}
    params = disk.get("params", {})
    return disk | {"params": {**params, **extra}} if extra and isinstance(params, dict) else disk


class DiskMod(base.Part, frozen=True):
    """The changes of a disk, or the values of a new disk for ``add``.

    Fields that are None stay unchanged; the word ``none`` removes the name.
    """

    size: Annotated[Size | None, Meta(description="Size of an added disk, as in DiskSpec")] = None
    mode: AccessMode | None = None
    name: Annotated[str, Meta(max_length=255, description="Name; none removes it")] | None = None
    vg: VolumeGroup | None = None
    metavg: MetadataVolumeGroup | None = None
    adopt: AdoptedVolume | None = None
    path: DiskFile | None = None
    format: FileFormat | None = None
    provider: Provider | None = None
    access: AccessMethod | None = None
    spindles: Spindles | None = None
    params: ProviderParameters | None = None
    uuid: (
        Annotated[str, Meta(max_length=255, description="UUID of the detached disk; its name works as well")] | None
    ) = None


class DiskChange(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """``[action, id, {...}]``, or the older ``[action, {...}]`` (contracts/opcodes.md#device-modifications).

    The action is ``add``, ``modify``, ``remove``, ``attach`` or ``detach``; in the older form it may be an index, which
    means ``modify``. The id is an index, -1 for the last disk (for ``add`` and ``attach``, after the last), a name or a
    UUID; the older form means the last disk. A detached disk keeps its data, and can be attached to an instance on the
    same nodes.
    """

    action: Annotated[str | int, Meta(description="The action")]
    target: Annotated[str | int | DiskMod, Meta(description="The disk; in the older form its values")]
    disk: Annotated[DiskMod, Meta(description="Values of the disk")] = DiskMod()


Indices = Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(max_length=64)]


class InstanceGrowDisk(Opcode, frozen=True):
    """Grow a disk of an instance."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    disk: DiskNumber
    amount: Annotated[Size, Meta(description="Amount to grow by, or the new size, in MiB or with a unit")]
    absolute: Annotated[bool, Meta(description="Treat the amount as the new size")] = False
    wait_for_sync: WaitForSync = True
    ignore_ipolicy: IgnorePolicy = False


class InstanceActivateDisks(Opcode, frozen=True):
    """Activate the disks of an instance on its nodes."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    ignore_size: Annotated[bool, Meta(description="Accepted for older clients; sizes are not compared")] = False
    wait_for_sync: WaitForSync = False


class InstanceDeactivateDisks(Opcode, frozen=True):
    """Deactivate the disks of an instance."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    force: Annotated[bool, Meta(description="Do not check whether the instance runs")] = False


class DiskRecreation(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """``[index, {...}]``: a lost disk to recreate with another size or mode."""

    index: DiskNumber
    disk: Annotated[DiskMod, Meta(description="New size and mode of the disk, if they change")] = DiskMod()


Lost = Annotated[tuple[Annotated[int, Meta(ge=0)] | DiskRecreation, ...], Meta(max_length=64)]


class InstanceRecreateDisks(Opcode, frozen=True):
    """Recreate lost disks of an instance, empty, on its nodes or on other nodes."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    disks: Annotated[Lost, Meta(description="Disks, each by its index or as [index, {...}]; empty for all")] = ()
    nodes: Annotated[tuple[Name, ...], Meta(max_length=2, description="New nodes, the primary node first")] = ()
    iallocator: Annotated[str, Meta(max_length=255, description="Allocator that chooses new nodes")] | None = None


class InstanceReplaceDisks(Opcode, frozen=True):
    """Replace one side of mirrored disks: new volumes on one of the nodes, or another secondary node."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    mode: Annotated[
        Literal["replace_on_primary", "replace_on_secondary", "replace_new_secondary", "replace_auto"],
        Meta(
            description="Replace the volumes on the primary or the secondary node, the secondary node itself, "
            "or the broken side"
        ),
    ]
    disks: Annotated[Indices, Meta(description="Disks; empty for all")] = ()
    remote_node: Annotated[str, Meta(max_length=255, description="The new secondary node")] | None = None
    iallocator: Allocator | None = None
    early_release: Annotated[bool, Meta(description="Release the old copy before the new copy is complete")] = False
    ignore_ipolicy: IgnorePolicy = False


class NodeQueryvols(Opcode, frozen=True):
    """List the logical volumes of nodes."""

    nodes: Nodes = ()
    output_fields: Annotated[
        tuple[str, ...], Meta(max_length=32, description="Columns, of node, phys, vg, name, size, instance")
    ] = ()


class NodeQueryStorage(Opcode, frozen=True):
    """List the storage units of nodes."""

    nodes: Nodes = ()
    storage_type: Annotated[
        Literal["file", "sharedfile", "lvm-vg", "lvm-pv"] | None, Meta(description="Storage type")
    ] = None
    name: Annotated[str, Meta(max_length=255, description="Query only the storage unit with this name")] | None = None
    output_fields: Annotated[
        tuple[str, ...], Meta(max_length=32, description="Columns, of node, type, name, size, used, free, allocatable")
    ] = ()


class StorageChanges(base.Part, frozen=True):
    """The changes of a storage unit."""

    allocatable: Annotated[bool, Meta(description="Whether new disks may use the storage")]


class NodeModifyStorage(Opcode, frozen=True):
    """Allow or forbid new disks on a storage unit of a node, which is a physical volume."""

    DESCRIBES = "node_name"

    node_name: NodeName
    name: Annotated[str, Meta(min_length=1, max_length=255, description="Device of the physical volume")]
    changes: Annotated[StorageChanges, Meta(description="Attributes to change")]
    storage_type: Annotated[Literal["lvm-pv"], Meta(description="Storage type")] = "lvm-pv"


class RepairNodeStorage(Opcode, frozen=True):
    """Remove missing physical volumes from a volume group of a node."""

    DESCRIBES = "node_name"

    node_name: NodeName
    name: Annotated[Volume, Meta(description="Volume group")]
    storage_type: Annotated[Literal["lvm-vg"], Meta(description="Storage type")] = "lvm-vg"
    ignore_consistency: Annotated[
        bool, Meta(description="Continue even if the only complete copy of a disk is lost")
    ] = False


class ClusterRepairStorage(Opcode, frozen=True):
    """Check the volume groups of all nodes, and repair a volume group that has just lost a disk."""

    whole_before: Annotated[bool, Meta(description="Whether all volume groups were complete at the last check")] = True


class ClusterVerifyDisks(Opcode, frozen=True):
    """Find inactive disks of running instances, by one job for each node group."""

    group_name: AnyGroup | None = None
    is_strict: NoEffect = True


class GroupVerifyDisks(Opcode, frozen=True):
    """Find inactive disks of running instances of a node group."""

    DESCRIBES = "group_name"

    group_name: GroupName
    is_strict: NoEffect = True

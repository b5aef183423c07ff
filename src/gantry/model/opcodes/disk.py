"""The opcodes of disks and storage, and the disks in opcodes of instances.

A disk of a storage provider may have parameters that only the provider knows. Other clients send them beside the common
fields of disks (contracts/opcodes.md#device-modifications); ``gathered`` moves them into ``params``.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gantry.model import base
from gantry.model.opcodes.base import Allocator, Name, Opcode, Size

Volume = Annotated[str, Meta(max_length=127)]
Path = Annotated[str, Meta(max_length=4096)]


class DiskSpec(base.Part, frozen=True):
    """A disk to create.

    ``adopt`` names an existing volume that becomes the disk, with its size. ``path`` is the file of a file disk.
    ``spindles`` is accepted for older tools and has no effect. ``access`` may also be the mode, as ``r`` or ``w``.
    """

    size: Annotated[Size, Meta(description="MiB, a number with the unit m, g or t, or auto for the default")] = "auto"
    mode: Literal["rw", "ro", "w", "r"] = "rw"
    name: Annotated[str, Meta(max_length=255)] | None = None
    vg: Annotated[Volume, Meta(description="Volume group; by default the cluster's")] | None = None
    metavg: Annotated[Volume, Meta(description="Volume group of a mirrored disk's metadata")] | None = None
    adopt: Path | None = None
    path: Path | None = None
    format: Literal["raw", "qcow2"] | None = None
    provider: Annotated[str, Meta(max_length=64, description="Provider of external storage")] | None = None
    access: Literal["kernelspace", "userspace"] | None = None
    spindles: Annotated[int, Meta(ge=0, le=1024)] | None = None
    params: Annotated[base.Parameters, Meta(description="Parameters of the storage provider")] = {}


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

    size: Size | None = None
    mode: Literal["rw", "ro", "w", "r"] | None = None
    name: Annotated[str, Meta(max_length=255)] | None = None
    vg: Volume | None = None
    metavg: Volume | None = None
    adopt: Path | None = None
    path: Path | None = None
    format: Literal["raw", "qcow2"] | None = None
    provider: Annotated[str, Meta(max_length=64)] | None = None
    access: Literal["kernelspace", "userspace"] | None = None
    spindles: Annotated[int, Meta(ge=0, le=1024)] | None = None
    params: base.Parameters | None = None
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

    instance_name: Name
    disk: Annotated[int, Meta(ge=0, description="Disk number, from 0")]
    amount: Annotated[Size, Meta(description="Amount to grow by, or the new size, in MiB or with a unit")]
    absolute: Annotated[bool, Meta(description="Treat the amount as the new size")] = False
    wait_for_sync: bool = True
    ignore_ipolicy: bool = False


class InstanceActivateDisks(Opcode, frozen=True):
    """Activate the disks of an instance on its nodes."""

    DESCRIBES = "instance_name"

    instance_name: Name
    ignore_size: bool = False
    wait_for_sync: bool = False


class InstanceDeactivateDisks(Opcode, frozen=True):
    """Deactivate the disks of an instance."""

    DESCRIBES = "instance_name"

    instance_name: Name
    force: Annotated[bool, Meta(description="Do not check whether the instance runs")] = False


class DiskRecreation(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """``[index, {...}]``: a lost disk to recreate with another size or mode."""

    index: Annotated[int, Meta(ge=0, description="Disk number, from 0")]
    disk: Annotated[DiskMod, Meta(description="New size and mode of the disk, if they change")] = DiskMod()


Lost = Annotated[tuple[Annotated[int, Meta(ge=0)] | DiskRecreation, ...], Meta(max_length=64)]


class InstanceRecreateDisks(Opcode, frozen=True):
    """Recreate lost disks of an instance, empty, on its nodes or on other nodes."""

    DESCRIBES = "instance_name"

    instance_name: Name
    disks: Annotated[Lost, Meta(description="Disks, each by its index or as [index, {...}]; empty for all")] = ()
    nodes: Annotated[tuple[Name, ...], Meta(max_length=2, description="New nodes, the primary node first")] = ()
    iallocator: Annotated[str, Meta(max_length=255, description="Allocator that chooses new nodes")] | None = None


class InstanceReplaceDisks(Opcode, frozen=True):
    """Replace one side of mirrored disks: new volumes on one of the nodes, or another secondary node."""

    DESCRIBES = "instance_name"

    instance_name: Name
    mode: Literal["replace_on_primary", "replace_on_secondary", "replace_new_secondary", "replace_auto"]
    disks: Annotated[Indices, Meta(description="Disks; empty for all")] = ()
    remote_node: Annotated[str, Meta(max_length=255, description="The new secondary node")] | None = None
    iallocator: Allocator | None = None
    early_release: Annotated[bool, Meta(description="Release the old copy before the new copy is complete")] = False
    ignore_ipolicy: bool = False


class NodeQueryvols(Opcode, frozen=True):
    """List the logical volumes of nodes."""

    nodes: Annotated[tuple[Name, ...], Meta(max_length=10000)] = ()
    output_fields: Annotated[tuple[str, ...], Meta(max_length=32)] = ()


class NodeQueryStorage(Opcode, frozen=True):
    """List the storage units of nodes."""

    nodes: Annotated[tuple[Name, ...], Meta(max_length=10000)] = ()
    storage_type: Literal["file", "sharedfile", "lvm-vg", "lvm-pv"] | None = None
    name: Annotated[str, Meta(max_length=255)] | None = None
    output_fields: Annotated[tuple[str, ...], Meta(max_length=32)] = ()


class StorageChanges(base.Part, frozen=True):
    """The changes of a storage unit."""

    allocatable: Annotated[bool, Meta(description="Whether new disks may use the storage")]


class NodeModifyStorage(Opcode, frozen=True):
    """Allow or forbid new disks on a storage unit of a node, which is a physical volume."""

    DESCRIBES = "node_name"

    node_name: Name
    name: Annotated[str, Meta(min_length=1, max_length=255, description="Device of the physical volume")]
    changes: Annotated[StorageChanges, Meta(description="Attributes to change")]
    storage_type: Literal["lvm-pv"] = "lvm-pv"


class RepairNodeStorage(Opcode, frozen=True):
    """Remove missing physical volumes from a volume group of a node."""

    DESCRIBES = "node_name"

    node_name: Name
    name: Volume
    storage_type: Literal["lvm-vg"] = "lvm-vg"
    ignore_consistency: Annotated[
        bool, Meta(description="Continue even if the only complete copy of a disk is lost")
    ] = False


class ClusterRepairStorage(Opcode, frozen=True):
    """Check the volume groups of all nodes, and repair a volume group that has just lost a disk."""

    whole_before: Annotated[bool, Meta(description="Whether all volume groups were complete at the last check")] = True


class ClusterVerifyDisks(Opcode, frozen=True):
    """Find inactive disks of running instances, by one job for each node group."""

    group_name: Annotated[str, Meta(max_length=255)] | None = None
    is_strict: bool = True


class GroupVerifyDisks(Opcode, frozen=True):
    """Find inactive disks of running instances of a node group."""

    DESCRIBES = "group_name"

    group_name: Name
    is_strict: bool = True

"""The opcodes of exports; ``InstanceCreate`` with the mode ``import`` creates an instance from an export."""

from typing import Annotated, Literal

from msgspec import Meta

from gantry.model.opcodes.base import InstanceName, Opcode, ShutdownTimeout, TargetNode

Compression = Annotated[
    Literal["none", "gzip", "gzip-fast", "gzip-slow", "zstd", "lzop"],
    Meta(description="Set the program that compresses the dumps"),
]


class BackupExport(Opcode, frozen=True):
    """Copy an instance's disks to an export on a node, from snapshots if the storage supports them.

    A running instance is stopped while snapshots are created, or without snapshots during the whole copy. Without
    ``shutdown`` it keeps running, which requires snapshots.
    """

    DESCRIBES = "instance_name"

    instance_name: InstanceName
    target_node: TargetNode
    mode: Annotated[Literal["local"], Meta(description="Kind of export: local, on a node of this cluster")] = "local"
    shutdown: Annotated[bool, Meta(description="Stop the instance if it runs")] = True
    shutdown_timeout: ShutdownTimeout = 120
    compress: Compression = "none"
    remove_instance: Annotated[bool, Meta(description="Remove the instance when the export is complete")] = False
    ignore_remove_failures: Annotated[
        bool, Meta(description="Remove the instance even if a disk cannot be removed")
    ] = False


class BackupRemove(Opcode, frozen=True):
    """Remove the exports of an instance from all nodes; the instance itself need not exist."""

    DESCRIBES = "instance_name"

    instance_name: InstanceName

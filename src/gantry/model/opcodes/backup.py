"""The opcodes of exports; an instance is made from one by ``InstanceCreate`` with the mode ``import``."""

from typing import Annotated, Literal

from msgspec import Meta

from gantry.model.opcodes.base import Name, Opcode

Compression = Annotated[
    Literal["none", "gzip", "gzip-fast", "gzip-slow", "zstd", "lzop"],
    Meta(description="Set the program that compresses the dumps"),
]


class BackupExport(Opcode, frozen=True):
    """Copy an instance's disks to an export on a node, from snapshots where its storage can make them.

    An instance that runs is stopped for its snapshots, or for the whole copy; without ``shutdown`` it is not stopped at
    all, which needs snapshots.
    """

    DESCRIBES = "instance_name"

    instance_name: Name
    target_node: Name
    mode: Literal["local"] = "local"
    shutdown: Annotated[bool, Meta(description="Stop the instance if it runs")] = True
    shutdown_timeout: Annotated[int, Meta(ge=0, le=86400)] = 120
    compress: Compression = "none"
    remove_instance: Annotated[bool, Meta(description="Remove the instance when the export is complete")] = False
    ignore_remove_failures: Annotated[
        bool, Meta(description="Remove the instance even if a disk cannot be removed")
    ] = False


class BackupRemove(Opcode, frozen=True):
    """Remove the exports of an instance, which need not exist any more, from all nodes."""

    DESCRIBES = "instance_name"

    instance_name: Name

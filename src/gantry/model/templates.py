"""The disk templates and their parameters.

Parameters are set for the cluster and for node groups, never for a single disk; ``operations.fill`` fills them into
calls to nodes. A template without parameters is listed too. The stripes of DRBD's own volumes are not a parameter here:
such a volume always has one stripe.

See contracts/configuration.md#disk-parameters.
"""

from typing import Literal

from gantry.model.declarations import Parameter

DRBD: dict[str, Parameter] = {
    "resync-rate": Parameter(61440, "Maximum rate of a resynchronization, in KiB per second", minimum=1),
    "metavg": Parameter("xenvg", "Volume group of the metadata"),
    "disk-barriers": Parameter(
        "n",
        "Disable these methods: b barriers, f flushes, d drain; n disables none",
        ("n", "b", "bf", "bfd", "f", "fd"),
    ),
    "meta-barriers": Parameter(False, "Disable flushes of the metadata"),
    "disk-custom": Parameter("", "Further disk options, in the syntax of drbdsetup"),
    "net-custom": Parameter("", "Further connection options, in the syntax of drbdsetup"),
    "protocol": Parameter("C", "Replication protocol, which decides when a write is complete", ("A", "B", "C")),
    "dynamic-resync": Parameter(False, "Let DRBD adapt the rate of a resynchronization"),
    "c-plan-ahead": Parameter(20, "Agility of the dynamic rate, in tenths of a second", minimum=0),
    "c-fill-target": Parameter(0, "Target number of sectors in flight for the dynamic rate", minimum=0),
    "c-delay-target": Parameter(1, "Target delay of the dynamic rate, in tenths of a second", minimum=0),
    "c-max-rate": Parameter(61440, "Maximum of the dynamic rate, in KiB per second", minimum=1),
    "c-min-rate": Parameter(4096, "Minimum of the dynamic rate, in KiB per second", minimum=0),
}

NAMES = ("file", "diskless", "sharedfile", "plain", "drbd", "ext")
"""The names of all disk templates."""

IN_VOLUME_GROUPS = ("plain", "drbd")
SHARED = ("sharedfile", "ext")
"""The templates whose disks every node of a group can access."""

ALWAYS_ACTIVE = ("file", "sharedfile")
"""The templates whose disks need no activation."""

BY_NAME: tuple[Literal["file", "sharedfile"], ...] = ("file", "sharedfile")
"""The templates whose disks are in a folder with the name of the instance."""

META_SIZE = 128
"""MiB of a mirrored disk's metadata (contracts/configuration.md#disk-identifiers)."""

PARAMETERS: dict[str, dict[str, Parameter]] = {
    "diskless": {},
    "drbd": DRBD,
    "ext": {"access": Parameter("kernelspace", "How guests reach the disk", ("kernelspace", "userspace"))},
    "file": {},
    "plain": {
        "stripes": Parameter(
            1, "Number of physical volumes over which a logical volume is striped", minimum=1, maximum=128
        )
    },
    "sharedfile": {},
}
"""The parameters of each template."""

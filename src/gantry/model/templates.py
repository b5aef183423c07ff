"""The parameters of disks, by kind of disk, with what each template understands.

They are set for the cluster and for node groups, never for one disk; ``operations.fill`` fills them into what nodes
are sent. A kind that has none is listed all the same: its name is known. Left out are the stripes of DRBD's own
volumes, whose only size here is one.

See contracts/configuration.md#disk-parameters.
"""

from gantry.model.declarations import Parameter

DRBD: dict[str, Parameter] = {
    "resync-rate": Parameter(61440, "KiB a second that a resynchronisation may send", minimum=1),
    "metavg": Parameter("xenvg", "Volume group of the metadata"),
    "disk-barriers": Parameter(
        "n", "Which barriers are off: n for none, b barriers, f flushes, d drain", ("n", "b", "bf", "bfd", "f", "fd")
    ),
    "meta-barriers": Parameter(False, "Do without flushes of the metadata"),
    "disk-custom": Parameter("", "Further options of the disk, as drbdsetup takes them"),
    "net-custom": Parameter("", "Further options of the connection, as drbdsetup takes them"),
    "protocol": Parameter("C", "When a write counts as done", ("A", "B", "C")),
    "dynamic-resync": Parameter(False, "Let DRBD find the rate of a resynchronisation by itself"),
    "c-plan-ahead": Parameter(20, "Agility of the dynamic rate, in tenths of a second", minimum=0),
    "c-fill-target": Parameter(0, "Sectors in flight that the dynamic rate aims at", minimum=0),
    "c-delay-target": Parameter(1, "Delay that it aims at, in tenths of a second", minimum=0),
    "c-max-rate": Parameter(61440, "KiB a second that it may send at most", minimum=1),
    "c-min-rate": Parameter(4096, "KiB a second that it sends at least", minimum=0),
}

NAMES = ("file", "diskless", "sharedfile", "plain", "drbd", "ext")
"""The kinds of disks that there are."""

IN_VOLUME_GROUPS = ("plain", "drbd")
SHARED = ("sharedfile", "ext")
"""Those whose disks every node of a group reaches."""

ALWAYS_ACTIVE = ("file", "sharedfile")
"""Those whose disks need not be activated before they are used."""

BY_NAME = ("file", "sharedfile")
"""Those whose disks lie in a place that has the name of their instance."""

META_SIZE = 128
"""MiB of a mirrored disk's metadata (contracts/configuration.md#disk-identifiers)."""

PARAMETERS: dict[str, dict[str, Parameter]] = {
    "diskless": {},
    "drbd": DRBD,
    "ext": {"access": Parameter("kernelspace", "How guests reach the disk", ("kernelspace", "userspace"))},
    "file": {},
    "plain": {"stripes": Parameter(1, "Physical volumes that a logical volume is spread over", minimum=1, maximum=128)},
    "sharedfile": {},
}
"""By template."""

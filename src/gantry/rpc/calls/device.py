"""The calls for disks and NICs, apart from their instance's own: make, remove, activate, grow, plug in, take out.

Every call can be repeated after a lost answer: what is done already is no error. Sizes are MiB. A disk's own calls
wait for each other on the node, so a repetition meets a finished first attempt.
"""

from typing import ClassVar, Literal

from gantry.rpc.calls.base import FAST, NORMAL, SLOW, Call, Message
from gantry.rpc.calls.instance import Disk, Instance, Nic


class DiskState(Message, frozen=True):
    """A disk as its node finds it; ``path`` leads to it while it is ``active``.

    A mirrored disk also has a role, the kernel's words for its connection and for both sides' data, and how far a
    resynchronisation has come: percent and seconds left, None when there is none or it cannot be told. ``degraded``:
    it is not on all its disks, or not up to date on all of them. ``problem`` says what is wrong in a sentence. ``on``
    are the physical volumes that hold it.
    """

    path: str
    size: int
    active: bool
    role: Literal["", "primary", "secondary"] = ""
    connection: str = ""
    local: str = ""
    peer: str = ""
    degraded: bool = False
    sync_percent: float | None = None
    sync_seconds: int | None = None
    problem: str = ""
    on: tuple[str, ...] = ()


class BlockdevPath(Call[tuple[str, ...]], frozen=True):
    """Return the last parts of the logical ids that a disk type gives the disks of an instance, without making them.

    ``uuids`` are those of the disks, in order; ``first`` is the index of the first.
    """

    FENCED: ClassVar[bool] = False
    dev_type: str
    instance: str
    uuids: tuple[str, ...]
    first: int = 0


class BlockdevPlace(Call[tuple[tuple[str, ...], ...]], frozen=True):
    """Choose the physical volumes for disks that are made together, so that they share them (``BlockdevCreate.on``).

    The result has an entry per disk, empty where the disk type has no choice. Raises NoRoomError when not all fit.
    """

    FENCED: ClassVar[bool] = False
    dev_type: str
    disks: tuple[Disk, ...]


class BlockdevCreate(Call[str], frozen=True):
    """Make a disk; the result is its path. Raises ExistsError, NoRoomError.

    ``on`` are physical volumes to use while they have room.
    """

    LIMIT: ClassVar[float] = SLOW
    disk: Disk
    owner: str
    on: tuple[str, ...] = ()


class BlockdevAdopt(Call[int], frozen=True):
    """Take what is there, under the name ``source``, for a disk; the result is its size.

    Raises NotFoundError, and WrongStateError when somebody uses it.
    """

    disk: Disk
    source: str
    owner: str


class BlockdevRemove(Call[None], frozen=True):
    """Remove a disk; one that is gone already is no error."""

    LIMIT: ClassVar[float] = NORMAL
    disk: Disk
    owner: str


class BlockdevFind(Call[DiskState | None], frozen=True):
    """Describe a disk; None when it is not there."""

    FENCED: ClassVar[bool] = False
    disk: Disk


class BlockdevStatus(Call[tuple[DiskState | None, ...]], frozen=True):
    """Describe many disks (contracts/node-rpc.md#calls)."""

    FENCED: ClassVar[bool] = False
    LIMIT: ClassVar[float] = FAST
    disks: tuple[Disk, ...]


class BlockdevAssemble(Call[str], frozen=True):
    """Make a disk usable on its node, with its parameters of now; the result is its path.

    A mirrored disk gets its local disk and its peer, and with ``primary`` that role; without, its role stays. A disk
    of mode ``ro`` cannot be written to. Raises NotFoundError; WrongStateError when somebody else has its minor.
    """

    LIMIT: ClassVar[float] = FAST
    disk: Disk
    primary: bool


class BlockdevShutdown(Call[None], frozen=True):
    """Take a disk out of use, its content stays; WrongStateError while somebody has it open."""

    LIMIT: ClassVar[float] = FAST
    disk: Disk


class BlockdevOpen(Call[None], frozen=True):
    """Make this node the one that may write to a mirrored disk; ``force`` also with data that is not up to date."""

    disk: Disk
    force: bool = False


class BlockdevClose(Call[None], frozen=True):
    """Give up writing to a mirrored disk; WrongStateError while somebody has it open."""

    disk: Disk


class BlockdevSetMode(Call[None], frozen=True):
    """Let an active disk be written to, or not, as its ``mode`` says."""

    disk: Disk


class BlockdevGrow(Call[None], frozen=True):
    """Grow a disk to ``size``; one that is as large already is no error. Raises NoRoomError.

    A mirrored disk is grown with ``backing`` on both nodes first, then without it on the primary. With ``dry_run``
    it is only checked whether there is room.
    """

    LIMIT: ClassVar[float] = FAST
    disk: Disk
    size: int
    backing: bool = False
    dry_run: bool = False


class BlockdevSnapshot(Call[tuple[str, tuple[str, ...]]], frozen=True):
    """Keep what a disk holds now as a disk called ``name``; the result is that disk's type and logical id.

    Raises WrongStateError where the storage cannot.
    """

    LIMIT: ClassVar[float] = FAST
    disk: Disk
    name: str


class BlockdevRename(Call[None], frozen=True):
    """Give a disk that is not in use another logical id, ``to``."""

    disk: Disk
    to: tuple[str, ...]


class BlockdevSetinfo(Call[None], frozen=True):
    """Write the name of a disk's instance down with the disk, for people who look at the storage."""

    disk: Disk
    owner: str


class BlockdevWipe(Call[None], frozen=True):
    """Overwrite a part of an active disk with zeros, from ``offset``; the caller goes on part by part."""

    LIMIT: ClassVar[float] = SLOW
    disk: Disk
    offset: int
    size: int


class DrbdAttachNet(Call[None], frozen=True):
    """Connect a mirrored disk to its peer; with ``multimaster`` both may be primary, without it one.

    ``discard`` gives up what only this node wrote since the two parted (split brain).
    """

    disk: Disk
    multimaster: bool = False
    discard: bool = False


class DrbdDisconnectNet(Call[None], frozen=True):
    """Part a mirrored disk from its peer."""

    disk: Disk


class BlockdevAddchildren(Call[None], frozen=True):
    """Give a mirrored disk the local disks that it names; they are synchronised from its peer."""

    LIMIT: ClassVar[float] = FAST
    disk: Disk


class BlockdevRemovechildren(Call[None], frozen=True):
    """Take a mirrored disk's local disks away; it goes on with its peer's."""

    LIMIT: ClassVar[float] = FAST
    disk: Disk


class BlockdevPauseResumeSync(Call[None], frozen=True):
    """Let the resynchronisation of a mirrored disk wait, or go on."""

    disk: Disk
    pause: bool


class Volume(Message, frozen=True):
    """A logical volume; ``partial`` when a physical volume under it is missing, ``open`` while somebody uses it.

    ``number`` is that of its device, major and minor, while it is ``active``.
    """

    name: str
    size: int
    tags: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    origin: str = ""
    active: bool = False
    open: bool = False
    partial: bool = False
    number: str = ""


OWNER_TAG = "originstname+"
"""What the tag of a logical volume begins with that says for which instance it was made."""


class LvList(Call[tuple[Volume, ...]], frozen=True):
    """List the logical volumes of a volume group; raises EnvironmentFaultError when there is no such group."""

    FENCED: ClassVar[bool] = False
    group: str


class PhysicalVolume(Message, frozen=True):
    """A physical volume that is there; ``allocatable`` while new volumes may take extents of it."""

    name: str
    size: int
    free: int
    allocatable: bool = True


class VolumeGroup(Message, frozen=True):
    """A volume group: room, extent size, and how many of its physical volumes are missing.

    ``physical`` are those that are there, ``on`` is what is free on each that takes extents.
    """

    name: str
    size: int
    free: int
    extent: float
    missing: int = 0
    on: dict[str, int] = {}
    physical: tuple[PhysicalVolume, ...] = ()


class VgList(Call[tuple[VolumeGroup, ...]], frozen=True):
    """List the volume groups of a node."""

    FENCED: ClassVar[bool] = False


class VgReduce(Call[tuple[str, ...]], frozen=True):
    """Take missing physical volumes out of a volume group (contracts/cluster-design.md#lvm-self-repair).

    Volumes that lay on them stand in the way; ``force`` removes them. The result names those that are gone.
    """

    LIMIT: ClassVar[float] = FAST
    group: str
    force: bool = False


class PvChange(Call[None], frozen=True):
    """Let new volumes take extents of a physical volume, or not; NotFoundError where it is none of a group."""

    device: str
    allocatable: bool


class Provider(Message, frozen=True):
    """A provider of external storage as one node has it; ``problem`` says why it is not valid."""

    name: str
    path: str
    problem: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    scripts: tuple[str, ...] = ()


class ExtstorageDiagnose(Call[tuple[Provider, ...]], frozen=True):
    """List the providers of external storage on a node."""

    FENCED: ClassVar[bool] = False


class NicValidate(Call[None], frozen=True):
    """Check that NICs can be plugged in; raises EnvironmentFaultError that names the bridge that is missing."""

    FENCED: ClassVar[bool] = False
    nics: tuple[Nic, ...]


class NicPlug(Call[None], frozen=True):
    """Plug a NIC into a running instance; one that is plugged in already is no error. Raises HypervisorError."""

    instance: Instance
    nic: Nic


class NicUnplug(Call[None], frozen=True):
    """Take a NIC out of a running instance; one that is not there is no error.

    Raises HypervisorError when the guest does not release it.
    """

    instance: Instance
    nic: Nic


class NicUpdate(Call[bool], frozen=True):
    """Connect the node's end of a NIC anew, for other addresses or another link; False when it is not plugged in."""

    instance: Instance
    nic: Nic

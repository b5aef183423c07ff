"""The calls for disks and NICs, apart from their instance's own: make, remove, activate, grow, plug in, take out.

Every call can be repeated after a lost answer: work that is done already is not an error. Sizes are MiB. A disk's own
calls wait for each other on the node, so a repetition starts after the first attempt has ended.
"""

from typing import ClassVar, Literal

from gantry.rpc.calls.base import FAST, NORMAL, SLOW, Call, Message
from gantry.rpc.calls.instance import Disk, Instance, Nic
from gantry.rpc.calls.texts import Name, Path


class DiskState(Message, frozen=True):
    """The state of a disk on its node; ``path`` is its device or file while it is ``active``.

    A mirrored disk also has a role, the kernel's words for its connection and for both sides' data, and how far a
    resynchronisation has come: percent and seconds left, None when there is none or it is unknown. ``degraded``: a
    local disk or the peer is missing or not up to date. ``problem`` describes the problem in a sentence. ``on`` are the
    physical volumes of the disk. ``aliases`` are the other paths of the disk's file in the storage, if it has links.
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
    aliases: tuple[str, ...] = ()


class BlockdevPath(Call[tuple[str, ...]], frozen=True):
    """Return the last parts of the logical ids that a disk type gives the disks of an instance, without making them.

    ``uuids`` are those of the disks, in order; ``first`` is the index of the first.
    """

    READS: ClassVar[bool] = True
    dev_type: Name
    instance: Name
    uuids: tuple[Name, ...]
    first: int = 0


class BlockdevPlace(Call[tuple[tuple[str, ...], ...]], frozen=True):
    """Choose the physical volumes for disks that are made together, so that they share them (``BlockdevCreate.on``).

    The result has an entry per disk, empty where the disk type has no choice. Raises NoRoomError when not all fit.
    """

    READS: ClassVar[bool] = True
    dev_type: Name
    disks: tuple[Disk, ...]


class BlockdevCreate(Call[str], frozen=True):
    """Make a disk; the result is its path. Raises ExistsError, NoRoomError.

    ``on`` are physical volumes to use while they have free space.
    """

    LIMIT: ClassVar[float] = SLOW
    disk: Disk
    owner: Name
    on: tuple[Path, ...] = ()


class BlockdevAdopt(Call[int], frozen=True):
    """Adopt existing storage with the name ``source`` as a disk; the result is its size.

    Raises NotFoundError, and WrongStateError when the storage is in use.
    """

    disk: Disk
    source: Path
    owner: Name


class BlockdevRemove(Call[None], frozen=True):
    """Remove a disk; a missing disk is not an error."""

    LIMIT: ClassVar[float] = NORMAL
    disk: Disk
    owner: Name


class BlockdevFind(Call[DiskState | None], frozen=True):
    """Describe a disk; None when it is not there."""

    READS: ClassVar[bool] = True
    disk: Disk


class BlockdevStatus(Call[tuple[DiskState | None, ...]], frozen=True):
    """Describe many disks (contracts/node-rpc.md#calls)."""

    READS: ClassVar[bool] = True
    LIMIT: ClassVar[float] = FAST
    disks: tuple[Disk, ...]


class BlockdevAssemble(Call[str], frozen=True):
    """Make a disk usable on its node, with its parameters of now; the result is its path.

    A mirrored disk gets its local disk and its peer, and with ``primary`` that role; without, its role stays. A disk
    of mode ``ro`` cannot be written to. Raises NotFoundError; WrongStateError when another disk has its minor.
    """

    LIMIT: ClassVar[float] = FAST
    disk: Disk
    primary: bool


class BlockdevShutdown(Call[None], frozen=True):
    """Shut down a disk, its content stays; WrongStateError while it is open."""

    LIMIT: ClassVar[float] = FAST
    disk: Disk


class BlockdevOpen(Call[None], frozen=True):
    """Make this node the one that may write to a mirrored disk; ``force`` also with data that is not up to date."""

    disk: Disk
    force: bool = False


class BlockdevClose(Call[None], frozen=True):
    """Make this node secondary for a mirrored disk; WrongStateError while the disk is open."""

    disk: Disk


class BlockdevSetMode(Call[None], frozen=True):
    """Let an active disk be written to, or not, as its ``mode`` says."""

    disk: Disk


class BlockdevGrow(Call[None], frozen=True):
    """Grow a disk to ``size``; a disk of that size is not an error. Raises NoRoomError.

    A mirrored disk is grown with ``backing`` on both nodes first, then without it on the primary. With ``dry_run``
    the call only checks whether there is enough free space.
    """

    LIMIT: ClassVar[float] = FAST
    disk: Disk
    size: int
    backing: bool = False
    dry_run: bool = False


class BlockdevSnapshot(Call[tuple[str, tuple[str, ...]]], frozen=True):
    """Create a snapshot of a disk as the disk ``name``; the result is the type and logical id of the snapshot.

    Raises WrongStateError where the storage has no snapshots.
    """

    LIMIT: ClassVar[float] = FAST
    disk: Disk
    name: Name


class BlockdevRename(Call[None], frozen=True):
    """Change the logical id of a disk that is not in use to ``to``."""

    disk: Disk
    to: tuple[Path, ...]


class BlockdevSetinfo(Call[None], frozen=True):
    """Record the name of a disk's instance in the metadata of the storage, for administrators."""

    disk: Disk
    owner: Name


class BlockdevWipe(Call[None], frozen=True):
    """Overwrite a part of an active disk with zeros, from ``offset``; the caller continues part by part."""

    LIMIT: ClassVar[float] = SLOW
    disk: Disk
    offset: int
    size: int


class DrbdAttachNet(Call[None], frozen=True):
    """Connect a mirrored disk to its peer; with ``multimaster`` both may be primary, without it one.

    ``discard`` drops what only this node wrote since the connection was lost (split brain).
    """

    disk: Disk
    multimaster: bool = False
    discard: bool = False


class DrbdDisconnectNet(Call[None], frozen=True):
    """Disconnect a mirrored disk from its peer."""

    disk: Disk


class BlockdevAddchildren(Call[None], frozen=True):
    """Attach the local disks that a mirrored disk names; they are synchronised from its peer."""

    LIMIT: ClassVar[float] = FAST
    disk: Disk


class BlockdevRemovechildren(Call[None], frozen=True):
    """Detach the local disks of a mirrored disk; it continues with those of its peer."""

    LIMIT: ClassVar[float] = FAST
    disk: Disk


class BlockdevPauseResumeSync(Call[None], frozen=True):
    """Pause or resume the resynchronisation of a mirrored disk."""

    disk: Disk
    pause: bool


class Volume(Message, frozen=True):
    """A logical volume; ``partial`` when a physical volume under it is missing, ``open`` while it is in use.

    ``number`` is the major and minor number of its device while it is ``active``.
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
"""The beginning of the tag of a logical volume that names its instance."""


class LvList(Call[tuple[Volume, ...]], frozen=True):
    """List the logical volumes of a volume group; raises EnvironmentFaultError when there is no such group."""

    READS: ClassVar[bool] = True
    group: Name


class DiskFile(Message, frozen=True):
    """A file in a storage of file-based disks, with its size in MiB, rounded up."""

    path: str
    size: int


class FileList(Call[tuple[DiskFile, ...]], frozen=True):
    """List the files of a storage (``file`` or ``sharedfile``) that lie where disks do, sorted by path."""

    READS: ClassVar[bool] = True
    kind: Literal["file", "sharedfile"]


class PhysicalVolume(Message, frozen=True):
    """A physical volume that is there; ``allocatable`` while new volumes may take extents of it."""

    name: str
    size: int
    free: int
    allocatable: bool = True


class VolumeGroup(Message, frozen=True):
    """A volume group: size, free space, extent size, and how many of its physical volumes are missing.

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

    READS: ClassVar[bool] = True


class VgReduce(Call[tuple[str, ...]], frozen=True):
    """Take missing physical volumes out of a volume group (contracts/cluster-design.md#lvm-self-repair).

    The call fails for volumes that were on them; ``force`` removes those. The result names the removed volumes.
    """

    LIMIT: ClassVar[float] = FAST
    group: Name
    force: bool = False


class PvChange(Call[None], frozen=True):
    """Let new volumes take extents of a physical volume, or not; NotFoundError where it is not in a group."""

    device: Path
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

    READS: ClassVar[bool] = True


class NicValidate(Call[None], frozen=True):
    """Check that NICs can be plugged in; raises EnvironmentFaultError that names the missing bridge."""

    READS: ClassVar[bool] = True
    nics: tuple[Nic, ...]


class NicPlug(Call[None], frozen=True):
    """Plug a NIC into a running instance; a NIC that is plugged in already is not an error. Raises HypervisorError."""

    instance: Instance
    nic: Nic


class NicUnplug(Call[None], frozen=True):
    """Unplug a NIC from a running instance; a missing NIC is not an error.

    Raises HypervisorError when the guest does not release it.
    """

    instance: Instance
    nic: Nic


class NicUpdate(Call[bool], frozen=True):
    """Reconnect the tap of a NIC, for other addresses or another link; False when it is not plugged in."""

    instance: Instance
    nic: Nic

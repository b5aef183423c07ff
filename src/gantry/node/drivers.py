"""The interfaces of a node's drivers, and the registry that finds one by name.

A driver is one class in one file; ``node.daemon.handlers`` calls it, ``node.daemon.wiring`` puts the registry together,
and ``tests/conformance`` holds one suite per interface that every driver passes. Drivers get filled structures and know
no defaults. All methods can be repeated: to start what runs, or to remove what is gone, is no error.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from gantry import errors
from gantry.rpc import calls

Driver = TypeVar("Driver")


class Hypervisor(Protocol):
    """Runs instances."""

    async def validate(self, hvparams: Mapping[str, calls.Value]) -> None:
        """Check what only the node can tell of filled parameters (a kernel's file); InvalidError or HypervisorError."""
        ...

    async def start(self, instance: calls.Instance, *, paused: bool) -> None:
        """Start an instance, its processors stopped when ``paused``; return when its hypervisor answers."""
        ...

    async def stop(self, name: str, *, timeout: float) -> None:
        """Ask for a power-off, cut the power after ``timeout`` seconds; what ran for it is gone afterwards."""
        ...

    async def reboot(self, name: str, *, kind: str, timeout: float) -> None:
        """Restart ``soft`` (the guest shuts down first) or ``hard``; HypervisorError when it does not run."""
        ...

    async def info(self, name: str) -> calls.RunningInstance | None:
        """Describe a running instance, one as well that a migration brings."""
        ...

    async def running(self) -> tuple[calls.RunningInstance, ...]:
        """List what runs, by name, without what a migration still brings."""
        ...

    async def plug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Plug a NIC into a running instance, all of it or nothing; HypervisorError."""
        ...

    async def unplug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Take a NIC out of a running instance; HypervisorError when the guest does not release it."""
        ...

    async def update_nic(self, instance: calls.Instance, nic: calls.Nic) -> bool:
        """Connect the node's end of a NIC anew, for what it is now; False when the instance runs without that NIC."""
        ...

    async def plug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Plug an active disk into a running instance, all of it or nothing; HypervisorError."""
        ...

    async def unplug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Take a disk out of a running instance; HypervisorError when the guest does not release it."""
        ...

    async def resize_disk(self, instance: calls.Instance, disk: calls.Disk) -> bool:
        """Tell a running instance that a disk has grown; False when it runs without that disk."""
        ...

    async def balloon(self, instance: calls.Instance, memory: int) -> int:
        """Give a running instance ``memory`` MiB, return what it has then (``calls.InstanceBalloonMemory``)."""
        ...

    async def migration_info(self, instance: calls.Instance) -> str:
        """Describe a running instance for ``accept``; HypervisorError, WrongStateError."""
        ...

    async def accept(self, instance: calls.Instance, info: str, *, address: str, mirror: bool) -> calls.Reception:
        """Wait for a migrating instance; ExistsError when it runs here (``calls.InstanceAccept``)."""
        ...

    async def migrate(self, instance: calls.Instance, reception: calls.Reception, *, live: bool) -> None:
        """Begin to send a running instance (``calls.InstanceMigrate``)."""
        ...

    async def migration_status(self, instance: calls.Instance, *, wait: float) -> calls.MigrationStatus:
        """Tell how far that is, after ``wait`` seconds or as soon as it is final; HypervisorError."""
        ...

    async def cancel_migration(self, instance: calls.Instance) -> calls.MigrationStatus:
        """Give the sending up; the instance runs on, unless it is too late."""
        ...

    async def finalize_source(self, instance: calls.Instance, *, success: bool) -> None:
        """End a migration where it came from (``calls.InstanceFinalizeMigrationSrc``); WrongStateError."""
        ...

    async def finalize_target(self, instance: calls.Instance, *, success: bool) -> None:
        """End a migration where it goes to (``calls.InstanceFinalizeMigrationDst``); WrongStateError."""
        ...

    async def endings(self) -> tuple[calls.Ending, ...]:
        """List how instances ended that nobody stopped."""
        ...

    async def console(self, name: str) -> calls.Console:
        """Tell how to reach an instance's console."""
        ...

    async def verify(self) -> list[str]:
        """Return what is wrong with the hypervisor on this node."""
        ...

    async def memory(self) -> tuple[int, int] | None:
        """Return total and free MiB of a machine that the hypervisor has under itself; None where the kernel has it."""
        ...


class BlockDevice(Protocol):
    """Makes disks. A disk is made, activated where it is used, and then has a path that programs open.

    A disk may be asked for again after a lost answer, but never twice at once (``daemon.disk_calls`` sees to that).
    """

    def logical_id(self, instance: str, uuid: str, *, index: int) -> str:
        """Return the last part of the logical id of a disk that is to be made."""
        ...

    def path(self, disk: calls.Disk) -> str:
        """Return where a disk is found on this node; InvalidError when its logical id does not lead to one."""
        ...

    async def place(self, disks: Sequence[calls.Disk]) -> tuple[tuple[str, ...], ...]:
        """Choose physical volumes for disks that belong together, empty where there is no choice; NoRoomError."""
        ...

    async def create(self, disk: calls.Disk, *, owner: str, on: Sequence[str] = ()) -> str:
        """Make a disk and return its path; ExistsError, NoRoomError, InvalidError.

        ``on`` are physical volumes to use while they have room. Nothing is left of a disk that cannot be made.
        """
        ...

    async def adopt(self, disk: calls.Disk, source: str, *, owner: str) -> int:
        """Take what is there as ``source`` for a disk and return its size; NotFoundError, WrongStateError."""
        ...

    async def remove(self, disk: calls.Disk) -> None:
        """Remove a disk, which may be active."""
        ...

    async def find(self, disk: calls.Disk) -> calls.DiskState | None:
        """Describe a disk; None when it is not there."""
        ...

    async def activate(self, disk: calls.Disk, *, primary: bool) -> str:
        """Make a disk usable and return its path; NotFoundError, WrongStateError (``calls.BlockdevAssemble``)."""
        ...

    async def deactivate(self, disk: calls.Disk) -> None:
        """Take a disk out of use; WrongStateError while somebody has it open."""
        ...

    async def open(self, disk: calls.Disk, *, force: bool) -> None:
        """Become the one that writes to a mirrored disk; WrongStateError. Nothing happens to one without a mirror."""
        ...

    async def close(self, disk: calls.Disk) -> None:
        """Give up writing to a mirrored disk; WrongStateError while somebody has it open."""
        ...

    async def expose(self, disk: calls.Disk) -> str:
        """Return where a program reads and writes what the guest would, while no guest runs; ``conceal`` ends it."""
        ...

    async def conceal(self, disk: calls.Disk) -> None:
        """Take away what ``expose`` made."""
        ...

    async def set_mode(self, disk: calls.Disk) -> None:
        """Let an active disk be written to, or not, as its mode says."""
        ...

    async def grow(self, disk: calls.Disk, size: int, *, backing: bool, dry_run: bool) -> None:
        """Grow a disk to ``size`` MiB; NoRoomError (``calls.BlockdevGrow``)."""
        ...

    async def snapshot(self, disk: calls.Disk, name: str) -> tuple[str, tuple[str, ...]]:
        """Keep what a disk holds now as the disk ``name``, return that one's type and logical id; WrongStateError."""
        ...

    async def rename(self, disk: calls.Disk, to: tuple[str, ...]) -> None:
        """Give a disk that is not in use another logical id."""
        ...

    async def set_info(self, disk: calls.Disk, owner: str) -> None:
        """Write the name of a disk's instance down with the disk."""
        ...

    async def wipe(self, disk: calls.Disk, *, offset: int, size: int) -> None:
        """Overwrite ``size`` MiB of an active disk with zeros."""
        ...

    async def storage(self, name: str) -> calls.StorageInfo:
        """Return the room in a storage place (``calls.StorageUnit``); OSError, EnvironmentFaultError: out of order."""
        ...

    async def verify(self, name: str) -> list[str]:
        """Return what is wrong with a storage place, and what to do about it."""
        ...


class Mirror(Protocol):
    """What mirrored disks can do beside (``calls.DrbdAttachNet`` and its neighbours)."""

    async def connect(self, disk: calls.Disk, *, multimaster: bool, discard: bool) -> None:
        """Connect a disk to its peer."""
        ...

    async def disconnect(self, disk: calls.Disk) -> None:
        """Part a disk from its peer."""
        ...

    async def attach(self, disk: calls.Disk) -> None:
        """Give a disk the local disks that it names."""
        ...

    async def detach(self, disk: calls.Disk) -> None:
        """Take a disk's local disks away."""
        ...

    async def pause(self, disk: calls.Disk, *, pause: bool) -> None:
        """Let the resynchronisation wait, or go on."""
        ...


class NicDriver(Protocol):
    """Plugs NICs in."""

    async def validate(self, nic: calls.Nic) -> None:
        """Raise EnvironmentFaultError that names what the node lacks."""
        ...

    async def plug(self, instance: calls.Instance, nic: calls.Nic) -> str:
        """Make the node's end of a NIC and return its interface name."""
        ...

    async def update(self, instance: calls.Instance, nic: calls.Nic, *, interface: str = "") -> None:
        """Connect the node's end, which stays, anew: to another link, for other addresses; EnvironmentFaultError.

        ``interface`` is its name where it is another than ``interface_name``, because ``plug`` did not make it.
        """
        ...

    async def unplug(self, interface: str) -> None:
        """Take the node's end away."""
        ...

    def interface_name(self, nic: calls.Nic) -> str:
        """Return the interface name that a NIC has when it is plugged in."""
        ...


@dataclass(frozen=True)
class Registry:
    """The drivers of a node: hypervisors by name, block devices by disk type, NIC drivers by mode.

    ``mirrors`` are those block devices that keep a second copy on another node.
    """

    node: str
    hypervisors: Mapping[str, Hypervisor] = field(default_factory=dict)
    storage: Mapping[str, BlockDevice] = field(default_factory=dict)
    nics: Mapping[str, NicDriver] = field(default_factory=dict)
    mirrors: Mapping[str, Mirror] = field(default_factory=dict)

    def hypervisor(self, name: str) -> Hypervisor:
        """Return a hypervisor; InvalidError."""
        return self._find(self.hypervisors, name, kind="hypervisor")

    def block_device(self, kind: str) -> BlockDevice:
        """Return the driver of a disk type; InvalidError."""
        return self._find(self.storage, kind, kind="disk type")

    def mirror(self, kind: str) -> Mirror:
        """Return the driver of a disk type that keeps a mirror; InvalidError."""
        return self._find(self.mirrors, kind, kind="mirrored disk type")

    def nic(self, mode: str) -> NicDriver:
        """Return the driver of a NIC mode; InvalidError."""
        return self._find(self.nics, mode, kind="NIC mode")

    def disk_path(self, disk: calls.Disk) -> str:
        """Return where a disk is found on this node."""
        return self.block_device(disk.dev_type).path(disk)

    @contextlib.asynccontextmanager
    async def exposed(self, disks: Sequence[calls.Disk]) -> AsyncIterator[dict[str, str]]:
        """Show disks to programs of the node; the paths, by the disks' UUIDs, are good inside the context."""
        async with contextlib.AsyncExitStack() as shown:
            found: dict[str, str] = {}
            for disk in disks:
                driver = self.block_device(disk.dev_type)
                found[disk.uuid] = await driver.expose(disk)
                shown.push_async_callback(driver.conceal, disk)
            yield found

    def _find(self, known: Mapping[str, Driver], name: str, *, kind: str) -> Driver:
        if name not in known:
            raise errors.InvalidError(
                f"node {self.node} has no {kind} {name}", hint=f"it has {', '.join(sorted(known)) or 'none'}"
            )
        return known[name]

"""The interfaces of a node's drivers, and the registry that finds a driver by its name.

A driver is one class in one file. ``node.daemon.handlers`` calls it, ``node.daemon.wiring`` creates the registry, and
``tests/conformance`` has a suite for each interface that every driver passes. Drivers receive filled structures and
have no defaults. All methods are idempotent: starting a running instance or removing a missing object is not an error.
"""

import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from gantry import errors
from gantry.rpc import calls
from gantry.runtime import bytestream, interface

Driver = TypeVar("Driver")


class Hypervisor(Protocol):
    """Runs instances."""

    async def validate(self, hvparams: Mapping[str, calls.Value]) -> None:
        """Check filled parameters against the node, such as a kernel's file; InvalidError or HypervisorError."""
        ...

    async def start(self, instance: calls.Instance, *, paused: bool) -> None:
        """Start an instance, with its processors stopped if ``paused``; return when its hypervisor answers."""
        ...

    async def stop(self, name: str, *, timeout: float) -> None:
        """Request a power-off, cut the power after ``timeout`` seconds; no process of the instance remains."""
        ...

    async def reboot(self, name: str, *, kind: str, timeout: float) -> None:
        """Restart ``soft`` (the guest shuts down first) or ``hard``; HypervisorError if the instance does not run."""
        ...

    async def info(self, name: str) -> calls.RunningInstance | None:
        """Describe a running instance, which may be arriving by a migration; None if it does not run."""
        ...

    async def machine(self, name: str) -> calls.Instance | None:
        """Return a running instance with its present devices; None without a record of them."""
        ...

    async def running(self, names: Collection[str] | None = None) -> tuple[calls.RunningInstance, ...]:
        """Return the running instances, all or those of some names, without those still arriving by a migration.

        They are sorted by name.
        """
        ...

    async def plug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Plug a NIC into a running instance, completely or not at all; HypervisorError."""
        ...

    async def unplug_nic(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Unplug a NIC from a running instance; HypervisorError if the guest does not release it."""
        ...

    async def update_nic(self, instance: calls.Instance, nic: calls.Nic) -> bool:
        """Reconnect the tap of a NIC after the NIC's change; False if the instance runs without that NIC."""
        ...

    async def plug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Plug an active disk into a running instance, completely or not at all; HypervisorError."""
        ...

    async def unplug_disk(self, instance: calls.Instance, disk: calls.Disk) -> None:
        """Unplug a disk from a running instance; HypervisorError if the guest does not release it."""
        ...

    async def resize_disk(self, instance: calls.Instance, disk: calls.Disk) -> bool:
        """Notify a running instance that a disk has grown; False if it runs without that disk."""
        ...

    async def balloon(self, instance: calls.Instance, memory: int) -> int:
        """Set the memory of a running instance to ``memory`` MiB; return the amount that it then has.

        See ``calls.InstanceBalloonMemory``.
        """
        ...

    async def migration_info(self, instance: calls.Instance) -> str:
        """Describe a running instance for ``accept``; HypervisorError, WrongStateError."""
        ...

    async def accept(self, instance: calls.Instance, info: str, *, address: str, mirror: bool) -> calls.Reception:
        """Listen for a migrating instance; ExistsError if it runs on this node (``calls.InstanceAccept``)."""
        ...

    async def migrate(self, instance: calls.Instance, reception: calls.Reception, *, live: bool) -> None:
        """Begin to migrate a running instance to another node (``calls.InstanceMigrate``)."""
        ...

    async def migration_status(self, instance: calls.Instance, *, wait: float) -> calls.MigrationStatus:
        """Return the progress of an outgoing migration after ``wait`` seconds, or when it ends; HypervisorError."""
        ...

    async def cancel_migration(self, instance: calls.Instance) -> calls.MigrationStatus:
        """Cancel an outgoing migration; the instance keeps running here, unless the migration has already ended."""
        ...

    async def finalize_source(self, instance: calls.Instance, *, success: bool) -> None:
        """End a migration on its source node (``calls.InstanceFinalizeMigrationSrc``); WrongStateError."""
        ...

    async def finalize_target(self, instance: calls.Instance, *, success: bool) -> None:
        """End a migration on its target node (``calls.InstanceFinalizeMigrationDst``); WrongStateError."""
        ...

    async def endings(self) -> tuple[calls.Ending, ...]:
        """Return how instances ended that ended by themselves, not by ``stop``."""
        ...

    async def usage(self) -> tuple[calls.Usage, ...]:
        """Return what the running instances use, without those that cannot be measured now; none if it cannot say."""
        ...

    async def console(self, name: str) -> calls.Console:
        """Return how to reach an instance's console."""
        ...

    async def connect_console(self, name: str, kind: str) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Return a new stream to a console of a running instance; errors as ``calls.ConsoleOpen``, HypervisorError."""
        ...

    async def verify(self) -> list[str]:
        """Return the faults of the hypervisor on this node; empty if there are none."""
        ...

    async def memory(self) -> tuple[int, int] | None:
        """Return total and free MiB of the machine if the hypervisor manages them; None if the kernel does."""
        ...


class BlockDevice(Protocol):
    """Creates disks. A disk is created, then activated on the node that uses it; programs open its path.

    A method may be called again for the same disk after a lost answer, but never concurrently: ``daemon.disk_calls``
    runs the calls for a disk one after another.
    """

    def logical_id(self, instance: str, uuid: str, *, index: int) -> str:
        """Return the last part of the logical id of a disk to be created."""
        ...

    def path(self, disk: calls.Disk) -> str:
        """Return the path of a disk on this node; InvalidError if its logical id does not lead to a path."""
        ...

    async def choose_volumes(self, disks: Sequence[calls.Disk]) -> tuple[tuple[str, ...], ...]:
        """Choose physical volumes for the disks of an instance; empty if there is no choice. NoRoomError."""
        ...

    async def create(self, disk: calls.Disk, *, owner: str, on: Sequence[str] = ()) -> str:
        """Create a disk and return its path; ExistsError, NoRoomError, InvalidError.

        ``on`` are physical volumes to use while they have free space. After a failure nothing of the disk remains.
        """
        ...

    async def adopt(self, disk: calls.Disk, source: str, *, owner: str) -> int:
        """Turn the existing volume ``source`` into a disk, return its size in MiB; NotFoundError, WrongStateError."""
        ...

    async def remove(self, disk: calls.Disk) -> None:
        """Remove a disk, which may be active."""
        ...

    async def find(self, disk: calls.Disk) -> calls.DiskState | None:
        """Describe a disk; None if it does not exist on this node."""
        ...

    async def activate(self, disk: calls.Disk, *, primary: bool) -> str:
        """Make a disk usable and return its path; NotFoundError, WrongStateError (``calls.BlockdevAssemble``)."""
        ...

    async def deactivate(self, disk: calls.Disk) -> None:
        """Shut a disk down; WrongStateError while a program has it open."""
        ...

    async def open(self, disk: calls.Disk, *, force: bool) -> None:
        """Make this node the writer (primary) of a mirrored disk; WrongStateError. Other disks do not change."""
        ...

    async def close(self, disk: calls.Disk) -> None:
        """Make this node secondary for a mirrored disk; WrongStateError while a program has it open."""
        ...

    async def expose(self, disk: calls.Disk) -> str:
        """Return a path where programs read and write the guest's data while no guest runs; undo with ``conceal``."""
        ...

    async def conceal(self, disk: calls.Disk) -> None:
        """Undo ``expose``."""
        ...

    async def set_mode(self, disk: calls.Disk) -> None:
        """Make an active disk writable or read-only, according to its mode."""
        ...

    async def grow(self, disk: calls.Disk, size: int, *, backing: bool, dry_run: bool) -> None:
        """Grow a disk to ``size`` MiB; NoRoomError (``calls.BlockdevGrow``)."""
        ...

    async def snapshot(self, disk: calls.Disk, name: str) -> tuple[str, tuple[str, ...]]:
        """Copy a disk's present content to the new disk ``name``; return its type and logical id. WrongStateError."""
        ...

    async def rename(self, disk: calls.Disk, to: tuple[str, ...]) -> None:
        """Change the logical id of a disk that is not in use."""
        ...

    async def set_info(self, disk: calls.Disk, owner: str) -> None:
        """Record the name of a disk's instance with the disk."""
        ...

    async def wipe(self, disk: calls.Disk, *, offset: int, size: int) -> None:
        """Overwrite ``size`` MiB of an active disk with zeros."""
        ...

    async def storage(self, name: str) -> calls.StorageInfo:
        """Return the capacity of a storage unit (``calls.StorageUnit``); OSError, EnvironmentFaultError if unusable."""
        ...

    async def verify(self, name: str) -> list[str]:
        """Return the faults of a storage unit, and what to do about them; empty if there are none."""
        ...


class Mirror(Protocol):
    """The additional methods for mirrored disks (``calls.DrbdAttachNet`` and the calls beside it)."""

    async def connect(self, disk: calls.Disk, *, multimaster: bool, discard: bool) -> None:
        """Connect a disk to its peer."""
        ...

    async def disconnect(self, disk: calls.Disk) -> None:
        """Disconnect a disk from its peer."""
        ...

    async def attach(self, disk: calls.Disk) -> None:
        """Attach to a disk the local block devices that it names."""
        ...

    async def detach(self, disk: calls.Disk) -> None:
        """Detach a disk's local block devices."""
        ...

    async def pause(self, disk: calls.Disk, *, pause: bool) -> None:
        """Pause the resynchronization, or resume it."""
        ...


class NicDriver(Protocol):
    """Plugs NICs into a network of the node."""

    async def validate(self, nic: calls.Nic) -> None:
        """Raise EnvironmentFaultError if the node lacks something for the NIC; the error names it."""
        ...

    async def plug(self, instance: calls.Instance, nic: calls.Nic) -> str:
        """Create the tap of a NIC and return its interface name."""
        ...

    async def update(self, instance: calls.Instance, nic: calls.Nic, *, interface: str = "") -> None:
        """Reconnect the existing tap, to another link or for other addresses; EnvironmentFaultError.

        ``interface`` is the tap's name if it differs from ``interface_name``, because ``plug`` did not create it.
        """
        ...

    async def unplug(self, interface: str) -> None:
        """Remove a tap."""
        ...

    def interface_name(self, nic: calls.Nic) -> str:
        """Return the name of a NIC's tap."""
        ...


@dataclass(frozen=True)
class Registry:
    """The drivers of a node: hypervisors by name, block devices by disk type, NIC drivers by mode.

    ``mirrors`` are those block devices that keep a second copy on another node.
    """

    runtime: interface.Runtime
    hypervisors: Mapping[str, Hypervisor] = field(default_factory=dict)
    storage: Mapping[str, BlockDevice] = field(default_factory=dict)
    nics: Mapping[str, NicDriver] = field(default_factory=dict)
    mirrors: Mapping[str, Mirror] = field(default_factory=dict)

    @property
    def node(self) -> str:
        """Return the node's name."""
        return self.runtime.host

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
        """Return the path of a disk on this node."""
        return self.block_device(disk.dev_type).path(disk)

    @contextlib.asynccontextmanager
    async def exposed(self, disks: Sequence[calls.Disk]) -> AsyncIterator[dict[str, str]]:
        """Make disks readable by programs of the node; the paths, by disk UUID, are valid inside the context."""
        async with contextlib.AsyncExitStack() as stack:
            disk_paths: dict[str, str] = {}
            for disk in disks:
                driver = self.block_device(disk.dev_type)
                disk_paths[disk.uuid] = await driver.expose(disk)
                stack.push_async_callback(driver.conceal, disk)
            yield disk_paths

    def _find(self, known: Mapping[str, Driver], name: str, *, kind: str) -> Driver:
        if name not in known:
            raise errors.InvalidError(
                f"node {self.node} has no {kind} {name}", hint=f"available: {', '.join(sorted(known)) or 'none'}"
            )
        return known[name]

"""The interfaces of a node's drivers, and the registry that finds one by name.

A driver is one class in one file; ``node.handlers`` calls it, ``node.assembly`` puts the registry together, and
``tests/conformance`` holds one suite per interface that every driver passes. Drivers get filled structures and know no
defaults. All methods can be repeated: to start what runs, or to remove what is gone, is no error.
"""

from collections.abc import Mapping
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
        """Describe a running instance."""
        ...

    async def running(self) -> tuple[calls.RunningInstance, ...]:
        """List what runs, by name."""
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

    async def console(self, name: str) -> calls.Console:
        """Tell how to reach an instance's console."""
        ...

    async def verify(self) -> list[str]:
        """Return what is wrong with the hypervisor on this node."""
        ...


class BlockDevice(Protocol):
    """Makes disks."""

    def logical_id(self, instance: str, uuid: str) -> str:
        """Return the driver's name for a disk that is to be made."""
        ...

    def path(self, disk: calls.Disk) -> str:
        """Return where a disk is found on this node; InvalidError when its logical id does not lead to one."""
        ...

    async def create(self, disk: calls.Disk, *, owner: str) -> str:
        """Make a disk and return its path; ExistsError, NoRoomError, InvalidError."""
        ...

    async def remove(self, disk: calls.Disk) -> None:
        """Remove a disk."""
        ...

    def exists(self, disk: calls.Disk) -> bool:
        """Tell whether a disk is there."""
        ...

    async def storage(self) -> calls.StorageInfo:
        """Return the room there is; OSError when the place is out of order."""
        ...


class NicDriver(Protocol):
    """Plugs NICs in."""

    async def validate(self, nic: calls.Nic) -> None:
        """Raise EnvironmentFaultError that names what the node lacks."""
        ...

    async def plug(self, instance: calls.Instance, nic: calls.Nic) -> str:
        """Make the node's end of a NIC and return its interface name."""
        ...

    async def update(self, instance: calls.Instance, nic: calls.Nic) -> None:
        """Connect the node's end, which stays, anew: to another link, for other addresses; EnvironmentFaultError."""
        ...

    async def unplug(self, interface: str) -> None:
        """Take the node's end away."""
        ...

    def interface_name(self, nic: calls.Nic) -> str:
        """Return the interface name that a NIC has when it is plugged in."""
        ...


@dataclass(frozen=True)
class Registry:
    """The drivers of a node: hypervisors by name, block devices by disk type, NIC drivers by mode."""

    node: str
    hypervisors: Mapping[str, Hypervisor] = field(default_factory=dict)
    storage: Mapping[str, BlockDevice] = field(default_factory=dict)
    nics: Mapping[str, NicDriver] = field(default_factory=dict)

    def hypervisor(self, name: str) -> Hypervisor:
        """Return a hypervisor; InvalidError."""
        return self._find(self.hypervisors, name, kind="hypervisor")

    def block_device(self, kind: str) -> BlockDevice:
        """Return the driver of a disk type; InvalidError."""
        return self._find(self.storage, kind, kind="disk type")

    def nic(self, mode: str) -> NicDriver:
        """Return the driver of a NIC mode; InvalidError."""
        return self._find(self.nics, mode, kind="NIC mode")

    def disk_path(self, disk: calls.Disk) -> str:
        """Return where a disk is found on this node."""
        return self.block_device(disk.dev_type).path(disk)

    def _find(self, known: Mapping[str, Driver], name: str, *, kind: str) -> Driver:
        if name not in known:
            raise errors.InvalidError(
                f"node {self.node} has no {kind} {name}", hint=f"it has {', '.join(sorted(known)) or 'none'}"
            )
        return known[name]

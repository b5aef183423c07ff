"""Plugs NICs and disks into a running QEMU, and unplugs them.

Each NIC or disk is two objects in QEMU. A NIC is a netdev, which opens the tap, and a device, which the guest sees; a
disk is a node of the block layer, which opens the file, and a device. The device's name is ``dev-`` and the name of the
other object (``hypervisors.guest_slots``). The guest must cooperate: a device is gone only when the guest's operating
system has released it, and a guest that is still booting may miss the request. ``driver`` calls it and holds the
guest's lock.
"""

import contextlib
from asyncio import timeout
from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.node.hypervisors.kvm import guest_records, qmp
from gantry.runtime import interface

RELEASE_TIMEOUT_SECONDS = 30.0
REQUEST_INTERVAL_SECONDS = 2.0
DEVICES = "/machine/peripheral"


class Property(msgspec.Struct):
    """An object in QEMU's object tree."""

    name: str


class Hotplug:
    """The NICs and disks of running guests."""

    def __init__(self, runtime: interface.Runtime, guests: guest_records.Guests) -> None:
        self._clock = runtime.clock
        self._guests = guests

    async def has(self, name: str, device: str) -> bool:
        """Return whether a guest has the NIC or disk of that name."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            answer = await control.execute("qom-list", {"path": DEVICES})
        return f"dev-{device}" in {each.name for each in msgspec.json.decode(answer, type=list[Property])}

    async def plug_nic(self, name: str, netdev: Mapping[str, object], device: Mapping[str, object]) -> None:
        """Plug a NIC into a guest; HypervisorError with QEMU's reason if that fails, and then nothing remains."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            await _delete_netdev(control, str(netdev["id"]))
            await control.execute("netdev_add", netdev)
            try:
                await control.execute("device_add", device)
            except errors.GantryError:
                await _delete_netdev(control, str(netdev["id"]))
                raise

    async def plug_disk(self, name: str, node: Mapping[str, object], device: Mapping[str, object]) -> None:
        """Plug a disk into a guest; HypervisorError with QEMU's reason if that fails, and then nothing remains."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            await _delete_node(control, str(node["node-name"]))
            await control.execute("blockdev-add", node)
            try:
                await control.execute("device_add", device)
            except errors.GantryError:
                await _delete_node(control, str(node["node-name"]))
                raise

    async def unplug_nic(self, name: str, nic: str) -> None:
        """Unplug a NIC from a guest; HypervisorError if the guest does not release it in time."""
        async with self._guests.control(name) as control:
            await self._unplug(control, name, nic, kind="NIC")
            async with timeout(qmp.ANSWER_TIMEOUT_SECONDS):
                await _delete_netdev(control, nic)

    async def unplug_disk(self, name: str, disk: str) -> None:
        """Unplug a disk from a guest; HypervisorError if the guest does not release it in time."""
        async with self._guests.control(name) as control:
            await self._unplug(control, name, disk, kind="disk")
            async with timeout(qmp.ANSWER_TIMEOUT_SECONDS):
                await _delete_node(control, disk)

    async def resize_disk(self, name: str, disk: str, *, size: int) -> None:
        """Notify a guest that its disk has ``size`` bytes."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            await control.execute("block_resize", {"node-name": disk, "size": size})

    async def _unplug(self, control: qmp.Connection, name: str, device: str, *, kind: str) -> None:
        limit = self._clock.monotonic() + RELEASE_TIMEOUT_SECONDS
        while not await self._released(control, device, timeout_seconds=limit - self._clock.monotonic()):
            if self._clock.monotonic() >= limit:
                raise errors.HypervisorError(
                    f"instance {name} did not release the {kind} within {RELEASE_TIMEOUT_SECONDS:.0f} s",
                    hint="its guest may hang or be booting; with --no-hotplug the change applies at the next start",
                )

    async def _released(self, control: qmp.Connection, device: str, *, timeout_seconds: float) -> bool:
        """Request the release of a device; return whether the guest released it within the timeout or interval."""
        try:
            async with timeout(qmp.ANSWER_TIMEOUT_SECONDS):
                await control.execute("device_del", {"id": f"dev-{device}"})
            async with timeout(min(timeout_seconds, REQUEST_INTERVAL_SECONDS)):
                await control.event({"DEVICE_DELETED"}, device=f"dev-{device}")
        except errors.NotFoundError:
            return True
        except TimeoutError:
            return False
        return True


async def _delete_netdev(control: qmp.Connection, nic: str) -> None:
    with contextlib.suppress(errors.NotFoundError):
        await control.execute("netdev_del", {"id": nic})


async def _delete_node(control: qmp.Connection, node: str) -> None:
    """Delete a node of the block layer if it exists; QEMU has no distinct error for a missing node."""
    if node in await control.block_nodes():
        await control.execute("blockdev-del", {"node-name": node})

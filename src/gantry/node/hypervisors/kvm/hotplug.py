"""NICs and disks put into a running QEMU and taken out of it again.

Each is two things in QEMU: a NIC is a netdev, which holds the tap, and a device, which the guest sees; a disk is a node
of the block layer, which holds the file, and a device. The device's name is that of the other with ``dev-`` in front
(``hypervisors.guest_slots``). The guest has a say: a device is gone when its operating system released it, and one that
is still booting may not have heard that it shall. ``kvm`` calls, holding the guest's lock.
"""

import contextlib
from asyncio import timeout
from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.node.hypervisors.kvm import guest_records, qmp
from gantry.runtime import interface

RELEASE_LIMIT = 30.0
ASK_INTERVAL = 2.0
DEVICES = "/machine/peripheral"


class Property(msgspec.Struct):
    """An object in QEMU's tree."""

    name: str


class Hotplug:
    """Commands to running guests."""

    def __init__(self, runtime: interface.Runtime, known: guest_records.Guests) -> None:
        self._clock = runtime.clock
        self._guests = known

    async def has(self, name: str, what: str) -> bool:
        """Tell whether a guest has the NIC or disk of that name."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_LIMIT):
            found = await control.execute("qom-list", {"path": DEVICES})
        return f"dev-{what}" in {one.name for one in msgspec.json.decode(found, type=list[Property])}

    async def plug_nic(self, name: str, netdev: Mapping[str, object], device: Mapping[str, object]) -> None:
        """Put a NIC into a guest; HypervisorError with QEMU's reason, and then nothing stays."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_LIMIT):
            await _forget_netdev(control, str(netdev["id"]))
            await control.execute("netdev_add", netdev)
            try:
                await control.execute("device_add", device)
            except errors.GantryError:
                await _forget_netdev(control, str(netdev["id"]))
                raise

    async def plug_disk(self, name: str, node: Mapping[str, object], device: Mapping[str, object]) -> None:
        """Put a disk into a guest; HypervisorError with QEMU's reason, and then nothing stays."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_LIMIT):
            await _forget_node(control, str(node["node-name"]))
            await control.execute("blockdev-add", node)
            try:
                await control.execute("device_add", device)
            except errors.GantryError:
                await _forget_node(control, str(node["node-name"]))
                raise

    async def unplug_nic(self, name: str, nic: str) -> None:
        """Take a NIC out of a guest; HypervisorError when the guest does not release it in time."""
        async with self._guests.control(name) as control:
            await self._unplug(control, name, nic, what="NIC")
            async with timeout(qmp.ANSWER_LIMIT):
                await _forget_netdev(control, nic)

    async def unplug_disk(self, name: str, disk: str) -> None:
        """Take a disk out of a guest; HypervisorError when the guest does not release it in time."""
        async with self._guests.control(name) as control:
            await self._unplug(control, name, disk, what="disk")
            async with timeout(qmp.ANSWER_LIMIT):
                await _forget_node(control, disk)

    async def resize_disk(self, name: str, disk: str, *, size: int) -> None:
        """Tell a guest that its disk has ``size`` bytes."""
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_LIMIT):
            await control.execute("block_resize", {"node-name": disk, "size": size})

    async def _unplug(self, control: qmp.Connection, name: str, device: str, *, what: str) -> None:
        limit = self._clock.monotonic() + RELEASE_LIMIT
        while not await self._released(control, device, patience=limit - self._clock.monotonic()):
            if self._clock.monotonic() >= limit:
                raise errors.HypervisorError(
                    f"instance {name} did not release the {what} within {RELEASE_LIMIT:.0f} s",
                    hint="its guest may hang or still boot; with --no-hotplug the change waits for the next start",
                )

    async def _released(self, control: qmp.Connection, device: str, *, patience: float) -> bool:
        """Ask the guest for a device and tell whether it released it within a while."""
        try:
            async with timeout(qmp.ANSWER_LIMIT):
                await control.execute("device_del", {"id": f"dev-{device}"})
            async with timeout(min(patience, ASK_INTERVAL)):
                await control.event({"DEVICE_DELETED"}, device=f"dev-{device}")
        except errors.NotFoundError:
            return True
        except TimeoutError:
            return False
        return True


async def _forget_netdev(control: qmp.Connection, nic: str) -> None:
    with contextlib.suppress(errors.NotFoundError):
        await control.execute("netdev_del", {"id": nic})


async def _forget_node(control: qmp.Connection, node: str) -> None:
    """Close a node of the block layer; QEMU has no word of its own for one that is not there."""
    if node in await control.block_nodes():
        await control.execute("blockdev-del", {"node-name": node})

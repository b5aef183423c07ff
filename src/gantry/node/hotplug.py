"""NICs put into a running QEMU and taken out of it again.

A NIC is two things in QEMU: a netdev, which holds the tap, and a device, which the guest sees; the device's name is
that of the netdev with ``dev-`` in front (``qemu.nic_name``). The guest has a say: a device is gone when its operating
system released it, and one that is still booting may not have heard that it shall. ``kvm`` calls, holding the guest's
lock.
"""

import contextlib
from asyncio import timeout
from collections.abc import AsyncIterator

import msgspec

from gantry import errors
from gantry.node import guests, qmp
from gantry.runtime import interface

ANSWER_LIMIT = 5.0
RELEASE_LIMIT = 10.0
ASK_INTERVAL = 2.0
DEVICES = "/machine/peripheral"


class Property(msgspec.Struct):
    """An object in QEMU's tree."""

    name: str


class Hotplug:
    """Commands to running guests."""

    def __init__(self, runtime: interface.Runtime, known: guests.Guests) -> None:
        self._clock = runtime.clock
        self._network = runtime.network
        self._guests = known

    @contextlib.asynccontextmanager
    async def _control(self, name: str) -> AsyncIterator[qmp.Connection]:
        try:
            async with timeout(ANSWER_LIMIT):
                control = await qmp.connect(self._network, self._guests.files(name).control, guest=name)
            async with control:
                yield control
        except OSError:  # a time limit is one too
            raise errors.HypervisorError(f"QEMU of instance {name} does not answer") from None

    async def has(self, name: str, nic: str) -> bool:
        """Tell whether a guest has the NIC of that name."""
        async with self._control(name) as control, timeout(ANSWER_LIMIT):
            found = await control.execute("qom-list", {"path": DEVICES})
        return _device(nic) in {one.name for one in msgspec.json.decode(found, type=list[Property])}

    async def plug(self, name: str, nic: str, *, tap: str, mac: str, model: str) -> None:
        """Put a NIC on a tap into a guest; HypervisorError with QEMU's reason, and then nothing stays."""
        async with self._control(name) as control, timeout(ANSWER_LIMIT):
            await _forget_netdev(control, nic)
            backend = {"type": "tap", "id": nic, "ifname": tap, "script": "no", "downscript": "no"}
            await control.execute("netdev_add", backend)
            try:
                device = {"driver": model, "netdev": nic, "mac": mac, "id": _device(nic)}
                await control.execute("device_add", device)
            except errors.GantryError:
                await _forget_netdev(control, nic)
                raise

    async def unplug(self, name: str, nic: str) -> None:
        """Take a NIC out of a guest; HypervisorError when the guest does not release it in time."""
        async with self._control(name) as control:
            limit = self._clock.monotonic() + RELEASE_LIMIT
            while not await self._released(control, nic, patience=limit - self._clock.monotonic()):
                if self._clock.monotonic() >= limit:
                    raise errors.HypervisorError(
                        f"instance {name} did not release the NIC within {RELEASE_LIMIT:.0f} s",
                        hint="its guest may hang or still boot; with --no-hotplug the change waits for the next start",
                    )
            async with timeout(ANSWER_LIMIT):
                await _forget_netdev(control, nic)

    async def _released(self, control: qmp.Connection, nic: str, *, patience: float) -> bool:
        """Ask the guest for a NIC and tell whether it released it within a while."""
        try:
            async with timeout(ANSWER_LIMIT):
                await control.execute("device_del", {"id": _device(nic)})
            async with timeout(min(patience, ASK_INTERVAL)):
                await control.event({"DEVICE_DELETED"}, device=_device(nic))
        except errors.NotFoundError:
            return True
        except TimeoutError:
            return False
        return True


def _device(nic: str) -> str:
    return f"dev-{nic}"


async def _forget_netdev(control: qmp.Connection, nic: str) -> None:
    with contextlib.suppress(errors.NotFoundError):
        await control.execute("netdev_del", {"id": nic})

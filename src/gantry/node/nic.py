"""NICs of virtual machines: taps, on a bridge or routed, made by the ``ip`` command.

Everything happens in the network namespace that the node daemon runs in. A tap is named after its NIC's UUID, so
that a restarted daemon finds it again. An executable ``kvm-vif-bridge`` in the node's configuration folder takes the
place of what is done to connect a tap (contract: interface scripts); it runs with ``variables.nic``.

The ``ip`` command rather than a netlink library: processes are what a runtime can stand in for.
"""

from collections.abc import Sequence

from gantry import errors
from gantry.node import variables
from gantry.rpc import calls
from gantry.runtime import interface

SCRIPT = "kvm-vif-bridge"
# Interface names end at 15 characters.
UUID_DIGITS = 12


def tap_name(nic: calls.Nic) -> str:
    """Return the name of a NIC's tap."""
    return f"gnt{nic.uuid.replace('-', '')[-UUID_DIGITS:]}"


def tap_address(mac: str) -> str:
    """Return the tap's own MAC address: higher than the guest's, so that a bridge never takes it for its own."""
    return f"fe:{mac.split(':', 1)[1]}"


class Taps:
    """What both modes share: making, connecting and removing taps."""

    def __init__(self, runtime: interface.Runtime, etc: str) -> None:
        self._runtime = runtime
        self._script = f"{etc}/{SCRIPT}"

    async def validate(self, nic: calls.Nic) -> None:
        """Raise EnvironmentFaultError when the node cannot plug the NIC in."""
        if nic.vlan:
            raise errors.EnvironmentFaultError(
                f"NIC {nic.index}: node {self._runtime.host} cannot put it into VLAN {nic.vlan}",
                hint="give each VLAN a bridge of its own",
            )

    async def plug(self, instance: calls.Instance, nic: calls.Nic) -> str:
        """Make the tap anew, connect it and return its name; nothing stays when that fails."""
        await self.validate(nic)
        tap = tap_name(nic)
        await self.unplug(tap)
        queues = ("multi_queue",) if int(instance.hvparams.get("virtio_net_queues", 1)) > 1 else ()
        await self.ip("tuntap", "add", "dev", tap, "mode", "tap", *queues)
        try:
            await self._connect(instance, nic, tap=tap)
        except errors.GantryError:
            await self.unplug(tap)
            raise
        return tap

    async def update(self, instance: calls.Instance, nic: calls.Nic, *, interface: str = "") -> None:
        """Connect a tap anew; taking it down first forgets its bridge and the routes to addresses it had."""
        await self.validate(nic)
        tap = interface or tap_name(nic)
        if not self._has_script():
            if await self.stays(nic, tap):
                return
            await self.ip("link", "set", "dev", tap, "nomaster", "down")
        await self._connect(instance, nic, tap=tap)

    async def stays(self, nic: calls.Nic, tap: str) -> bool:
        """Tell whether a tap is where it shall be, so that its traffic need not be interrupted."""
        del nic, tap
        return False

    def interface_name(self, nic: calls.Nic) -> str:
        """Return the name of a NIC's tap."""
        return tap_name(nic)

    async def _connect(self, instance: calls.Instance, nic: calls.Nic, *, tap: str) -> None:
        if self._has_script():
            await self._run_script(instance, nic, tap=tap)
        else:
            await self.connect(nic, tap)

    async def connect(self, nic: calls.Nic, tap: str) -> None:
        """Bring the tap up."""
        raise NotImplementedError

    async def unplug(self, interface: str) -> None:
        """Remove a tap; one that is gone is no error."""
        if await self.known(interface):
            await self.ip("link", "delete", "dev", interface)

    async def known(self, *what: str) -> bool:
        """Tell whether ``ip link show dev`` knows a device."""
        done = await self._runtime.processes.run(["ip", "-oneline", "link", "show", "dev", *what])
        return done.code == 0 and bool(done.stdout.strip())

    async def ip(self, *arguments: str) -> None:
        """Run the ``ip`` command; EnvironmentFaultError with what it said."""
        await self.run("ip", *arguments)

    async def run(self, *arguments: str) -> None:
        """Run a command; EnvironmentFaultError with what it said."""
        done = await self._runtime.processes.run(arguments)
        self._check(done, arguments)

    def _check(self, done: interface.Completed, arguments: Sequence[str]) -> None:
        if done.code != 0:
            said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            raise errors.EnvironmentFaultError(f"node {self._runtime.host}: {' '.join(arguments)}: {'; '.join(said)}")

    def _has_script(self) -> bool:
        disk = self._runtime.disk
        return disk.exists(self._script) and bool(disk.status(self._script).mode & 0o111)

    async def _run_script(self, instance: calls.Instance, nic: calls.Nic, *, tap: str) -> None:
        environment = variables.nic(instance, nic, interface=tap, action="up")
        done = await self._runtime.processes.run([self._script, tap], environment=environment)
        self._check(done, [self._script, tap])


class Bridged(Taps):
    """NIC mode ``bridged``: the link is a bridge."""

    async def validate(self, nic: calls.Nic) -> None:
        """Raise EnvironmentFaultError when the bridge is missing."""
        await super().validate(nic)
        if not await self.known(nic.link, "type", "bridge"):
            raise errors.EnvironmentFaultError(
                f"NIC {nic.index}: node {self._runtime.host} has no bridge {nic.link}",
                hint=f"make it there (ip link add {nic.link} type bridge), or give the NIC another link",
            )

    async def stays(self, nic: calls.Nic, tap: str) -> bool:
        """Tell whether the tap is a port of the bridge."""
        return await self.known(tap, "master", nic.link)

    async def connect(self, nic: calls.Nic, tap: str) -> None:
        """Make the tap a port of the bridge."""
        await self.ip("link", "set", "dev", tap, "address", tap_address(nic.mac), "master", nic.link, "up")


class Routed(Taps):
    """NIC mode ``routed``: a host route to each address, in the routing table ``link`` when that is given."""

    async def connect(self, nic: calls.Nic, tap: str) -> None:
        """Bring the tap up, answer for the addresses behind it, and route them there."""
        await self.ip("link", "set", "dev", tap, "address", tap_address(nic.mac), "up")
        table = ("table", nic.link) if nic.link else ()
        families = {":" in address.ip for address in nic.addresses}
        if False in families:
            await self.run("sysctl", "-qw", f"net.ipv4.conf.{tap}.proxy_arp=1", f"net.ipv4.conf.{tap}.forwarding=1")
        if True in families:
            await self.run("sysctl", "-qw", f"net.ipv6.conf.{tap}.proxy_ndp=1", f"net.ipv6.conf.{tap}.forwarding=1")
        for address in nic.addresses:
            family = ("-6",) if ":" in address.ip else ()
            await self.ip(*family, "route", "replace", address.ip, "dev", tap, *table)

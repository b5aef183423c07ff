"""NICs of virtual machines: taps, on a bridge or routed, made by the ``ip`` command.

A bridged NIC can be in a VLAN of its bridge (``vlans``), or on a bridge that is made for its segment
(``segment_bridges``).

Everything happens in the network namespace that the node daemon runs in. A tap is named after its NIC's UUID, so
that a restarted daemon finds it again. An executable ``kvm-vif-bridge`` in the node's configuration folder takes the
place of what is done to connect a tap, to its VLAN or segment too (contracts/interface-scripts.md#environment); it runs
with ``os.script_environment.nic``.

The ``ip`` command rather than a netlink library: processes are what a runtime can stand in for.
"""

from gantry import errors
from gantry.node.network import iproute, segment_bridges, vlans
from gantry.node.os import script_environment
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

    def __init__(self, runtime: interface.Runtime, etc: str, *, made: segment_bridges.Segments) -> None:
        self._runtime = runtime
        self._script = f"{etc}/{SCRIPT}"
        self._links = made.links
        self._segments = made

    async def validate(self, nic: calls.Nic) -> None:
        """Raise EnvironmentFaultError when the node cannot plug the NIC in."""
        raise NotImplementedError

    async def plug(self, instance: calls.Instance, nic: calls.Nic) -> str:
        """Make the tap anew, connect it and return its name; nothing stays when that fails."""
        await self.validate(nic)
        tap = tap_name(nic)
        await self.unplug(tap)
        queues = ("multi_queue",) if int(instance.hvparams.get("virtio_net_queues", 1)) > 1 else ()
        await self._links.ip("tuntap", "add", "dev", tap, "mode", "tap", *queues)
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
        before = await self._links.find(tap)
        if not self.has_script():
            if await self.stays(nic, tap):
                return
            await self._links.ip("link", "set", "dev", tap, "nomaster", "down")
        await self._connect(instance, nic, tap=tap)
        await self._left(before)

    async def _left(self, before: iproute.Link | None) -> None:
        """Take away what was made for a segment that a tap has just left, if it was the last one."""
        if before and self._segments.owns(before.master):
            await self._segments.tidy()

    async def stays(self, nic: calls.Nic, tap: str) -> bool:
        """Tell whether a tap is where it shall be, so that its traffic need not be interrupted."""
        del nic, tap
        return False

    def interface_name(self, nic: calls.Nic) -> str:
        """Return the name of a NIC's tap."""
        return tap_name(nic)

    async def _connect(self, instance: calls.Instance, nic: calls.Nic, *, tap: str) -> None:
        if self.has_script():
            await self._run_script(instance, nic, tap=tap)
        else:
            await self.connect(nic, tap)

    async def connect(self, nic: calls.Nic, tap: str) -> None:
        """Bring the tap up."""
        raise NotImplementedError

    async def unplug(self, interface: str) -> None:
        """Remove a tap; one that is gone is no error."""
        if before := await self._links.find(interface):
            await self._links.ip("link", "delete", "dev", interface)
            await self._left(before)

    def has_script(self) -> bool:
        """Tell whether a script of the administrator connects the taps."""
        disk = self._runtime.disk
        return disk.exists(self._script) and bool(disk.status(self._script).mode & 0o111)

    async def _run_script(self, instance: calls.Instance, nic: calls.Nic, *, tap: str) -> None:
        environment = script_environment.nic(instance, nic, interface=tap, action="up")
        done = await self._runtime.processes.run([self._script, tap], environment=environment)
        self._links.check(done, [self._script, tap])


class Bridged(Taps):
    """NIC mode ``bridged``: the link is a bridge, for a VLAN or tunnel else the device that a bridge is made upon."""

    async def validate(self, nic: calls.Nic) -> None:
        """Raise EnvironmentFaultError when the bridge is missing, or cannot do what the NIC needs."""
        special = bool(nic.vlan or segment_bridges.segment_of(nic))
        if special and self.has_script():
            return
        if special and await self._segments.wants_own(nic):
            await self._segments.check(nic)
            return
        bridge = await self._links.find(nic.link)
        if bridge is None or bridge.kind != "bridge":
            raise errors.EnvironmentFaultError(
                f"NIC {nic.index}: node {self._runtime.host} has no bridge {nic.link}",
                hint=f"make it there (ip link add {nic.link} type bridge), or give the NIC another link",
            )
        if nic.vlan:
            await vlans.check(self._links, nic, bridge)

    async def stays(self, nic: calls.Nic, tap: str) -> bool:
        """Tell whether the tap is a port of the bridge, and in the VLANs that it shall be in."""
        own = await self._segments.wants_own(nic)
        name = segment_bridges.bridge_name(nic) if own else nic.link
        port, bridge = await self._links.find(tap), await self._links.find(name)
        if port is None or bridge is None or port.master != name:
            return False
        if own:
            return await self._segments.leads_out(nic)
        return await vlans.stays(self._links, tap, nic.vlan, bridge=bridge)

    async def connect(self, nic: calls.Nic, tap: str) -> None:
        """Make the tap a port of the bridge; it comes up when it is in its VLANs, and never was in others."""
        if await self._segments.wants_own(nic):
            async with self._segments.bridge(nic) as bridge:
                await self._join(nic, tap, bridge)
        else:
            await self._join(nic, tap, nic.link)
            if nic.vlan:
                await vlans.put(self._links, tap, nic.vlan)
        await self._links.ip("link", "set", "dev", tap, "up")

    async def _join(self, nic: calls.Nic, tap: str, bridge: str) -> None:
        await self._links.ip("link", "set", "dev", tap, "address", tap_address(nic.mac), "master", bridge)


class Routed(Taps):
    """NIC mode ``routed``: a host route to each address, in the routing table ``link`` when that is given."""

    async def validate(self, nic: calls.Nic) -> None:
        """Raise EnvironmentFaultError for a NIC in a VLAN or tunnel, which a bridge leads to."""
        if nic.vlan or segment_bridges.segment_of(nic):
            raise errors.EnvironmentFaultError(
                f"NIC {nic.index}: node {self._runtime.host} cannot route it into a VLAN or segment",
                hint="NICs of mode bridged can be in one",
            )

    async def connect(self, nic: calls.Nic, tap: str) -> None:
        """Bring the tap up, answer for the addresses behind it, and route them there."""
        await self._links.ip("link", "set", "dev", tap, "address", tap_address(nic.mac), "up")
        table = ("table", nic.link) if nic.link else ()
        families = {":" in address.ip for address in nic.addresses}
        if False in families:
            await self._links.run(
                "sysctl", "-qw", f"net.ipv4.conf.{tap}.proxy_arp=1", f"net.ipv4.conf.{tap}.forwarding=1"
            )
        if True in families:
            await self._links.run(
                "sysctl", "-qw", f"net.ipv6.conf.{tap}.proxy_ndp=1", f"net.ipv6.conf.{tap}.forwarding=1"
            )
        for address in nic.addresses:
            family = ("-6",) if ":" in address.ip else ()
            await self._links.ip(*family, "route", "replace", address.ip, "dev", tap, *table)

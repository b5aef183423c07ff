"""NICs of virtual machines: taps, bridged or routed, created with the ``ip`` command.

A bridged NIC can be in a VLAN of its bridge (``vlans``), or on a bridge for its segment (``segment_bridges``).

All devices are in the network namespace of the node daemon. A tap is named after its NIC's UUID, so that a restarted
daemon finds it. If there is an executable ``kvm-vif-bridge`` in the node's configuration folder, it runs with the
environment ``os.script_environment.nic`` and replaces all steps that connect a tap, including those for a VLAN or
segment (contracts/interface-scripts.md#environment).

The module uses the ``ip`` command rather than a netlink library because a runtime can simulate processes.
"""

from gantry import errors
from gantry.node.network import iproute, segment_bridges, vlans
from gantry.node.os import script_environment
from gantry.rpc import calls
from gantry.runtime import interface

SCRIPT = "kvm-vif-bridge"
UUID_DIGITS = 12
"""Of the NIC's UUID in a tap's name: interface names have at most 15 characters."""


def tap_name(nic: calls.Nic) -> str:
    """Return the name of a NIC's tap."""
    return f"gnt{nic.uuid.replace('-', '')[-UUID_DIGITS:]}"


def tap_address(mac: str) -> str:
    """Return the tap's own MAC address: higher than the guest's, so that a bridge never uses it as its own."""
    return f"fe:{mac.split(':', 1)[1]}"


class Taps:
    """Creates, connects and removes taps; the base class of both modes."""

    def __init__(self, runtime: interface.Runtime, etc: str, *, segments: segment_bridges.Segments) -> None:
        self._runtime = runtime
        self._script = f"{etc}/{SCRIPT}"
        self._links = segments.links
        self._segments = segments

    async def validate(self, nic: calls.Nic) -> None:
        """Raise EnvironmentFaultError if the node cannot plug the NIC."""
        raise NotImplementedError

    async def plug(self, instance: calls.Instance, nic: calls.Nic) -> str:
        """Recreate the tap, connect it and return its name; after a failure no tap remains."""
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
        """Reconnect a tap; setting it down first removes it from its bridge and deletes its old routes."""
        await self.validate(nic)
        tap = interface or tap_name(nic)
        before = await self._links.find(tap)
        if not self.has_script():
            if await self.is_connected(nic, tap):
                return
            await self._links.ip("link", "set", "dev", tap, "nomaster", "down")
        await self._connect(instance, nic, tap=tap)
        await self._delete_bridge(before)

    async def _delete_bridge(self, before: iproute.Link | None) -> None:
        """Delete the segment bridge from which a tap has been removed, if it is now empty."""
        if before and self._segments.owns(before.master):
            await self._segments.delete_empty()

    async def is_connected(self, nic: calls.Nic, tap: str) -> bool:
        """Return whether a tap is already connected as its NIC requires, so that its traffic can continue."""
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
        """Connect the tap and bring it up."""
        raise NotImplementedError

    async def unplug(self, interface: str) -> None:
        """Remove a tap, if it exists."""
        if before := await self._links.find(interface):
            await self._links.ip("link", "delete", "dev", interface)
            await self._delete_bridge(before)

    def has_script(self) -> bool:
        """Return whether a script of the administrator connects the taps."""
        disk = self._runtime.disk
        return disk.exists(self._script) and bool(disk.status(self._script).mode & 0o111)

    async def _run_script(self, instance: calls.Instance, nic: calls.Nic, *, tap: str) -> None:
        environment = script_environment.nic(instance, nic, interface=tap, action="up")
        process = await self._runtime.processes.run([self._script, tap], environment=environment)
        self._links.check(process, [self._script, tap])


class Bridged(Taps):
    """NIC mode ``bridged``: the link is a bridge, or the device on which a bridge for a VLAN or tunnel is created."""

    async def validate(self, nic: calls.Nic) -> None:
        """Raise EnvironmentFaultError if the bridge is missing or does not support the NIC's VLANs or segment."""
        in_segment = bool(nic.vlan or segment_bridges.segment_of(nic))
        if in_segment and self.has_script():
            return
        if in_segment and await self._segments.needs_bridge(nic):
            await self._segments.check(nic)
            return
        bridge = await self._links.find(nic.link)
        if bridge is None or bridge.kind != "bridge":
            raise errors.EnvironmentFaultError(
                f"NIC {nic.index}: node {self._runtime.host} has no bridge {nic.link}",
                hint=f"create it there (ip link add {nic.link} type bridge), or choose another link for the NIC",
            )
        if nic.vlan:
            await vlans.check(self._links, nic, bridge)

    async def is_connected(self, nic: calls.Nic, tap: str) -> bool:
        """Return whether the tap is attached to the right bridge, and in the right VLANs."""
        own = await self._segments.needs_bridge(nic)
        name = segment_bridges.bridge_name(nic) if own else nic.link
        port, bridge = await self._links.find(tap), await self._links.find(name)
        if port is None or bridge is None or port.master != name:
            return False
        if own:
            return await self._segments.has_uplink(nic)
        return await vlans.matches(self._links, tap, nic.vlan, bridge=bridge)

    async def connect(self, nic: calls.Nic, tap: str) -> None:
        """Attach the tap to the bridge; bring it up only in its VLANs, so that no frame passes in others."""
        if await self._segments.needs_bridge(nic):
            async with self._segments.bridge(nic) as bridge:
                await self._attach(nic, tap, bridge)
        else:
            await self._attach(nic, tap, nic.link)
            if nic.vlan:
                await vlans.assign(self._links, tap, nic.vlan)
        await self._links.ip("link", "set", "dev", tap, "up")

    async def _attach(self, nic: calls.Nic, tap: str, bridge: str) -> None:
        await self._links.ip("link", "set", "dev", tap, "address", tap_address(nic.mac), "master", bridge)


class Routed(Taps):
    """NIC mode ``routed``: a host route to each address, in the routing table ``link`` unless it is empty."""

    async def validate(self, nic: calls.Nic) -> None:
        """Raise EnvironmentFaultError for a NIC in a VLAN or tunnel, which needs a bridge."""
        if nic.vlan or segment_bridges.segment_of(nic):
            raise errors.EnvironmentFaultError(
                f"NIC {nic.index}: node {self._runtime.host} cannot route a NIC into a VLAN or segment",
                hint="use a NIC of mode bridged",
            )

    async def connect(self, nic: calls.Nic, tap: str) -> None:
        """Bring the tap up, proxy ARP and NDP for the guest's addresses, and route them to the tap."""
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

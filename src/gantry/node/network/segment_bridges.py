"""Bridges that a node creates for a segment: for VXLAN, and for a VLAN whose link is not a bridge. ``taps`` calls it.

    gbx<id>-<digest>    the bridge of a VXLAN segment, with the taps of its NICs
    gpx<id>-<digest>    its uplink: a VXLAN device on the link, with a multicast group for frames to unknown targets
    gbv<id>-<digest>    the bridge of a VLAN, with the taps of its NICs
    gpv<id>-<digest>    its uplink: an 802.1Q device on the link

Bridge and uplink are created for the segment's first NIC and deleted after its last; the digest is of the link's name.
The kernel is queried each time, so a restarted daemon uses the existing devices. A lock is held from looking for a
bridge until a tap is attached to it, and while empty bridges are deleted, so that NICs that are plugged and unplugged
concurrently do not race. The node itself has no address in a segment, not even an automatic IPv6 address.
"""

import asyncio
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator

from gantry import errors
from gantry.node.network import iproute, vlans
from gantry.rpc import calls
from gantry.runtime import interface

OWN_NAMES = re.compile(r"g[bp][vx][0-9]+-[0-9a-f]+")
NAME_LENGTH = 15
PORT = 4789
GROUPS = 16
"""How many multicast groups VXLAN segments share: by default the kernel joins at most 20 (igmp_max_memberships)."""

OVERHEAD = {"inet": 50, "inet6": 70}
"""Bytes that VXLAN adds to a guest's packet, by the family of the link's address."""


def segment_of(nic: calls.Nic) -> calls.Segment | None:
    """Return the tunnelled segment of a NIC; None for a VLAN, which is in the NIC's ``vlan``."""
    segment = nic.network.segment if nic.network else None
    return None if segment is None or segment.network_type == "vlan" else segment


def _number(nic: calls.Nic) -> int | None:
    """Return the segmentation id of a NIC for which a bridge can be created; None for any other NIC."""
    tunnel = segment_of(nic)
    return tunnel.segmentation_id if tunnel else vlans.access(nic.vlan) if nic.vlan else None


def bridge_name(nic: calls.Nic) -> str:
    """Return the name of the bridge for a NIC's segment."""
    digest = hashlib.sha256(nic.link.encode()).hexdigest()
    return f"gb{'x' if segment_of(nic) else 'v'}{_number(nic)}-{digest}"[:NAME_LENGTH]


def _uplink_name(bridge: str) -> str:
    return f"gp{bridge[2:]}"


def group(number: int, family: str) -> str:
    """Return the multicast group of a VXLAN segment, one with organization-local scope (RFC 2365)."""
    last = number % GROUPS
    return f"239.195.86.{last}" if family == "inet" else f"ff08::5658:{last:x}"


class Segments:
    """The segment bridges of a node."""

    def __init__(self, runtime: interface.Runtime) -> None:
        self.links = iproute.Links(runtime)
        self._lock = asyncio.Lock()

    async def needs_bridge(self, nic: calls.Nic) -> bool:
        """Return whether a NIC needs a bridge that this class creates."""
        if segment_of(nic):
            return True
        link = await self.links.find(nic.link) if nic.vlan else None
        return link is not None and link.kind != "bridge"

    async def check(self, nic: calls.Nic) -> None:
        """Raise EnvironmentFaultError if the node cannot create the bridge for a NIC.

        To test the kernel, the method creates the uplink; it stays down and is deleted afterwards.
        """
        link = await self.links.find(nic.link)
        if link is None:
            raise self._fault(nic, f"has no device {nic.link}", hint="connect the network with another link")
        if (tunnel := segment_of(nic)) is not None:
            await self._check_tunnel(nic, tunnel, link)
        elif _number(nic) is None:
            raise self._fault(
                nic,
                f"has no bridge {nic.link} for VLANs {nic.vlan}",
                hint="tagged frames need a VLAN-aware bridge as link (vlan_filtering 1)",
            )
        uplink = _uplink_name(bridge_name(nic))
        async with self._lock:
            if not await self._has_uplink(nic, uplink):
                await self._try_uplink(nic, uplink)

    async def _try_uplink(self, nic: calls.Nic, uplink: str) -> None:
        try:
            await self._create_uplink(nic, uplink)
        except errors.EnvironmentFaultError as error:
            raise self._fault(
                nic,
                f"cannot create the device for its segment: {error.message}",
                hint="load the kernel module vxlan or 8021q, and check that no other device has that id on the link",
            ) from None
        await self.links.ip("link", "delete", "dev", uplink)

    async def _check_tunnel(self, nic: calls.Nic, tunnel: calls.Segment, link: iproute.Link) -> None:
        if tunnel.network_type != "vxlan":
            raise self._fault(
                nic, f"does not support {tunnel.network_type} segments", hint="use a segment of type vlan or vxlan"
            )
        needed = nic.mtu + OVERHEAD[await self._family(nic)]
        if link.mtu < needed:
            raise self._fault(
                nic,
                f"has MTU {link.mtu} on {nic.link}, a segment with MTU {nic.mtu} needs {needed}",
                hint=f"ip link set dev {nic.link} mtu {needed}, and on the switches that it is connected to",
            )

    async def _family(self, nic: calls.Nic) -> str:
        families = await self.links.families(nic.link)
        if not families:
            raise self._fault(
                nic,
                f"has no IP address on {nic.link}",
                hint="VXLAN needs an address there, of the same family on all nodes of the node group",
            )
        return min(families)

    def _fault(self, nic: calls.Nic, what: str, *, hint: str) -> errors.EnvironmentFaultError:
        return errors.EnvironmentFaultError(f"NIC {nic.index}: node {self.links.host} {what}", hint=hint)

    @contextlib.asynccontextmanager
    async def bridge(self, nic: calls.Nic) -> AsyncIterator[str]:
        """Create the bridge of a NIC's segment; it is deleted unless a tap is attached inside the context."""
        name = bridge_name(nic)
        async with self._lock:
            try:
                await self._create(nic, name)
                yield name
            finally:
                await self._delete_empty()

    async def _create(self, nic: calls.Nic, name: str) -> None:
        uplink = _uplink_name(name)
        if not await self._has_uplink(nic, uplink):
            await self._create_uplink(nic, uplink)
        if await self.links.find(name) is None:
            await self._add("name", name, "type", "bridge", name=name)
            await self.links.ip("link", "set", "dev", name, "up")
        await self.links.ip("link", "set", "dev", uplink, "master", name, "up")

    async def has_uplink(self, nic: calls.Nic) -> bool:
        """Return whether the bridge of a NIC's segment has its uplink; the kernel deletes it with the link."""
        return await self._has_uplink(nic, _uplink_name(bridge_name(nic)))

    async def _has_uplink(self, nic: calls.Nic, uplink: str) -> bool:
        """Return whether the uplink exists; EnvironmentFaultError if another device has its name."""
        device = await self.links.find(uplink)
        if device and (device.under, device.identifier) != (nic.link, _number(nic)):
            raise self._fault(
                nic,
                f"has a device {uplink} on {device.under} for id {device.identifier}",
                hint=f"delete it if no guest uses it, or rename the link {nic.link}",
            )
        return device is not None

    async def _create_uplink(self, nic: calls.Nic, uplink: str) -> None:
        number = _number(nic)
        assert number is not None, "validated"
        words = ["link", nic.link, "name", uplink, "type", "vlan", "id", str(number)]
        if segment_of(nic):
            where = ("dev", nic.link, "group", group(number, await self._family(nic)), "dstport", str(PORT))
            words = ["name", uplink, "type", "vxlan", "id", str(number), *where]
        await self._add(*words, name=uplink)

    async def _add(self, *words: str, name: str) -> None:
        """Add a device without automatic addresses, an option that must be set while the device is down."""
        await self.links.ip("link", "add", *words)
        await self.links.ip("link", "set", "dev", name, "addrgenmode", "none")

    def owns(self, bridge: str) -> bool:
        """Return whether a device was created by this class, according to its name."""
        return OWN_NAMES.fullmatch(bridge) is not None

    async def delete_empty(self) -> None:
        """Delete bridges without taps, with their uplinks."""
        async with self._lock:
            await self._delete_empty()

    async def _delete_empty(self) -> None:
        devices = await self.links.all()
        used = {link.master for link in devices if not self.owns(link.name)}
        for link in devices:
            if self.owns(link.name) and f"gb{link.name[2:]}" not in used:
                await self.links.ip("link", "delete", "dev", link.name)

"""Bridges that a node makes for a segment: for VXLAN, and for a VLAN whose link is no bridge. ``taps`` calls.

    gbx<id>-<digest>    the bridge of a VXLAN segment, with the taps of its NICs, and as its way out
    gpx<id>-<digest>    a VXLAN device upon the link, whose frames without a known target go to a multicast group
    gbv<id>-<digest>    the bridge of a VLAN, and as its way out
    gpv<id>-<digest>    an 802.1Q device upon the link

Both are made for the first NIC and taken away after the last one; the digest is of the link's name. What is there is
asked of the kernel each time, so a restarted daemon goes on with it. One lock is held from looking at a bridge to the
moment that a tap is on it, and while empty ones are taken away: two NICs that come and go at once do not race. The
node itself has no address in a segment, not even one of IPv6's own making.
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

OURS = re.compile(r"g[bp][vx][0-9]+-[0-9a-f]+")
NAME_LENGTH = 15
PORT = 4789
GROUPS = 16
"""How many multicast groups VXLAN segments share: the kernel joins 20 for all of them (igmp_max_memberships)."""

OVERHEAD = {"inet": 50, "inet6": 70}
"""Bytes that VXLAN puts around a guest's packet, by the family of the link's address."""


def segment_of(nic: calls.Nic) -> calls.Segment | None:
    """Return the tunnelled segment of a NIC; a VLAN is told by its ``vlan``."""
    found = nic.network.segment if nic.network else None
    return None if found is None or found.network_type == "vlan" else found


def _number(nic: calls.Nic) -> int | None:
    """Return the id of the segment that a bridge would be made for; None where a NIC wants another thing."""
    tunnel = segment_of(nic)
    return tunnel.segmentation_id if tunnel else vlans.access(nic.vlan) if nic.vlan else None


def bridge_name(nic: calls.Nic) -> str:
    """Return the name of the bridge that is made for a NIC's segment."""
    digest = hashlib.sha256(nic.link.encode()).hexdigest()
    return f"gb{'x' if segment_of(nic) else 'v'}{_number(nic)}-{digest}"[:NAME_LENGTH]


def _port_name(bridge: str) -> str:
    return f"gp{bridge[2:]}"


def group(number: int, family: str) -> str:
    """Return the multicast group of a VXLAN segment, of those that are for use inside an organisation (RFC 2365)."""
    last = number % GROUPS
    return f"239.195.86.{last}" if family == "inet" else f"ff08::5658:{last:x}"


class Segments:
    """The bridges that one node made."""

    def __init__(self, runtime: interface.Runtime) -> None:
        self.links = iproute.Links(runtime)
        self._lock = asyncio.Lock()

    async def wants_own(self, nic: calls.Nic) -> bool:
        """Tell whether a NIC gets a bridge that is made for it."""
        if segment_of(nic):
            return True
        link = await self.links.find(nic.link) if nic.vlan else None
        return link is not None and link.kind != "bridge"

    async def check(self, nic: calls.Nic) -> None:
        """Raise EnvironmentFaultError when the node cannot make what a NIC needs.

        Whether the kernel can make the device is tried; the trial carries no frames and is gone afterwards.
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
                hint="tagged frames need a bridge as link that tells VLANs apart (vlan_filtering 1)",
            )
        port = _port_name(bridge_name(nic))
        async with self._lock:
            if not await self._has_port(nic, port):
                await self._try_port(nic, port)

    async def _try_port(self, nic: calls.Nic, port: str) -> None:
        try:
            await self._make_port(nic, port)
        except errors.EnvironmentFaultError as error:
            raise self._fault(
                nic,
                f"cannot make the device of its segment: {error.message}",
                hint="its kernel needs the module vxlan or 8021q, and nobody else may have that id on the link",
            ) from None
        await self.links.ip("link", "delete", "dev", port)

    async def _check_tunnel(self, nic: calls.Nic, tunnel: calls.Segment, link: iproute.Link) -> None:
        if tunnel.network_type != "vxlan":
            raise self._fault(
                nic, f"makes no {tunnel.network_type} segments", hint="it makes those of type vlan and vxlan"
            )
        needed = nic.mtu + OVERHEAD[await self._family(nic)]
        if link.mtu < needed:
            raise self._fault(
                nic,
                f"carries {link.mtu} bytes over {nic.link}, a segment of {nic.mtu} needs {needed}",
                hint=f"ip link set dev {nic.link} mtu {needed}, and on what it is connected to",
            )

    async def _family(self, nic: calls.Nic) -> str:
        families = await self.links.families(nic.link)
        if not families:
            raise self._fault(
                nic,
                f"has no address on {nic.link}",
                hint="VXLAN needs one there, of the same family on all nodes of the node group",
            )
        return min(families)

    def _fault(self, nic: calls.Nic, what: str, *, hint: str) -> errors.EnvironmentFaultError:
        return errors.EnvironmentFaultError(f"NIC {nic.index}: node {self.links.host} {what}", hint=hint)

    @contextlib.asynccontextmanager
    async def bridge(self, nic: calls.Nic) -> AsyncIterator[str]:
        """Have the bridge of a NIC's segment, which stays if a tap is put on it inside the context."""
        name = bridge_name(nic)
        async with self._lock:
            try:
                await self._make(nic, name)
                yield name
            finally:
                await self._sweep()

    async def _make(self, nic: calls.Nic, name: str) -> None:
        port = _port_name(name)
        if not await self._has_port(nic, port):
            await self._make_port(nic, port)
        if await self.links.find(name) is None:
            await self._add("name", name, "type", "bridge", name=name)
            await self.links.ip("link", "set", "dev", name, "up")
        await self.links.ip("link", "set", "dev", port, "master", name, "up")

    async def leads_out(self, nic: calls.Nic) -> bool:
        """Tell whether the bridge of a NIC's segment has its way out, which goes when the link is taken away."""
        return await self._has_port(nic, _port_name(bridge_name(nic)))

    async def _has_port(self, nic: calls.Nic, port: str) -> bool:
        """Tell whether the way out is there; EnvironmentFaultError when it is another's of the same name."""
        found = await self.links.find(port)
        if found and (found.under, found.identifier) != (nic.link, _number(nic)):
            raise self._fault(
                nic,
                f"has a device {port} upon {found.under} for {found.identifier}",
                hint=f"take it away when no guest uses it, or rename the link {nic.link}",
            )
        return found is not None

    async def _make_port(self, nic: calls.Nic, port: str) -> None:
        number = _number(nic)
        assert number is not None, "validated"
        words = ["link", nic.link, "name", port, "type", "vlan", "id", str(number)]
        if segment_of(nic):
            where = ("dev", nic.link, "group", group(number, await self._family(nic)), "dstport", str(PORT))
            words = ["name", port, "type", "vxlan", "id", str(number), *where]
        await self._add(*words, name=port)

    async def _add(self, *words: str, name: str) -> None:
        """Make a device that gets no address by itself; the kernel hears that only while it is down."""
        await self.links.ip("link", "add", *words)
        await self.links.ip("link", "set", "dev", name, "addrgenmode", "none")

    def owns(self, bridge: str) -> bool:
        """Tell whether a bridge was made here, by its name."""
        return OURS.fullmatch(bridge) is not None

    async def tidy(self) -> None:
        """Take away bridges that no tap is on any more."""
        async with self._lock:
            await self._sweep()

    async def _sweep(self) -> None:
        found = await self.links.all()
        used = {link.master for link in found if not self.owns(link.name)}
        for link in found:
            if self.owns(link.name) and f"gb{link.name[2:]}" not in used:
                await self.links.ip("link", "delete", "dev", link.name)

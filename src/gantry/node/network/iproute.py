"""The network devices of a node as its ``ip`` and ``bridge`` commands show them, and commands that change them.

``taps``, ``segment_bridges`` and ``vlans`` use it. Everything happens in the network namespace that the node daemon
runs in. Nothing is kept here: what there is, is asked each time, so that a restarted daemon knows as much as the old
one.
"""

from collections.abc import Sequence

import msgspec

from gantry import errors
from gantry.runtime import commands, interface

Vlans = dict[int, bool]
"""VLANs of a port: id, and whether it is the one of frames without a tag."""


class _Info(msgspec.Struct, frozen=True):
    kind: str = msgspec.field(name="info_kind", default="")
    data: dict[str, object] = msgspec.field(name="info_data", default_factory=dict)


class Link(msgspec.Struct, frozen=True):
    """A device; ``master`` is the bridge that it is a port of, ``mtu`` in bytes."""

    name: str = msgspec.field(name="ifname", default="")
    master: str = ""
    mtu: int = 0
    base: str | None = msgspec.field(name="link", default=None)
    info: _Info = msgspec.field(name="linkinfo", default_factory=_Info)

    @property
    def kind(self) -> str:
        """Return what kind of device it is; empty for a real card."""
        return self.info.kind

    @property
    def under(self) -> str:
        """Return the device that a VLAN or VXLAN device is made upon."""
        return self.base or str(self.info.data.get("link") or "")

    @property
    def identifier(self) -> int:
        """Return the id of a VLAN or VXLAN device."""
        return int(str(self.info.data.get("id", 0)))

    @property
    def can_filter(self) -> bool:
        """Tell whether a bridge could tell VLANs apart; it cannot where the kernel was built without."""
        return "vlan_default_pvid" in self.info.data

    @property
    def filters(self) -> bool:
        """Tell whether a bridge tells VLANs apart."""
        return self.info.data.get("vlan_filtering") == 1

    @property
    def default_vlans(self) -> Vlans:
        """Return what a new port of a bridge that tells VLANs apart is in."""
        number = int(str(self.info.data.get("vlan_default_pvid", 0)))
        return {number: True} if number else {}


class _Vlan(msgspec.Struct, frozen=True):
    vlan: int
    flags: tuple[str, ...] = ()


class _Port(msgspec.Struct, frozen=True):
    name: str = msgspec.field(name="ifname", default="")
    vlans: tuple[_Vlan, ...] = ()


class _Address(msgspec.Struct, frozen=True):
    family: str = ""
    scope: str = ""


class _Addressed(msgspec.Struct, frozen=True):
    addresses: tuple[_Address, ...] = msgspec.field(name="addr_info", default=())


class Links:
    """The devices of one node."""

    def __init__(self, runtime: interface.Runtime) -> None:
        self.host = runtime.host
        self._processes = runtime.processes

    async def find(self, name: str) -> Link | None:
        """Return a device; None when there is none of that name."""
        done = await self._processes.run(["ip", "-details", "-json", "link", "show", "dev", name])
        return next(iter(msgspec.json.decode(done.stdout, type=list[Link])), None) if done.code == 0 else None

    async def all(self, *filters: str) -> list[Link]:
        """Return all devices, or those that ``ip link show`` finds by a filter."""
        said = await self.run("ip", "-details", "-json", "link", "show", *filters)
        return [link for link in msgspec.json.decode(said or b"[]", type=list[Link]) if link.name]

    async def vlans(self, *filters: str) -> dict[str, Vlans]:
        """Return the VLANs of all ports of bridges that tell them apart, or of one (``dev``, name)."""
        said = await self.run("bridge", "-json", "vlan", "show", *filters)
        ports = msgspec.json.decode(said or b"[]", type=list[_Port])
        return {port.name: {one.vlan: "PVID" in one.flags for one in port.vlans} for port in ports}

    async def families(self, name: str) -> set[str]:
        """Return the families of a device's own addresses, ``inet`` and ``inet6``; those of the link alone are none."""
        said = await self.run("ip", "-json", "address", "show", "dev", name)
        found = msgspec.json.decode(said or b"[]", type=list[_Addressed])
        return {address.family for one in found for address in one.addresses if address.scope == "global"}

    async def ip(self, *arguments: str) -> None:
        """Run the ``ip`` command; EnvironmentFaultError with what it said."""
        await self.run("ip", *arguments)

    async def run(self, *arguments: str) -> bytes:
        """Run a command and return what it said; EnvironmentFaultError with that when it fails."""
        done = await self._processes.run(arguments)
        self.check(done, arguments)
        return done.stdout

    def check(self, done: commands.Completed, arguments: Sequence[str]) -> None:
        """Raise EnvironmentFaultError when a command failed."""
        if done.code != 0:
            said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            raise errors.EnvironmentFaultError(f"node {self.host}: {' '.join(arguments)}: {'; '.join(said)}")

"""The network devices of a node, as its ``ip`` and ``bridge`` commands report them, and commands that change them.

``taps``, ``segment_bridges`` and ``vlans`` use it, in the network namespace of the node daemon. This module has no
state: it queries the kernel each time, so a restarted daemon has the same information as the previous process.
"""

from collections.abc import Sequence

import msgspec

from gantry import errors
from gantry.runtime import commands, interface

Vlans = dict[int, bool]
"""The VLANs of a port: each VLAN's id, and whether untagged frames belong to the VLAN."""


class _Info(msgspec.Struct, frozen=True):
    kind: str = msgspec.field(name="info_kind", default="")
    data: dict[str, object] = msgspec.field(name="info_data", default_factory=dict)


class Link(msgspec.Struct, frozen=True):
    """A network device; ``master`` is the bridge to which it is attached, ``mtu`` is in bytes."""

    name: str = msgspec.field(name="ifname", default="")
    master: str = ""
    mtu: int = 0
    base: str | None = msgspec.field(name="link", default=None)
    info: _Info = msgspec.field(name="linkinfo", default_factory=_Info)

    @property
    def kind(self) -> str:
        """Return the kind of the device, such as ``bridge``; empty for a physical interface."""
        return self.info.kind

    @property
    def under(self) -> str:
        """Return the lower device of a VLAN or VXLAN device."""
        return self.base or str(self.info.data.get("link") or "")

    @property
    def identifier(self) -> int:
        """Return the id of a VLAN or VXLAN device."""
        return int(str(self.info.data.get("id", 0)))

    @property
    def can_filter(self) -> bool:
        """Return whether a bridge can be VLAN-aware, which depends on the kernel's configuration."""
        return "vlan_default_pvid" in self.info.data

    @property
    def filters(self) -> bool:
        """Return whether a bridge is VLAN-aware."""
        return self.info.data.get("vlan_filtering") == 1

    @property
    def default_vlans(self) -> Vlans:
        """Return the VLANs of a new port of a VLAN-aware bridge."""
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


class _DeviceAddresses(msgspec.Struct, frozen=True):
    addresses: tuple[_Address, ...] = msgspec.field(name="addr_info", default=())


class Links:
    """The network devices of a node."""

    def __init__(self, runtime: interface.Runtime) -> None:
        self._runtime = runtime
        self._processes = runtime.processes

    @property
    def host(self) -> str:
        """Return the node's name."""
        return self._runtime.host

    async def find(self, name: str) -> Link | None:
        """Return a device; None if there is no device of that name."""
        process = await self._processes.run(["ip", "-details", "-json", "link", "show", "dev", name])
        return next(iter(msgspec.json.decode(process.stdout, type=list[Link])), None) if process.code == 0 else None

    async def all(self, *filters: str) -> list[Link]:
        """Return all devices, or those that match the filters of ``ip link show``."""
        output = await self.run("ip", "-details", "-json", "link", "show", *filters)
        return [link for link in msgspec.json.decode(output or b"[]", type=list[Link]) if link.name]

    async def vlans(self, *filters: str) -> dict[str, Vlans]:
        """Return the VLANs of all ports of VLAN-aware bridges by name, or those of a single port (``dev``, name)."""
        output = await self.run("bridge", "-json", "vlan", "show", *filters)
        ports = msgspec.json.decode(output or b"[]", type=list[_Port])
        return {port.name: {entry.vlan: "PVID" in entry.flags for entry in port.vlans} for port in ports}

    async def families(self, name: str) -> set[str]:
        """Return the families of a device's global addresses, ``inet`` and ``inet6``; link-local ones do not count."""
        output = await self.run("ip", "-json", "address", "show", "dev", name)
        devices = msgspec.json.decode(output or b"[]", type=list[_DeviceAddresses])
        return {address.family for device in devices for address in device.addresses if address.scope == "global"}

    async def ip(self, *arguments: str) -> None:
        """Run the ``ip`` command; EnvironmentFaultError with its message if it fails."""
        await self.run("ip", *arguments)

    async def run(self, *arguments: str) -> bytes:
        """Run a command and return its output; EnvironmentFaultError with its message if it fails."""
        process = await self._processes.run(arguments)
        self.check(process, arguments)
        return process.stdout

    def check(self, process: commands.Completed, arguments: Sequence[str]) -> None:
        """Raise EnvironmentFaultError if a command failed."""
        if process.code != 0:
            lines = (process.stderr or process.stdout).decode(errors="replace").strip().splitlines()
            raise errors.EnvironmentFaultError(f"node {self.host}: {' '.join(arguments)}: {'; '.join(lines)}")

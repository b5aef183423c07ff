"""NICs in VLANs of a VLAN-aware bridge (``vlan_filtering 1``). ``taps`` calls it.

The administrator configures the bridge and its other ports. This module only changes the VLANs of NICs' taps, and the
kernel forgets these VLANs when it deletes the tap. A NIC's ``vlan`` is ``5`` for untagged frames in VLAN 5, ``:6:7``
for only tagged frames of VLANs 6 and 7, ``5:6:7`` for both (contracts/opcodes.md#nic-parameters).
"""

from gantry import errors
from gantry.node.network import iproute
from gantry.rpc import calls

GUEST_PREFIX = "vif"
"""The prefix of Xen's devices for guests. Other guests' devices are taps, which have a kind of their own."""


def parse(vlan: str) -> iproute.Vlans:
    """Return the VLANs in a NIC's ``vlan``; InvalidError."""
    native, *tagged = vlan.removeprefix(".").split(":")
    if not all(number.isdecimal() or not number for number in (native, *tagged)):
        raise errors.InvalidError(f"VLAN {vlan} is not valid", hint="write vlan=5, or vlan=:6:7 for tagged frames")
    return {int(number): False for number in tagged if number} | ({int(native): True} if native else {})


def access(vlan: str) -> int | None:
    """Return the only VLAN of a NIC with untagged frames; None for a NIC with several VLANs or tagged frames."""
    ids = parse(vlan)
    return next(iter(ids)) if list(ids.values()) == [True] else None


async def check(links: iproute.Links, nic: calls.Nic, bridge: iproute.Link) -> None:
    """Raise EnvironmentFaultError if a bridge does not support the NIC's VLANs, or no uplink carries them."""
    if not bridge.can_filter:
        raise errors.EnvironmentFaultError(
            f"NIC {nic.index}: the kernel of node {links.host} does not support VLAN-aware bridges",
            hint="it was built without CONFIG_BRIDGE_VLAN_FILTERING; use the bridge's physical interface as link",
        )
    if not bridge.filters:
        raise errors.EnvironmentFaultError(
            f"NIC {nic.index}: bridge {bridge.name} of node {links.host} is not VLAN-aware",
            hint=f"ip link set dev {bridge.name} type bridge vlan_filtering 1; the bridge then drops tagged frames of "
            "VLANs that its ports are not in",
        )
    ports = await links.all("master", bridge.name)
    uplinks = [port.name for port in ports if port.kind != "tun" and not port.name.startswith(GUEST_PREFIX)]
    carried = await links.vlans() if uplinks else {}
    for number in parse(nic.vlan):
        if uplinks and not any(number in carried.get(name, {}) for name in uplinks):
            raise errors.EnvironmentFaultError(
                f"NIC {nic.index}: no uplink of bridge {bridge.name} of node {links.host} carries VLAN {number}",
                hint=f"bridge vlan add dev {uplinks[0]} vid {number} (2-4094 for all VLANs)",
            )


async def assign(links: iproute.Links, tap: str, vlan: str) -> None:
    """Set the VLANs of a tap to a NIC's VLANs; the tap must be attached to its bridge and down."""
    ids = parse(vlan)
    for number in (await links.vlans("dev", tap)).get(tap, {}):
        if number not in ids:
            await links.run("bridge", "vlan", "del", "dev", tap, "vid", str(number))
    for number, untagged in ids.items():
        flags = ("pvid", "untagged") if untagged else ()
        await links.run("bridge", "vlan", "add", "dev", tap, "vid", str(number), *flags)


async def matches(links: iproute.Links, tap: str, vlan: str, *, bridge: iproute.Link) -> bool:
    """Return whether a tap is in exactly the VLANs of ``vlan``, or in a new port's default VLANs if it is empty."""
    if not bridge.filters:
        return not vlan
    return (await links.vlans("dev", tap)).get(tap, {}) == (parse(vlan) if vlan else bridge.default_vlans)

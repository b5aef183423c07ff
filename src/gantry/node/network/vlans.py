"""NICs in VLANs of a bridge that tells them apart (VLAN-aware: ``vlan_filtering 1``). ``taps`` calls.

The bridge is the administrator's, and so are its other ports: only a NIC's own tap is put into VLANs here, and what was
made for it goes with the tap. A NIC's ``vlan`` is ``5`` for frames without a tag that belong to VLAN 5, ``:6:7`` for
tagged ones of VLANs 6 and 7 alone, ``5:6:7`` for both (contracts/opcodes.md#nic-parameters).
"""

from gantry import errors
from gantry.node.network import iproute
from gantry.rpc import calls

GUESTS = "vif"
"""How the names of the other devices begin that guests are on: those of Xen. A tap is known by its kind."""


def wanted(vlan: str) -> iproute.Vlans:
    """Return the VLANs that a NIC's ``vlan`` names; InvalidError."""
    native, *tagged = vlan.removeprefix(".").split(":")
    if not all(one.isdecimal() or not one for one in (native, *tagged)):
        raise errors.InvalidError(f"VLAN {vlan} is not valid", hint="vlan=5, or :6:7 for tagged frames")
    return {int(number): False for number in tagged if number} | ({int(native): True} if native else {})


def access(vlan: str) -> int | None:
    """Return the one VLAN of a NIC whose frames have no tags; None for one that has several, or tagged frames."""
    ids = wanted(vlan)
    return next(iter(ids)) if list(ids.values()) == [True] else None


async def check(known: iproute.Links, nic: calls.Nic, bridge: iproute.Link) -> None:
    """Raise EnvironmentFaultError when a bridge cannot put a NIC into its VLANs, or no other port carries them."""
    if not bridge.can_filter:
        raise errors.EnvironmentFaultError(
            f"NIC {nic.index}: the kernel of node {known.host} has no bridges that tell VLANs apart",
            hint="it was built without CONFIG_BRIDGE_VLAN_FILTERING; name the bridge's network card as link",
        )
    if not bridge.filters:
        raise errors.EnvironmentFaultError(
            f"NIC {nic.index}: bridge {bridge.name} of node {known.host} does not tell VLANs apart",
            hint=f"ip link set dev {bridge.name} type bridge vlan_filtering 1; only frames without a tag then pass as "
            "before",
        )
    ports = await known.all("master", bridge.name)
    uplinks = [port.name for port in ports if port.kind != "tun" and not port.name.startswith(GUESTS)]
    carried = await known.vlans() if uplinks else {}
    for number in wanted(nic.vlan):
        if uplinks and not any(number in carried.get(name, {}) for name in uplinks):
            raise errors.EnvironmentFaultError(
                f"NIC {nic.index}: no way out of bridge {bridge.name} of node {known.host} carries VLAN {number}",
                hint=f"bridge vlan add dev {uplinks[0]} vid {number}; 2-4094 stands for all",
            )


async def put(known: iproute.Links, tap: str, vlan: str) -> None:
    """Put a tap that is a port of its bridge, and down, into a NIC's VLANs and into no other."""
    ids = wanted(vlan)
    for number in (await known.vlans("dev", tap)).get(tap, {}):
        if number not in ids:
            await known.run("bridge", "vlan", "del", "dev", tap, "vid", str(number))
    for number, untagged in ids.items():
        flags = ("pvid", "untagged") if untagged else ()
        await known.run("bridge", "vlan", "add", "dev", tap, "vid", str(number), *flags)


async def stays(known: iproute.Links, tap: str, vlan: str, *, bridge: iproute.Link) -> bool:
    """Tell whether a tap is in the VLANs that it shall be in; without ``vlan`` those that every port is in."""
    if not bridge.filters:
        return not vlan
    return (await known.vlans("dev", tap)).get(tap, {}) == (wanted(vlan) if vlan else bridge.default_vlans)

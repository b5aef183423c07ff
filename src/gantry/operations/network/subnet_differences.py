"""Differences between two states of a network's subnets: serial numbers and times, and the lines of a plan; pure."""

from msgspec import structs

from gantry.model import network
from gantry.operations.network import guest_options, subnets


def dated(before: network.Network, after: network.Network, *, now: float) -> network.Network:
    """Return the network with creation and change times and serial numbers of its new and changed subnets."""
    old = {subnet.uuid: subnet for subnet in before.subnets}
    return structs.replace(after, subnets=tuple(_dated(old.get(subnet.uuid), subnet, now) for subnet in after.subnets))


def _dated(old: network.Subnet | None, new: network.Subnet, now: float) -> network.Subnet:
    if old is None:
        return structs.replace(new, ctime=now, mtime=now)
    return new if new == old else structs.replace(new, serial_no=old.serial_no + 1, mtime=now)


def describe(before: network.Network, after: network.Network) -> list[str]:
    """Return the differences between two states of a network's subnets, a line for each."""
    old = {subnet.uuid: subnet for subnet in before.subnets}
    new = {subnet.uuid: subnet for subnet in after.subnets}
    lines = [f"remove subnet {subnet.cidr}" for uuid, subnet in old.items() if uuid not in new]
    for uuid, subnet in new.items():
        lines += _differences(old[uuid], subnet) if uuid in old else _added(subnet)
    return lines


def _text(value: object) -> str:
    return (", ".join(map(str, value)) if isinstance(value, tuple) else str(value or "")) or subnets.NONE


def _added(subnet: network.Subnet) -> list[str]:
    gateway = f" with gateway {subnet.gateway}" if subnet.gateway else ""
    bare = dict.fromkeys(guest_options.LISTED_FIELDS, ())
    blank = structs.replace(subnet, dhcp=False, pools=(), external=(), description="", **bare)
    return [f"add subnet {subnets.titled(subnet)}{gateway}", *_differences(blank, subnet)]


def _differences(old: network.Subnet, new: network.Subnet) -> list[str]:
    lines = [
        f"subnet {old.cidr}: {name} {_text(getattr(old, name))} becomes {_text(getattr(new, name))}"
        for name in ("cidr", "name", "label", "gateway", "description", *guest_options.LISTED_FIELDS)
        if getattr(old, name) != getattr(new, name)
    ]
    if old.dhcp != new.dhcp:
        lines.append(f"subnet {old.cidr}: dhcp {'on' if new.dhcp else 'off'}")
    pools_before, pools_after = set(old.pools), set(new.pools)
    lines += [f"remove pool {pool.range} {pool.name}".rstrip() for pool in old.pools if pool not in pools_after]
    lines += [f"add pool {pool.range} {pool.name}".rstrip() for pool in new.pools if pool not in pools_before]
    before, after = set(old.external), set(new.external)
    lines += [f"release {run}" for run in old.external if run not in after]
    return lines + [f"reserve {run} externally" for run in new.external if run not in before]

"""Checks of the machine's name and addresses, the bridges of connected networks, and the ports of its daemons."""

import ipaddress
import re
from collections.abc import Sequence

import msgspec

from gantry.daemons.doctor.result import Level, Machine, Result
from gantry.operations.node import enroll
from gantry.runtime import limits

LOCAL_NAMES = enroll.LOCAL_NAMES | {"", "(none)"}
OURS = ("gantry-", "gantry.daemons.")
"""A command line of Gantry's daemons contains one of these."""

_OWNER = re.compile(r'"([^"]*)",pid=(\d+)')


class _Address(msgspec.Struct):
    local: str = ""
    scope: str = ""


class _Link(msgspec.Struct):
    addr_info: list[_Address] = []


async def _addresses(machine: Machine) -> list[str] | None:
    """Return the addresses of this machine that others may reach; None if they cannot be listed."""
    output = await machine.output("ip", "-json", "address", "show")
    if output is None:
        return None
    links = msgspec.json.decode(output or "[]", type=list[_Link])
    return [each.local for link in links for each in link.addr_info if each.scope == "global"]


async def host_name(machine: Machine) -> Sequence[Result]:
    """Report a name that no other node could use for this machine.

    The cluster knows a node by the address that it was added with, so a name without one is not an error.
    """
    host = machine.runtime.host
    if host in LOCAL_NAMES:
        return [
            Result(
                "host name",
                Level.ERROR,
                f"the host name is {host!r}, which is the same on every machine",
                "set a name of its own: hostnamectl set-hostname NAME",
            )
        ]
    remedy = f"write a line 'ADDRESS {host}' into /etc/hosts, with the address by which other nodes reach this machine"
    output = await machine.output("getent", "ahosts", host)
    if output is None:
        return [Result("host name", Level.WARNING, f"the host name {host} cannot be resolved", remedy)]
    resolved = sorted({limits.plain(line.split()[0]) for line in output.splitlines() if line.strip()})
    if all(ipaddress.ip_address(address).is_loopback for address in resolved):
        text = f"the host name {host} resolves to {', '.join(resolved)}, which other nodes cannot reach"
        return [Result("host name", Level.WARNING, text, f"{remedy}; remove the other line")]
    own = await _addresses(machine)
    if own is not None and not set(own) & set(resolved):
        text = f"the host name {host} resolves to {', '.join(resolved)}, which is not an address of this machine"
        return [
            Result("host name", Level.ERROR, text, "rename this machine if another one has its name, else " + remedy)
        ]
    return [Result("host name", Level.OK, f"{host} resolves to {', '.join(resolved)}")]


async def identity(machine: Machine) -> Sequence[Result]:
    """Report a machine that is not the node that its files say: renamed, copied, or removed from its cluster."""
    member = machine.member
    if member is None:
        return []
    if machine.ssconf("node_list") and member.node not in machine.ssconf("node_list"):
        text = f"cluster {member.cluster} has no node {member.node}, but this machine still has its files"
        remedy = f"move {machine.folders.lib} away, and add the machine again with gnt-node add"
        return [Result("identity", Level.ERROR, text, remedy)]
    own = await _addresses(machine)
    address = machine.pairs("node_primary_ips").get(member.node, member.address)
    if own is not None and address not in own:
        text = f"this machine has the files of node {member.node}, but not its address {address}"
        remedy = (
            f"bring the interface with {address} up; if this machine is a copy of node {member.node}, stop its daemons "
            f"and remove {machine.folders.lib}, because two nodes must not have one name"
        )
        return [Result("identity", Level.ERROR, text, remedy)]
    return [Result("identity", Level.OK, f"node {member.node} of cluster {member.cluster}, address {address}")]


async def address_family(machine: Machine) -> Sequence[Result]:
    """Report a node daemon that cannot be reached because the machine has IPv6 only."""
    own = await _addresses(machine)
    if own is None:
        return []
    families = {ipaddress.ip_address(address).version for address in own}
    bind = str(machine.setting("node.toml", "bind"))
    if not families:
        remedy = "configure an address by which other nodes reach this machine"
        return [Result("addresses", Level.ERROR, "this machine has no address except loopback", remedy)]
    if families == {6} and bind and ":" not in bind:
        text = f"this machine has IPv6 only, and the node daemon listens on {bind}, which is IPv4"
        return [Result("addresses", Level.ERROR, text, f"remove bind from {machine.folders.etc}/node.toml")]
    return [Result("addresses", Level.OK, ", ".join(own))]


async def bridges(machine: Machine) -> Sequence[Result]:
    """Report missing bridges and devices of the networks that are connected to this node's group."""
    member = machine.member
    group = machine.pairs("node_groups").get(member.node, "") if member else ""
    out: list[Result] = []
    for line in machine.ssconf("nodegroup_links"):
        owner, _, device = line.partition(" ")
        kind, _, link = device.partition(" ")
        if owner != group or not group:
            continue
        path = f"/sys/class/net/{link}"
        if not machine.disk.exists(path):
            remedy = f"create it, for example: ip link add {link} type bridge" if kind == "bridge" else f"create {link}"
            text = f"there is no {kind} {link}, to which a network of this node's group is connected"
            out.append(Result("bridges", Level.ERROR, text, f"{remedy}; keep it in /etc/network/interfaces"))
        elif kind == "bridge" and not machine.disk.exists(f"{path}/bridge"):
            text = f"the device {link}, to which a network is connected, is not a bridge"
            out.append(
                Result("bridges", Level.ERROR, text, "create a bridge of that name, with the device as its port")
            )
        else:
            out.append(Result("bridges", Level.OK, f"the {kind} {link} exists"))
    return out


async def ports(machine: Machine) -> Sequence[Result]:
    """Report ports of Gantry that another program listens on."""
    output = await machine.output("ss", "-Hltnp")
    if output is None:
        return [Result("ports", Level.WARNING, "the ports in use cannot be listed", "install ss: apt install iproute2")]
    out: list[Result] = []
    for file, daemon in (("node.toml", "gantry-noded"), ("api.toml", "gantry-rapi")):
        port = machine.setting(file, "port")
        if not isinstance(port, int):
            continue
        users = [line for line in output.splitlines() if _port(line) == port]
        foreign = [owner for line in users for owner in _owners(machine, line)]
        if foreign:
            text = f"port {port} of {daemon} is in use by {', '.join(sorted(set(foreign)))}"
            remedy = f"stop that program, or set another port in {machine.folders.etc}/{file}"
            out.append(Result("ports", Level.ERROR, text, remedy))
        else:
            state = f"used by {daemon}" if users else "free"
            out.append(Result("ports", Level.OK, f"port {port} is {state}"))
    return out


def _port(line: str) -> int | None:
    """Return the port of a line such as ``LISTEN 0 128 0.0.0.0:1811 0.0.0.0:* users:(("name",pid=1,fd=3))``."""
    fields = line.split()
    text = fields[3].rpartition(":")[2] if len(fields) > 3 else ""
    return int(text) if text.isdecimal() else None


def _owners(machine: Machine, line: str) -> list[str]:
    """Return the programs other than Gantry's that have a listening socket, each with its process id."""
    owners = _OWNER.findall(line)
    if not owners:
        return ["a program of another user or network namespace"]
    out: list[str] = []
    for name, pid in owners:
        command = " ".join(machine.runtime.processes.command_line(int(pid)))
        if not any(mark in f"{name} {command}" for mark in OURS):
            out.append(f"{name} (process {pid})")
    return out

"""What an instance's system has to know of itself, written in the forms that systems read. Pure.

    meta-data user-data network-config      a NoCloud seed for cloud-init, the network in its version 2
    networkd/10-ethN.network                for systemd-networkd, a file per NIC
    interfaces                              for ifupdown, whose NICs are called ethN

``os_definitions`` puts the files into a folder for each run of an OS script, which ``INSTANCE_SEED`` names. NICs are
told by their MAC addresses where that can be. A subnet for DHCP is left to DHCP. Each address family has one default
route, by the first gateway there is. The OS parameters ``nameservers`` (blanks or commas between) and ``user_data`` go
in.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from gantry.rpc import calls

Files = dict[str, str]


@dataclass(frozen=True)
class _Nic:
    """A NIC as its system sees it; ``gateways`` are the default routes that go by it."""

    name: str
    mac: str
    addresses: Sequence[str]
    gateways: Sequence[str]
    dhcp4: bool
    dhcp6: bool


def files(instance: calls.Instance) -> Files:
    """Return the files, by their path in the seed's folder."""
    nics, servers = _nics(instance), _words(instance.osparams.get("nameservers", ""))
    found = {
        "meta-data": _yaml({"instance-id": instance.uuid, "local-hostname": instance.name}),
        "user-data": str(instance.osparams.get("user_data") or "#cloud-config\n"),
        "network-config": _yaml({"version": 2, "ethernets": {nic.name: _netplan(nic, servers) for nic in nics}}),
        "interfaces": "\n".join([_stanza("lo", "inet", "loopback"), *(_ifupdown(nic, servers) for nic in nics)]),
    }
    return found | {f"networkd/10-{nic.name}.network": _networkd(nic, servers) for nic in nics}


def _nics(instance: calls.Instance) -> list[_Nic]:
    routed: set[int] = set()
    found = []
    for nic in instance.nics:
        fixed = [address for address in nic.addresses if not address.dhcp]
        gateways = []
        for address in fixed:
            version = ipaddress.ip_address(address.ip).version
            if address.gateway and version not in routed:
                routed.add(version)
                gateways.append(address.gateway)
        by_dhcp = {ipaddress.ip_address(address.ip).version for address in nic.addresses if address.dhcp}
        found.append(
            _Nic(
                name=f"eth{nic.index}",
                mac=nic.mac,
                addresses=[_with_prefix(address) for address in fixed],
                gateways=gateways,
                dhcp4=4 in by_dhcp,
                dhcp6=6 in by_dhcp,
            )
        )
    return found


def _with_prefix(address: calls.Address) -> str:
    prefix = address.subnet.partition("/")[2] or str(ipaddress.ip_address(address.ip).max_prefixlen)
    return f"{address.ip}/{prefix}"


def _words(text: calls.Value) -> list[str]:
    return [word for word in re.split(r"[\s,]+", str(text)) if word]


def _yaml(value: object) -> str:
    """Return YAML; JSON is, and nothing in it can be taken for something else."""
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"


def _netplan(nic: _Nic, servers: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {
        "match": {"macaddress": nic.mac},
        "set-name": nic.name,
        "dhcp4": nic.dhcp4,
        "dhcp6": nic.dhcp6,
        "addresses": list(nic.addresses),
    }
    if nic.gateways:
        found["routes"] = [
            {"to": "::/0" if ":" in gateway else "0.0.0.0/0", "via": gateway, "on-link": True}
            for gateway in nic.gateways
        ]
    return found | ({"nameservers": {"addresses": list(servers)}} if servers else {})


def _networkd(nic: _Nic, servers: Sequence[str]) -> str:
    dhcp = {(True, True): "yes", (True, False): "ipv4", (False, True): "ipv6", (False, False): "no"}
    lines = ["[Match]", f"MACAddress={nic.mac}", "", "[Network]", f"DHCP={dhcp[nic.dhcp4, nic.dhcp6]}"]
    if any(":" in address for address in nic.addresses):
        lines.append("IPv6AcceptRA=no")
    lines += [f"Address={address}" for address in nic.addresses]
    lines += [f"DNS={server}" for server in servers]
    for gateway in nic.gateways:
        lines += ["", "[Route]", f"Gateway={gateway}", "GatewayOnLink=yes"]
    return "\n".join(lines) + "\n"


def _stanza(name: str, family: str, method: str, *more: str) -> str:
    return "\n".join([f"auto {name}", f"iface {name} {family} {method}", *(f"    {line}" for line in more)]) + "\n"


def _ifupdown(nic: _Nic, servers: Sequence[str]) -> str:
    stanzas: list[str] = []
    gateways = {":" in gateway: gateway for gateway in nic.gateways}
    for address in nic.addresses:
        six = ":" in address
        more = [f"address {address}"]
        if gateway := gateways.pop(six, ""):
            more.append(f"gateway {gateway}")
        if servers and not stanzas:
            more.append(f"dns-nameservers {' '.join(servers)}")
        stanzas.append(_stanza(nic.name, "inet6" if six else "inet", "static", *more))
    stanzas += [_stanza(nic.name, "inet", "dhcp")] if nic.dhcp4 else []
    stanzas += [_stanza(nic.name, "inet6", "dhcp")] if nic.dhcp6 else []
    return "\n".join(stanzas or [_stanza(nic.name, "inet", "manual")])

"""The configuration of a guest (name, network, user data), in the formats that operating systems read. Pure.

    meta-data user-data network-config      a NoCloud seed for cloud-init, with network configuration version 2
    networkd/10-ethN.network                for systemd-networkd, a file per NIC
    interfaces                              for ifupdown, with the NICs named ethN

For each run of an OS script, ``os_definitions`` writes the files to a folder, whose path the script has in
``INSTANCE_SEED``. NICs are identified by their MAC addresses where the format supports that. A NIC's addresses in a
subnet with DHCP come by DHCP. Each address family has one default route, by the first gateway of any NIC. The OS
parameters ``nameservers`` (separated by blanks or commas) and ``user_data`` are included.
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
    """A NIC as the guest configures it; ``gateways`` are its default routes."""

    name: str
    mac: str
    addresses: Sequence[str]
    gateways: Sequence[str]
    dhcp4: bool
    dhcp6: bool


def files(instance: calls.Instance) -> Files:
    """Return the content of the files, by their path in the seed's folder."""
    nics, servers = _nics(instance), _words(instance.osparams.get("nameservers", ""))
    seed = {
        "meta-data": _yaml({"instance-id": instance.uuid, "local-hostname": instance.name}),
        "user-data": str(instance.osparams.get("user_data") or "#cloud-config\n"),
        "network-config": _yaml({"version": 2, "ethernets": {nic.name: _netplan(nic, servers) for nic in nics}}),
        "interfaces": "\n".join([_stanza("lo", "inet", "loopback"), *(_ifupdown(nic, servers) for nic in nics)]),
    }
    return seed | {f"networkd/10-{nic.name}.network": _networkd(nic, servers) for nic in nics}


def _nics(instance: calls.Instance) -> list[_Nic]:
    routed: set[int] = set()
    nics = []
    for nic in instance.nics:
        fixed = [address for address in nic.addresses if not address.dhcp]
        gateways = []
        for address in fixed:
            version = ipaddress.ip_address(address.ip).version
            if address.gateway and version not in routed:
                routed.add(version)
                gateways.append(address.gateway)
        by_dhcp = {ipaddress.ip_address(address.ip).version for address in nic.addresses if address.dhcp}
        nics.append(
            _Nic(
                name=f"eth{nic.index}",
                mac=nic.mac,
                addresses=[_with_prefix(address) for address in fixed],
                gateways=gateways,
                dhcp4=4 in by_dhcp,
                dhcp6=6 in by_dhcp,
            )
        )
    return nics


def _with_prefix(address: calls.Address) -> str:
    prefix = address.subnet.partition("/")[2] or str(ipaddress.ip_address(address.ip).max_prefixlen)
    return f"{address.ip}/{prefix}"


def _words(text: calls.Value) -> list[str]:
    return [word for word in re.split(r"[\s,]+", str(text)) if word]


def _yaml(value: object) -> str:
    """Return the value as JSON, which is also YAML, without YAML's ambiguities."""
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"


def _netplan(nic: _Nic, servers: Sequence[str]) -> dict[str, object]:
    settings: dict[str, object] = {
        "match": {"macaddress": nic.mac},
        "set-name": nic.name,
        "dhcp4": nic.dhcp4,
        "dhcp6": nic.dhcp6,
        "addresses": list(nic.addresses),
    }
    if nic.gateways:
        settings["routes"] = [
            {"to": "::/0" if ":" in gateway else "0.0.0.0/0", "via": gateway, "on-link": True}
            for gateway in nic.gateways
        ]
    return settings | ({"nameservers": {"addresses": list(servers)}} if servers else {})


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


def _stanza(name: str, family: str, method: str, *options: str) -> str:
    return "\n".join([f"auto {name}", f"iface {name} {family} {method}", *(f"    {line}" for line in options)]) + "\n"


def _ifupdown(nic: _Nic, servers: Sequence[str]) -> str:
    stanzas: list[str] = []
    gateways = {":" in gateway: gateway for gateway in nic.gateways}
    for address in nic.addresses:
        is_ipv6 = ":" in address
        options = [f"address {address}"]
        if gateway := gateways.pop(is_ipv6, ""):
            options.append(f"gateway {gateway}")
        if servers and not stanzas:
            options.append(f"dns-nameservers {' '.join(servers)}")
        stanzas.append(_stanza(nic.name, "inet6" if is_ipv6 else "inet", "static", *options))
    stanzas += [_stanza(nic.name, "inet", "dhcp")] if nic.dhcp4 else []
    stanzas += [_stanza(nic.name, "inet6", "dhcp")] if nic.dhcp6 else []
    return "\n".join(stanzas or [_stanza(nic.name, "inet", "manual")])

"""The network configuration of a guest, in the formats of cloud-init, networkd and ifupdown."""

import yaml
from msgspec import structs
from tests.node import samples

from gantry.node.os import guest_config
from gantry.rpc import calls

FIRST = samples.nic(
    addresses=(
        calls.Address(ip="192.0.2.7", subnet="192.0.2.0/24", gateway="192.0.2.1"),
        calls.Address(ip="192.0.2.8", subnet="192.0.2.0/24", gateway="192.0.2.1"),
        calls.Address(ip="2001:db8::7", subnet="2001:db8::/64", gateway="2001:db8::1"),
    )
)
SECOND = samples.nic(
    index=1,
    addresses=(
        calls.Address(ip="198.51.100.9", subnet="198.51.100.0/25", gateway="198.51.100.1"),
        calls.Address(ip="2001:db8:1::7", subnet="2001:db8:1::/64", dhcp=True),
        calls.Address(ip="203.0.113.5"),
    ),
)
THIRD = samples.nic(index=2, addresses=())


def files(*nics: calls.Nic, **parameters: calls.Value) -> guest_config.Files:
    return guest_config.files(structs.replace(samples.instance(nics=nics), osparams=parameters))


def test_cloud_init_gets_every_address_and_one_default_route_a_family() -> None:
    contents = files(FIRST, SECOND, nameservers="192.0.2.53, 2001:db8::53")
    config = yaml.safe_load(contents["network-config"])
    assert config["version"] == 2
    first, second = config["ethernets"]["eth0"], config["ethernets"]["eth1"]
    assert first["match"] == {"macaddress": FIRST.mac}
    assert first["addresses"] == ["192.0.2.7/24", "192.0.2.8/24", "2001:db8::7/64"]
    assert [(route["to"], route["via"]) for route in first["routes"]] == [
        ("0.0.0.0/0", "192.0.2.1"),
        ("::/0", "2001:db8::1"),
    ]
    assert first["nameservers"] == {"addresses": ["192.0.2.53", "2001:db8::53"]}
    assert (second["addresses"], second["dhcp4"], second["dhcp6"]) == (
        ["198.51.100.9/25", "203.0.113.5/32"],
        False,
        True,
    )
    assert "routes" not in second
    assert yaml.safe_load(contents["meta-data"]) == {"instance-id": samples.UUID, "local-hostname": "vm1"}
    assert contents["user-data"].startswith("#cloud-config")


def test_user_data_is_what_the_parameter_says() -> None:
    assert files(user_data="#!/bin/sh\nreboot\n")["user-data"] == "#!/bin/sh\nreboot\n"


def test_networkd_gets_a_file_per_nic() -> None:
    contents = files(FIRST, SECOND, THIRD, nameservers="192.0.2.53")
    assert {name for name in contents if name.startswith("networkd/")} == {
        f"networkd/10-eth{index}.network" for index in range(3)
    }
    lines = contents["networkd/10-eth0.network"].splitlines()
    assert lines[:2] == ["[Match]", f"MACAddress={FIRST.mac}"]
    assert {"DHCP=no", "Address=192.0.2.8/24", "Address=2001:db8::7/64", "DNS=192.0.2.53"} <= set(lines)
    assert [line for line in lines if line.startswith("Gateway=")] == ["Gateway=192.0.2.1", "Gateway=2001:db8::1"]
    assert "DHCP=ipv6" in contents["networkd/10-eth1.network"]


def test_ifupdown_gets_a_stanza_per_address() -> None:
    text = files(FIRST, SECOND, THIRD)["interfaces"]
    assert text.count("iface eth0 inet static") == 2
    assert text.count("gateway 192.0.2.1") == 1
    assert "iface eth0 inet6 static\n    address 2001:db8::7/64\n    gateway 2001:db8::1" in text
    assert "iface eth1 inet6 dhcp" in text
    assert "iface eth2 inet manual" in text

"""DHCP configurations against golden files and, where they are installed, the servers' own checks."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.cli import networks
from tests.cli.framework.test_help import compare

from gantry.cli.output import dhcp, network_view

FOUR = networks.subnet("192.0.2.0/24", gateway="192.0.2.1", name="lan", dhcp=True)
SIX = networks.subnet("2001:db8::/64", gateway="2001:db8::1", dhcp=True)
OTHER = networks.subnet("198.51.100.0/24")
NET = networks.network(
    FOUR,
    SIX,
    OTHER,
    nics=[
        networks.nic("web1.example", "192.0.2.10", "192.0.2.11", "2001:db8::10", "2001:db8::11", "198.51.100.1"),
        networks.nic("db1", "2001:db8::2", mac="aa:00:00:00:00:02", number=1),
        networks.nic("db1", "192.0.2.9", mac="aa:00:00:00:00:03"),
        networks.nic("elsewhere", "198.51.100.9", mac="aa:00:00:00:00:04"),
    ],
)
EMPTY = networks.network(FOUR._replace(gateway=None), SIX)


def kea(net: network_view.Network, subnet: network_view.Subnet, domain: str = "") -> str:
    return dhcp.kea(net, subnet, domain=domain)


CASES = {
    "dnsmasq.conf": dhcp.dnsmasq(NET, domain="example", interfaces=["lo"]),
    "dnsmasq-empty.conf": dhcp.dnsmasq(EMPTY),
    "kea4.json": kea(NET, FOUR, "example"),
    "kea4-empty.json": kea(EMPTY, EMPTY.subnets[0]),
    "kea6.json": dhcp.kea(NET, SIX, domain="example", interfaces=["lo"]),
    "kea6-empty.json": kea(EMPTY, SIX),
}
CHECKS = {"dnsmasq": ("dnsmasq", "--test", "-C"), "kea4": ("kea-dhcp4", "-t"), "kea6": ("kea-dhcp6", "-t")}


@pytest.mark.parametrize("name", CASES)
def test_a_configuration_is_as_it_was_written_down(name: str) -> None:
    compare(f"../dhcp/{name}", CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_the_server_takes_its_configuration(name: str, tmp_path: Path) -> None:
    program, *words = CHECKS[name.partition(".")[0].partition("-")[0]]
    server = shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if not server:
        pytest.skip(f"{program} is not installed")
    (tmp_path / name).write_text(CASES[name])
    done = subprocess.run([server, *words, tmp_path / name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_address_of_a_dhcp_subnet_is_reserved_and_no_other() -> None:
    text = dhcp.dnsmasq(NET)
    for address in ("192.0.2.10", "192.0.2.11", "[2001:db8::10]", "[2001:db8::11]", "[2001:db8::2]", "192.0.2.9"):
        assert address in text
    assert "198.51.100" not in text


def test_a_nic_has_one_line_for_both_families() -> None:
    lines = [line for line in dhcp.dnsmasq(NET).splitlines() if line.startswith("dhcp-host=aa:00:00:00:00:01")]
    assert lines == ["dhcp-host=aa:00:00:00:00:01,192.0.2.10,[2001:db8::10],[2001:db8::11],web1.example"]


def test_without_a_gateway_clients_receive_no_router() -> None:
    assert "dhcp-option=tag:net1-4,option:router\n" in dhcp.dnsmasq(EMPTY)
    assert "routers" not in kea(EMPTY, EMPTY.subnets[0])


def test_kea_reserves_by_mac_address() -> None:
    body = json.loads(kea(NET, SIX).partition("\n")[2])
    assert body["Dhcp6"]["subnet6"][0]["reservations"] == [
        {"hw-address": "aa:00:00:00:00:02", "hostname": "db1", "ip-addresses": ["2001:db8::2"]},
        {
            "hw-address": "aa:00:00:00:00:01",
            "hostname": "web1.example",
            "ip-addresses": ["2001:db8::10", "2001:db8::11"],
        },
    ]

"""NICs in a network namespace made for the test."""

import json
import subprocess

import pytest
from tests.node import samples

from gantry import errors
from gantry.node import drivers
from gantry.node.network import segment_bridges, taps
from gantry.rpc import calls
from gantry.runtime import paths

pytestmark = pytest.mark.real


def links(namespace: str) -> dict[str, dict[str, object]]:
    done = subprocess.run(["ip", "-n", namespace, "-json", "link"], capture_output=True, check=True)
    return {link["ifname"]: link for link in json.loads(done.stdout)}


def add_bridge(namespace: str, name: str) -> None:
    subprocess.run(["ip", "-n", namespace, "link", "add", name, "type", "bridge"], check=True)


def routes(namespace: str, family: str, *, table: str = "main") -> str:
    command = ["ip", "-n", namespace, family, "route", "show", "table", table]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def driver(kind: type[taps.Taps], namespace: str, folders: paths.Paths) -> taps.Taps:
    runtime = samples.runtime(namespace=namespace)
    return kind(runtime, folders.etc, segments=segment_bridges.Segments(runtime))


@pytest.fixture
def bridged(namespace: str, folders: paths.Paths) -> drivers.NicDriver:
    return driver(taps.Bridged, namespace, folders)


async def test_a_bridged_nic_is_a_port_of_its_bridge(bridged: drivers.NicDriver, namespace: str) -> None:
    plugged = samples.nic()
    tap = await bridged.plug(samples.instance(), plugged)
    assert len(tap) <= 15
    link = links(namespace)[tap]
    assert link["master"] == "br0"
    assert "UP" in str(link["flags"])
    assert link["address"] == "fe:00:00:00:00:00"
    for _ in range(2):
        await bridged.unplug(tap)
    assert tap not in links(namespace)


async def test_plugging_again_takes_the_place_of_what_was_left(bridged: drivers.NicDriver, namespace: str) -> None:
    first = await bridged.plug(samples.instance(), samples.nic())
    assert await bridged.plug(samples.instance(), samples.nic()) == first
    assert links(namespace)[first]["master"] == "br0"


async def test_a_missing_bridge_is_named_before_anything_is_made(bridged: drivers.NicDriver, namespace: str) -> None:
    before = set(links(namespace))
    for link in ("br7", "lo"):
        wrong = samples.nic(link=link)
        with pytest.raises(errors.EnvironmentFaultError, match=rf"NIC 0: node node1 has no bridge {link}.*ip link add"):
            await bridged.validate(wrong)
        with pytest.raises(errors.EnvironmentFaultError, match=f"no bridge {link}"):
            await bridged.plug(samples.instance(), wrong)
    assert set(links(namespace)) == before
    await bridged.validate(samples.nic())


async def test_a_routed_nic_has_a_route_to_each_address(namespace: str, folders: paths.Paths) -> None:
    routed = driver(taps.Routed, namespace, folders)
    plugged = samples.nic(mode="routed", link="")
    tap = await routed.plug(samples.instance(), plugged)
    assert f"192.0.2.7 dev {tap}" in routes(namespace, "-4")
    assert f"198.51.100.9 dev {tap}" in routes(namespace, "-4")
    assert f"2001:db8::7 dev {tap}" in routes(namespace, "-6")
    again = await routed.plug(samples.instance(), samples.nic(mode="routed", link="100"))
    assert f"192.0.2.7 dev {again}" in routes(namespace, "-4", table="100")
    await routed.unplug(tap)
    assert tap not in routes(namespace, "-4")


@pytest.mark.promise("networks-25", "networks-74", "networks-75")
async def test_a_script_of_the_administrator_connects_the_tap_and_knows_all_addresses(
    bridged: drivers.NicDriver, namespace: str, folders: paths.Paths
) -> None:
    script, seen = f"{folders.etc}/kvm-vif-bridge", f"{folders.run}/seen"
    commands = f'cp /proc/$$/environ {seen}; ip link set dev "$INTERFACE" up alias "$INSTANCE:$1"'
    samples.write(script, f"#!/bin/sh\n{commands}\n", mode=0o755)
    tap = await bridged.plug(samples.instance(), samples.nic())
    link = links(namespace)[tap]
    assert link["ifalias"] == f"vm1:{tap}"
    assert "master" not in link
    variables = set(samples.read(seen).decode().split("\0"))
    assert {
        "IP:0=192.0.2.7",
        "IP:1=2001:db8::7",
        "NETWORK_SUBNET:1=2001:db8::/64",
        "NETWORK_GATEWAY:1=2001:db8::1",
        "NETWORK_DHCP:1=True",
        "ACTION=up",
        "BRIDGE=br0",
    } <= variables


async def test_a_bridged_nic_moves_to_another_bridge_and_otherwise_stays(
    bridged: drivers.NicDriver, namespace: str
) -> None:
    add_bridge(namespace, "br1")
    tap = await bridged.plug(samples.instance(), samples.nic())
    before = links(namespace)[tap]
    await bridged.update(samples.instance(), samples.nic(addresses=()))
    assert links(namespace)[tap] == before
    await bridged.update(samples.instance(), samples.nic(link="br1"))
    link = links(namespace)[tap]
    assert (link["master"], link["ifindex"]) == ("br1", before["ifindex"])
    assert "UP" in str(link["flags"])
    with pytest.raises(errors.EnvironmentFaultError, match="no bridge br9"):
        await bridged.update(samples.instance(), samples.nic(link="br9"))
    assert links(namespace)[tap] == link


async def test_a_routed_nic_has_routes_to_its_newest_addresses_only(
    bridged: drivers.NicDriver, namespace: str, folders: paths.Paths
) -> None:
    routed = driver(taps.Routed, namespace, folders)
    tap = await bridged.plug(samples.instance(), samples.nic())
    await routed.update(samples.instance(), samples.nic(mode="routed", link="100"))
    assert f"192.0.2.7 dev {tap}" in routes(namespace, "-4", table="100")
    assert "master" not in links(namespace)[tap]
    newest = (calls.Address(ip="192.0.2.8"), calls.Address(ip="2001:db8::8"))
    await routed.update(samples.instance(), samples.nic(mode="routed", link="100", addresses=newest))
    assert f"192.0.2.8 dev {tap}" in routes(namespace, "-4", table="100")
    assert f"2001:db8::8 dev {tap}" in routes(namespace, "-6", table="100")
    gone = routes(namespace, "-4", table="100") + routes(namespace, "-6", table="100")
    assert "192.0.2.7 " not in gone
    assert "2001:db8::7 " not in gone
    await bridged.update(samples.instance(), samples.nic())
    assert links(namespace)[tap]["master"] == "br0"
    assert tap not in routes(namespace, "-4", table="100")


async def test_a_script_that_fails_leaves_no_tap(
    bridged: drivers.NicDriver, namespace: str, folders: paths.Paths
) -> None:
    script = f"{folders.etc}/kvm-vif-bridge"
    samples.write(script, "#!/bin/sh\necho no such VLAN >&2\nexit 1\n", mode=0o755)
    before = set(links(namespace))
    with pytest.raises(errors.EnvironmentFaultError, match=r"kvm-vif-bridge.*no such VLAN"):
        await bridged.plug(samples.instance(), samples.nic())
    assert set(links(namespace)) == before

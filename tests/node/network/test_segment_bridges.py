"""Bridges made for segments, in network namespaces made for the test: VXLAN, which this kernel needs to have."""

import asyncio
import json
import subprocess

import pytest
from tests.node import samples

from gantry import errors
from gantry.node.network import segment_bridges
from gantry.node.network import taps as network_taps
from gantry.rpc import calls
from gantry.runtime import paths

pytestmark = pytest.mark.real


def ip(namespace: str, *words: str) -> None:
    subprocess.run(["ip", "-n", namespace, *words], check=True, capture_output=True)


def links(namespace: str) -> dict[str, dict[str, object]]:
    done = subprocess.run(["ip", "-n", namespace, "-json", "link"], capture_output=True, check=True)
    return {link["ifname"]: link for link in json.loads(done.stdout)}


def addresses(namespace: str) -> dict[str, list[object]]:
    done = subprocess.run(["ip", "-n", namespace, "-json", "address"], capture_output=True, check=True)
    return {link["ifname"]: link["addr_info"] for link in json.loads(done.stdout)}


def card(number: int, *, segment: int = 7001, index: int = 0, link: str = "under") -> calls.Nic:
    """Return the NIC of a guest in a VXLAN segment."""
    cable = calls.Network(
        name="net1", uuid="f00d", segment=calls.Segment(network_type="vxlan", segmentation_id=segment)
    )
    return calls.Nic(
        index=index,
        uuid=f"c1d2e3f4-0000-4000-8000-{number:012}",
        mac=f"aa:00:00:00:00:{number:02x}",
        mode="bridged",
        link=link,
        network=cable,
        mtu=1450,
    )


class NicDrivers:
    """The drivers of one node."""

    def __init__(self, namespace: str, folders: paths.Paths) -> None:
        self.namespace = namespace
        self.folders = folders
        self.restart()

    def restart(self) -> None:
        runtime = samples.runtime(namespace=self.namespace)
        segments = segment_bridges.Segments(runtime)
        self.bridged = network_taps.Bridged(runtime, self.folders.etc, segments=segments)
        self.routed = network_taps.Routed(runtime, self.folders.etc, segments=segments)

    async def plug(self, nic: calls.Nic) -> str:
        return await self.bridged.plug(samples.instance(), nic)

    def created(self) -> set[str]:
        """Return what is there for segments."""
        return {name for name in links(self.namespace) if name.startswith(("gb", "gp"))}


@pytest.fixture
def node(namespace: str, folders: paths.Paths) -> NicDrivers:
    ip(namespace, "link", "add", "under", "type", "veth", "peer", "name", "far")
    ip(namespace, "address", "add", "203.0.113.1/24", "dev", "under")
    ip(namespace, "link", "set", "under", "up")
    return NicDrivers(namespace, folders)


async def test_the_first_nic_of_a_segment_makes_its_bridge_and_the_last_one_takes_it_away(node: NicDrivers) -> None:
    first, second = await node.plug(card(1)), await node.plug(card(2))
    (bridge,) = [name for name in node.created() if name.startswith("gb")]
    (port,) = node.created() - {bridge}
    devices = links(node.namespace)
    assert bridge.startswith("gbx7001-")
    assert [devices[name]["master"] for name in (first, second, port)] == [bridge] * 3
    assert all("UP" in str(devices[name]["flags"]) for name in (first, second, port, bridge))
    assert devices[bridge]["mtu"] == 1450
    await node.bridged.unplug(first)
    assert node.created() == {bridge, port}
    await node.bridged.unplug(second)
    assert node.created() == set()


async def test_two_segments_have_nothing_in_common(node: NicDrivers) -> None:
    first, other = await node.plug(card(1)), await node.plug(card(2, segment=7002))
    devices = links(node.namespace)
    assert devices[first]["master"] != devices[other]["master"]
    await node.bridged.unplug(first)
    assert [name[:7] for name in sorted(node.created())] == ["gbx7002", "gpx7002"]


async def test_the_node_has_no_address_of_its_own_in_a_segment(node: NicDrivers) -> None:
    await node.plug(card(1))
    counts = {
        name: len(nic_addresses) for name, nic_addresses in addresses(node.namespace).items() if name in node.created()
    }
    assert list(counts.values()) == [0, 0]


async def test_a_restarted_daemon_goes_on_with_what_is_there(node: NicDrivers) -> None:
    tap = await node.plug(card(1))
    before = node.created()
    node.restart()
    other = await node.plug(card(2))
    assert node.created() == before
    for name in (tap, other):
        await node.bridged.unplug(name)
    assert node.created() == set()


async def test_nics_that_come_and_go_at_once_do_not_race(node: NicDrivers) -> None:
    taps = await asyncio.gather(*(node.plug(card(number)) for number in range(1, 5)))
    await asyncio.gather(
        *(node.bridged.unplug(tap) for tap in taps), *(node.plug(card(number)) for number in range(5, 8))
    )
    devices = links(node.namespace)
    (bridge,) = [name for name in node.created() if name.startswith("gb")]
    assert [devices[network_taps.tap_name(card(number))]["master"] for number in range(5, 8)] == [bridge] * 3
    await asyncio.gather(*(node.bridged.unplug(network_taps.tap_name(card(number))) for number in range(5, 8)))
    assert node.created() == set()


async def test_a_nic_moves_to_another_segment_and_out_of_segments_while_it_is_plugged_in(node: NicDrivers) -> None:
    tap = await node.plug(card(1))
    before = links(node.namespace)[tap]
    await node.bridged.update(samples.instance(), card(1))
    assert links(node.namespace)[tap] == before
    await node.bridged.update(samples.instance(), card(1, segment=7002))
    assert str(links(node.namespace)[tap]["master"]).startswith("gbx7002-")
    assert {name[3:7] for name in node.created()} == {"7002"}
    await node.bridged.update(samples.instance(), samples.nic(), interface=tap)
    assert (links(node.namespace)[tap]["master"], node.created()) == ("br0", set())
    await node.bridged.update(samples.instance(), card(1))
    await node.routed.update(samples.instance(), samples.nic(mode="routed", link=""), interface=tap)
    assert "master" not in links(node.namespace)[tap]
    assert node.created() == set()


async def test_a_segment_whose_link_was_recreated_is_repaired_by_an_update_and_by_the_next_nic(
    node: NicDrivers,
) -> None:
    await node.plug(card(1))
    before = node.created()
    for repair in (node.bridged.update(samples.instance(), card(1)), node.plug(card(2))):
        (port,) = [name for name in before if name.startswith("gp")]
        ip(node.namespace, "link", "delete", "dev", port)
        await repair
        assert node.created() == before


async def test_what_a_killed_daemon_left_empty_goes_with_the_next_nic(node: NicDrivers) -> None:
    tap = await node.plug(card(1))
    ip(node.namespace, "link", "delete", "dev", tap)
    assert len(node.created()) == 2
    await node.bridged.unplug(await node.plug(card(2, segment=7002)))
    assert node.created() == set()


@pytest.mark.parametrize(
    ("change", "link", "message"),
    [
        ((), "nowhere", r"NIC 3: node node1 has no device nowhere"),
        (("address", "flush", "dev", "under"), "under", r"no IP address on under; VXLAN needs an address"),
        (
            ("link", "set", "under", "mtu", "1400"),
            "under",
            r"has MTU 1400 on under, .* MTU 1450 needs 1500; ip link",
        ),
    ],
)
async def test_what_a_node_lacks_is_named_before_anything_is_made(
    node: NicDrivers, change: tuple[str, ...], link: str, message: str
) -> None:
    if change:
        ip(node.namespace, *change)
    before = set(links(node.namespace))
    for refused in (node.bridged.validate, node.plug):
        with pytest.raises(errors.EnvironmentFaultError, match=message):
            await refused(card(1, index=3, link=link))
    assert set(links(node.namespace)) == before


async def test_a_segment_that_another_program_has_is_not_taken_from_it(node: NicDrivers) -> None:
    words = ["type", "vxlan", "id", "7001", "dev", "under", "group", "239.1.1.1", "dstport", "4789"]
    ip(node.namespace, "link", "add", "foreign", *words)
    with pytest.raises(errors.EnvironmentFaultError, match="VNI already exists"):
        await node.bridged.validate(card(1))
    assert node.created() == set()


async def test_validating_leaves_nothing(node: NicDrivers) -> None:
    await node.bridged.validate(card(1))
    assert node.created() == set()
    await node.plug(card(2))
    before = node.created()
    await node.bridged.validate(card(1))
    assert node.created() == before


async def test_more_segments_than_the_kernel_joins_groups_for(node: NicDrivers) -> None:
    for number in range(1, 26):
        await node.plug(card(number, segment=9000 + number))
    assert len(node.created()) == 50


async def test_types_that_nodes_do_not_make_and_routed_nics_are_refused(node: NicDrivers) -> None:
    for kind in ("gre", "geneve"):
        segment = calls.Segment(network_type=kind, segmentation_id=5)
        other = calls.Nic(
            index=0, uuid="u", mac="aa:00:00:00:00:01", mode="bridged", link="under",
            network=calls.Network(name="n", uuid="u", segment=segment),
        )  # fmt: skip
        with pytest.raises(
            errors.EnvironmentFaultError, match=f"does not support {kind} segments; use a segment of type"
        ):
            await node.bridged.validate(other)
    with pytest.raises(errors.EnvironmentFaultError, match="cannot route a NIC into a VLAN or segment"):
        await node.routed.validate(card(1))


async def test_a_script_of_the_administrator_connects_the_tap_and_knows_the_segment(node: NicDrivers) -> None:
    seen = f"{node.folders.run}/seen"
    script = f'#!/bin/sh\ncp /proc/$$/environ {seen}\nip link set dev "$INTERFACE" up\n'
    samples.write(f"{node.folders.etc}/kvm-vif-bridge", script, mode=0o755)
    await node.plug(card(1))
    variables = set(samples.read(seen).decode().split("\0"))
    assert {"NETWORK_TYPE=vxlan", "NETWORK_SEGMENT=7001", "LINK=under", "MTU=1450"} <= variables
    assert node.created() == set()

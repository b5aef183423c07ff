"""NICs in VLANs, over a stand-in for a kernel that tells VLANs apart; ``tests/real/nodes`` has such kernels."""

from collections.abc import Iterator

import msgspec
import pytest
from tests.node import kernel, samples

from gantry import errors
from gantry.node.network import segment_bridges, taps, vlans
from gantry.rpc import calls
from gantry.runtime import simulated

BRIDGE, CARD = "br0", "eth1"


def card(vlan: str = "", *, link: str = BRIDGE, index: int = 0) -> calls.Nic:
    return calls.Nic(
        index=index,
        uuid=f"c1d2e3f4-0000-4000-8000-00000000000{index}",
        mac=f"aa:00:00:00:00:0{index}",
        mode="bridged",
        link=link,
        vlan=vlan,
    )


class VlanMachine:
    """A machine whose bridge has one way out, which carries VLANs 5 to 7 beside its own frames."""

    def __init__(self, world: simulated.World) -> None:
        self._world = world
        self.machine = world.machine("node1")
        self.kernel = kernel.Kernel(self.machine)
        self.kernel.bridge(BRIDGE, **kernel.FILTERING)
        self.kernel.port("eth0", BRIDGE, 5, 6, 7)
        self.kernel.devices[CARD] = kernel.Device(up=True)
        segments = segment_bridges.Segments(self.machine)
        self.bridged, self.routed = (
            kind(self.machine, "/etc/gantry", segments=segments) for kind in (taps.Bridged, taps.Routed)
        )

    def plug(self, nic: calls.Nic) -> kernel.Device:
        return self.kernel.devices[self._world.run(self.bridged.plug(samples.instance(), nic))]

    def update(self, nic: calls.Nic) -> kernel.Device:
        self._world.run(self.bridged.update(samples.instance(), nic))
        return self.kernel.devices[taps.tap_name(nic)]

    def unplug(self, nic: calls.Nic) -> None:
        self._world.run(self.bridged.unplug(taps.tap_name(nic)))

    def refused(self, nic: calls.Nic) -> str:
        """Return what validating and plugging in both say; nothing is changed."""
        before = set(self.kernel.devices)
        with pytest.raises(errors.GantryError) as first:
            self._world.run(self.bridged.validate(nic))
        with pytest.raises(errors.GantryError) as second:
            self.plug(nic)
        assert str(first.value) == str(second.value)
        assert set(self.kernel.devices) == before
        return str(first.value)


@pytest.fixture
def node() -> Iterator[VlanMachine]:
    with simulated.World(seed=1) as world:
        yield VlanMachine(world)


@pytest.mark.parametrize(
    ("vlan", "expected"),
    [
        ("5", {5: True}),
        (".5", {5: True}),
        (":5:6", {5: False, 6: False}),
        (".5:6:7", {5: True, 6: False, 7: False}),
    ],
)
def test_a_tap_is_in_the_vlans_of_its_nic_and_in_no_other(
    node: VlanMachine, vlan: str, expected: dict[int, bool]
) -> None:
    tap = node.plug(card(vlan))
    assert (tap.master, tap.vlans, tap.up) == (BRIDGE, expected, True)


def test_a_tap_comes_up_when_it_is_in_its_vlan_and_never_was_in_another(node: VlanMachine) -> None:
    node.plug(card("5"))
    order = [change.split() for change in node.kernel.changes]
    last_vlan = max(index for index, words in enumerate(order) if words[0] == "bridge")
    ups = [index for index, words in enumerate(order) if "up" in words]
    assert ups == [last_vlan + 1]


def test_a_nic_without_a_vlan_is_where_it_always_was(node: VlanMachine) -> None:
    plain, inside = node.plug(card()), node.plug(card("5", index=1))
    assert (plain.master, plain.vlans) == (BRIDGE, {1: True})
    assert inside.vlans == {5: True}
    assert not any(taps.tap_name(card()) in change for change in node.kernel.changes if change.startswith("bridge"))


def test_a_nic_moves_from_vlan_to_vlan_and_is_left_alone_where_it_stays(node: VlanMachine) -> None:
    node.plug(card("5"))
    before = len(node.kernel.changes)
    assert node.update(card(".5")).vlans == {5: True}
    assert len(node.kernel.changes) == before
    assert node.update(card("6")).vlans == {6: True}
    assert node.update(card(":5:6")).vlans == {5: False, 6: False}
    assert node.update(card()).vlans == {1: True}
    before = len(node.kernel.changes)
    node.update(card())
    assert len(node.kernel.changes) == before


def test_a_bridge_that_does_not_tell_vlans_apart_is_not_made_to(node: VlanMachine) -> None:
    node.kernel.bridge(BRIDGE, **kernel.PLAIN)
    message = node.refused(card("5", index=2))
    assert "NIC 2: bridge br0 of node node1 is not VLAN-aware; ip link set dev br0 type bridge" in message


def test_a_kernel_without_the_feature_is_named(node: VlanMachine) -> None:
    node.kernel.bridge(BRIDGE, vlan_filtering=0)
    assert "CONFIG_BRIDGE_VLAN_FILTERING" in node.refused(card("5"))


def test_a_vlan_that_does_not_leave_the_node_is_refused(node: VlanMachine) -> None:
    message = node.refused(card(":6:8"))
    assert "no uplink of bridge br0 of node node1 carries VLAN 8; bridge vlan add dev eth0 vid 8" in message
    node.kernel.port("eth2", BRIDGE, 8)
    assert node.plug(card(":6:8")).vlans == {6: False, 8: False}


def test_guests_are_no_way_out_and_a_bridge_without_one_is_a_world_of_its_own(node: VlanMachine) -> None:
    node.plug(card(":5", index=1))
    node.kernel.port("vif3.0", BRIDGE, 9)
    assert "carries VLAN 9" in node.refused(card("9"))
    del node.kernel.devices["eth0"]
    assert node.plug(card("9")).vlans == {9: True}


def test_a_network_card_as_link_gets_a_bridge_for_the_vlan_that_goes_with_the_last_nic(node: VlanMachine) -> None:
    before = set(node.kernel.devices)
    first = node.plug(card("5", link=CARD))
    second, other = node.plug(card("5", link=CARD, index=1)), node.plug(card("6", link=CARD, index=2))
    assert first.master == second.master != other.master
    assert first.master.startswith("gbv5-")
    (port,) = [nic for name, nic in node.kernel.devices.items() if nic.master == first.master and nic.kind == "vlan"]
    assert (port.under, port.info, port.up) == (CARD, {"id": 5}, True)
    node.unplug(card("5"))
    assert first.master in node.kernel.devices
    for index in (1, 2):
        node.unplug(card(index=index))
    assert set(node.kernel.devices) == before


def test_two_cards_have_two_vlans_of_one_number(node: VlanMachine) -> None:
    node.kernel.devices["eth2"] = kernel.Device(up=True)
    nic, two = node.plug(card("5", link=CARD)), node.plug(card("5", link="eth2", index=1))
    assert nic.master != two.master


def test_tagged_frames_need_a_bridge_that_tells_vlans_apart(node: VlanMachine) -> None:
    assert "has no bridge eth1 for VLANs :5:6; tagged frames need a VLAN-aware bridge" in node.refused(
        card(":5:6", link=CARD)
    )


def test_a_missing_link_and_a_routed_nic_are_named(node: VlanMachine) -> None:
    assert "NIC 0: node node1 has no bridge nowhere" in node.refused(card("5", link="nowhere"))
    node.bridged = node.routed
    assert "cannot route a NIC into a VLAN or segment; use a NIC of mode bridged" in node.refused(card("5"))


def test_a_kernel_without_tunnels_is_named_before_anything_is_made(node: VlanMachine) -> None:
    cable = calls.Network(name="n", uuid="n", segment=calls.Segment(network_type="vxlan", segmentation_id=7))
    message = node.refused(msgspec.structs.replace(card(link=CARD), network=cable, mtu=1450))
    assert "NIC 0: node node1 cannot create the device for its segment: " in message
    assert "Unknown device type.; load the kernel module vxlan or 8021q" in message
    assert node.kernel.changes == []


def test_a_vlan_that_no_master_would_send_is_an_error_all_the_same() -> None:
    with pytest.raises(errors.InvalidError, match="VLAN x is not valid"):
        vlans.parse("x")

import msgspec
import pytest
from msgspec import structs
from tests.state import build

from gantry import errors
from gantry.model import access, cluster, instance, network
from gantry.state.objects import snapshot


def state(*more: snapshot.Stored) -> snapshot.Snapshot:
    return snapshot.Snapshot().apply([*build.FIRST, *build.put(*more)], serial=1)


def test_an_instance_is_found_by_all_that_it_holds_and_by_nothing_afterwards() -> None:
    empty = state()
    full = empty.apply(build.put(build.vm(1, ip="10.0.0.1")), serial=2)
    assert full.instance("inst1").uuid == "i1"
    assert full.addresses["net", "10.0.0.1"] == snapshot.AddressOwner("i1", "x1")
    assert full.macs["aa:00:00:000001"] == "i1"
    assert set(full.on_node["n0"]) == set(full.in_network["net"]) == {"i1"}
    assert build.content(full.apply([snapshot.Delete("instances", "i1")], serial=1)) == build.content(empty)
    assert build.content(empty)["serial"] == 1


def test_two_instances_whose_nics_have_one_uuid_can_both_be_removed() -> None:
    first, second = build.vm(1), build.vm(2)
    second = structs.replace(second, nics=(structs.replace(second.nics[0], uuid=first.nics[0].uuid),))
    both = state(first, second)
    assert both.nics[first.nics[0].uuid] == second.uuid
    empty = both.apply([snapshot.Delete("instances", vm.uuid) for vm in (first, second)], serial=1)
    assert build.content(empty) == build.content(state())


def test_a_port_that_is_renamed_stays_in_the_indexes() -> None:
    before = state(PORT)
    renamed = before.apply(build.put(structs.replace(PORT, name="other")), serial=1)
    assert renamed.ports["p"].name == "other"
    assert build.content(renamed) == build.content(state(structs.replace(PORT, name="other")))


def test_a_detached_disk_is_found_by_its_uuid_and_by_a_name_that_only_one_has() -> None:
    first, second, third = (
        instance.DetachedDisk(
            instance.Disk(uuid=uuid, dev_type="plain", size=8, name=name), nodes=("n0",), instance="i"
        )
        for uuid, name in (("d1", "data"), ("d2", "logs"), ("d3", "logs"))
    )
    full = state(first, second, third)
    assert full.detached_disk("data") == full.detached_disk("d1") == first
    assert full.detached_disk("d3") == third
    with pytest.raises(errors.InvalidError, match="2 disks") as ambiguous:
        full.detached_disk("logs")
    assert ambiguous.value.hint == "UUIDs: d2, d3"
    with pytest.raises(errors.NotFoundError, match="there is no disk nothing"):
        full.detached_disk("nothing")


PORT = network.Port(uuid="p", name="vip", network="net", mac="aa:00:00:00:00:aa", ip=("10.0.0.7",), device_id="d")
CUT = network.SubnetPool(
    uuid="sp", name="", prefixes=("10.0.0.0/8",), default_prefixlen=24, min_prefixlen=8, max_prefixlen=32
)
VLAN = network.Segment(network_type="vlan", segmentation_id=7, physical_network="wire")
TAGGED = network.Network(
    uuid="tagged",
    name="tagged",
    subnets=(network.Subnet(uuid="t", cidr="10.0.0.0/24", subnetpool="sp"),),
    segment=VLAN,
)
RANGE = network.SegmentRange(uuid="r", name="", network_type="vlan", minimum=1, maximum=9, physical_network="wire")


def test_ports_segments_and_subnets_are_found_by_all_that_they_hold_and_by_nothing_afterwards() -> None:
    empty = state()
    full = empty.apply(build.put(PORT, CUT, TAGGED, RANGE), serial=2)
    assert full.addresses["net", "10.0.0.7"] == snapshot.AddressOwner(port="p")
    assert full.owner(full.addresses["net", "10.0.0.7"]) is PORT
    assert full.macs[PORT.mac] == "p"
    assert set(full.ports_in["net"]) == set(full.ports_of["d"]) == {"p"}
    assert full.segments["vlan", "wire", 7] == full.subnet_network["t"] == "tagged"
    assert set(full.subnets_from["sp"]) == {"t"}
    gone = [("ports", "p"), ("networks", "tagged"), ("subnetpools", "sp"), ("segmentranges", "r")]
    assert build.content(full.apply([snapshot.Delete(kind, key) for kind, key in gone], serial=1)) == build.content(
        empty
    )


def test_a_changed_port_leaves_nothing_of_the_old_one() -> None:
    other = msgspec.structs.replace(PORT, mac="aa:00:00:00:00:ab", ip=("10.0.0.8",), device_id="")
    assert build.content(state(PORT).apply(build.put(other), serial=1)) == build.content(state(other))


def test_an_address_passes_from_a_port_to_an_instance_in_one_transaction() -> None:
    after = state(PORT).apply([snapshot.Delete("ports", "p"), *build.put(build.vm(1, ip="10.0.0.7"))], serial=2)
    assert after.addresses["net", "10.0.0.7"].instance == "i1"


def test_a_name_that_several_have_is_ambiguous_and_a_uuid_never() -> None:
    two = state(PORT, msgspec.structs.replace(PORT, uuid="q", mac="aa:00:00:00:00:ab", ip=()))
    assert two.port("q").uuid == "q"
    with pytest.raises(errors.InvalidError, match="port name vip is ambiguous: p, q"):
        two.port("vip")
    assert state(PORT).port("vip") is PORT
    for missing in ("x", ""):
        with pytest.raises(errors.NotFoundError, match="no such port"):
            two.port(missing)


def test_a_change_of_what_is_in_no_index_leaves_the_indexes_as_they_are() -> None:
    before = state(build.vm(1, ip="10.0.0.1"))
    after = before.apply(build.put(build.vm(1, ip="10.0.0.1", tags=("t",))), serial=2)
    assert after.instances["i1"].tags == ("t",)
    assert after.addresses is before.addresses
    moved = after.apply(build.put(build.vm(1, ip="10.0.0.2")), serial=3)
    assert list(moved.addresses) == [("net", "10.0.0.2")]


def test_two_instances_can_swap_their_addresses_in_one_transaction() -> None:
    before = state(build.vm(1, ip="10.0.0.1"), build.vm(2, ip="10.0.0.2"))
    after = before.apply(build.put(build.vm(1, ip="10.0.0.2"), build.vm(2, ip="10.0.0.1")), serial=2)
    assert after.addresses["net", "10.0.0.1"].instance == "i2"


@pytest.mark.parametrize("name", ["p", "a-b-c-d-e", "x" * 36, "00000000-0000-4000-8000-00000000000x1"])
def test_all_ports_with_a_name_are_found_by_it_unless_it_has_the_form_of_a_uuid(name: str) -> None:
    twins = [msgspec.structs.replace(PORT, uuid=f"p{n}", name=name, mac=f"aa:00:00:00:00:0{n}", ip=()) for n in (1, 2)]
    assert state(*twins).matching("ports", name) == {"p1": "p1", "p2": "p2"}
    uuid = "00000000-0000-4000-8000-000000000001"
    assert state(msgspec.structs.replace(PORT, name=uuid)).matching("ports", uuid) == {}


BROKEN: dict[str, snapshot.Stored] = {
    "address 10.0.0.1 in network net1 is in use by instance inst1": build.vm(2, ip="10.0.0.1"),
    "address 192.0.2.1 is outside every subnet of network net1": build.vm(2, ip="192.0.2.1"),
    "MAC address aa:00:00:000001 is in use by instance inst1": msgspec.structs.replace(
        build.vm(2), nics=build.vm(1).nics
    ),
    "instance inst1 exists already": msgspec.structs.replace(build.vm(2), name="inst1"),
    "no such node: n9": msgspec.structs.replace(build.vm(2), primary_node="n9"),
    "no such node group: g9": msgspec.structs.replace(build.node(3), group="g9"),
    "node group other: no such network: net9": cluster.NodeGroup(
        uuid="o", name="other", networks={"net9": cluster.Connection(mode="bridged", link="br0")}
    ),
    "address 10.0.0.1 is outside every subnet": network.Network(uuid="net", name="net1"),
    "address 10.0.0.1 in network net1 is in use by instance inst1 *": msgspec.structs.replace(PORT, ip=("10.0.0.1",)),
    "MAC address aa:00:00:000001 is in use by instance inst1 *": msgspec.structs.replace(PORT, mac="aa:00:00:000001"),
    "port p: no such network: net9": msgspec.structs.replace(PORT, network="net9"),
    "address 192.0.2.1 is outside every subnet of network net1 *": msgspec.structs.replace(PORT, ip=("192.0.2.1",)),
    "such subnet pool: sp": TAGGED,
    "subnet s exists already": network.Network(uuid="n", name="n", subnets=build.NET.subnets),
}


@pytest.mark.parametrize("message", BROKEN)
def test_what_would_break_an_invariant_is_refused(message: str) -> None:
    before = state(build.vm(1, ip="10.0.0.1"))
    with pytest.raises(errors.GantryError, match=message):
        before.apply(build.put(BROKEN[message]), serial=2)


@pytest.mark.parametrize(
    ("kind", "key", "message"),
    [
        ("nodes", "n0", "node node0 is in use by instance inst1"),
        ("networks", "net", "network net1 is in use by instance inst1"),
        ("nodegroups", "g", "node group default is in use by node node0, node1, node2"),
        ("instances", "i9", "no such object in instances: i9"),
    ],
)
def test_what_others_need_is_not_deleted(kind: str, key: str, message: str) -> None:
    before = state(build.vm(1))
    with pytest.raises(errors.PrerequisiteError, match=message):
        before.apply([snapshot.Delete(kind, key)], serial=2)


@pytest.mark.parametrize(
    ("kind", "key", "message"),
    [
        ("networks", "net", "network net1 is in use by port p"),
        ("subnetpools", "sp", "subnet pool sp is in use by subnet t"),
    ],
)
def test_what_ports_and_subnets_need_is_not_deleted(kind: str, key: str, message: str) -> None:
    with pytest.raises(errors.WrongStateError, match=message):
        state(PORT, CUT, TAGGED).apply([snapshot.Delete(kind, key)], serial=2)


def test_two_networks_have_no_segment_in_common() -> None:
    other = network.Network(uuid="other", name="other", segment=VLAN)
    before = state(CUT, TAGGED)
    with pytest.raises(errors.NotUniqueError, match="vlan segment 7 of physical network wire is in use by network tag"):
        before.apply(build.put(other), serial=2)
    moved = msgspec.structs.replace(TAGGED, segment=msgspec.structs.replace(VLAN, segmentation_id=8))
    assert before.apply(build.put(other, moved), serial=2).segments["vlan", "wire", 7] == "other"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            msgspec.structs.replace(TAGGED, segment=msgspec.structs.replace(VLAN, network_type="vlna")),
            "is not a network type",
        ),
        (
            msgspec.structs.replace(TAGGED, segment=msgspec.structs.replace(VLAN, segmentation_id=4095)),
            "vlan has no id",
        ),
        (msgspec.structs.replace(RANGE, physical_network=""), "needs a physical network"),
        (msgspec.structs.replace(RANGE, minimum=10), "minimum 10 is above"),
    ],
)
def test_a_segment_or_range_that_cannot_be_is_refused_wherever_it_comes_from(
    value: snapshot.Stored, message: str
) -> None:
    with pytest.raises(errors.InvalidError, match=message):
        state(CUT, value)


def test_a_subnet_that_a_port_has_an_address_of_does_not_shrink_away() -> None:
    less = msgspec.structs.replace(build.NET, subnets=(network.Subnet(uuid="s", cidr="10.1.0.0/16"),))
    with pytest.raises(errors.InvalidError, match=r"address 10\.0\.0\.7 is outside every subnet"):
        state(PORT).apply(build.put(less), serial=2)


@pytest.mark.parametrize("used", ["10.1.0.2", "10.0.0.99"])
def test_a_small_subnet_is_removed_from_a_full_network_only_if_it_is_unused(used: str) -> None:
    small = network.Subnet(uuid="small", cidr="10.1.0.0/30")
    lan = network.Network(uuid="lan", name="lan", subnets=(network.Subnet(uuid="l", cidr="10.0.0.0/24"), small))
    ports = [
        network.Port(uuid=f"p{part}", name="", network="lan", mac=f"m{part}", ip=(f"10.0.0.{part}",))
        for part in range(1, 9)
    ]
    before = state(lan, *ports, network.Port(uuid="q", name="", network="lan", mac="q", ip=(used,)))
    without = build.put(msgspec.structs.replace(lan, subnets=lan.subnets[:1]))
    if used.startswith("10.1"):
        with pytest.raises(errors.InvalidError, match=r"address 10\.1\.0\.2 is outside every subnet"):
            before.apply(without, serial=2)
    else:
        assert "small" not in before.apply(without, serial=2).subnet_network


def test_a_job_number_is_never_forgotten() -> None:
    before = state(build.queued(5))
    after = before.apply([snapshot.Delete("jobs", "5")], serial=2)
    assert after.last_job == 5
    assert "5" not in after.jobs


def _disk(*nodes: str) -> instance.Disk:
    minors = {node: number for number, node in enumerate(nodes)}
    return instance.Disk(uuid="d", dev_type="drbd", size=8, mirror=instance.Mirror(minors, 11000, "s"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (instance.DetachedDisk(_disk("n0", "n1"), nodes=("n0",), instance="i"), "detached disk d is not kept on"),
        (instance.DetachedDisk(_disk("n0", "n1"), nodes=("n0", "n2"), instance="i"), "detached disk d is not kept on"),
        (structs.replace(build.vm(1), disks=(_disk("n1", "n2"),)), "instance inst1: disk 0 is not kept on its primary"),
        (
            structs.replace(TAGGED, unsegmented=network.Unsegmented(network_type="flat", physical_network="wire")),
            "network tagged has a segment and is flat",
        ),
    ],
)
def test_objects_that_contradict_themselves_are_a_bug_of_the_caller(value: snapshot.Stored, message: str) -> None:
    with pytest.raises(errors.InternalError, match=message):
        state(CUT, value)


def test_a_mirrored_disk_is_kept_on_the_nodes_of_its_instance_or_its_own() -> None:
    attached = structs.replace(build.vm(1), disks=(_disk("n0", "n1"),))
    assert state(attached).instances["i1"] == attached
    detached = instance.DetachedDisk(_disk("n0", "n1"), nodes=("n1", "n0"), instance="i")
    assert state(detached).disks["d"] == detached
    plain = instance.Disk(uuid="d", dev_type="plain", size=8)
    with pytest.raises(errors.InternalError, match="disk d is instance inst1's, and without an instance too"):
        state(instance.DetachedDisk(plain, nodes=("n0",), instance="i"), structs.replace(build.vm(1), disks=(plain,)))


def test_a_state_before_its_first_cluster_has_none() -> None:
    with pytest.raises(errors.InternalError, match="the state holds no cluster"):
        _ = snapshot.Snapshot().the_cluster
    assert state().the_cluster is build.OWNER


ROLE = access.Role.OPERATOR


@pytest.mark.parametrize(
    ("scope", "key", "missing"),
    [
        (access.Scope.GROUP, "g", "node group: g9"),
        (access.Scope.INSTANCE, "i1", "instance: g9"),
        (access.Scope.NETWORK, "net", "network: g9"),
        (access.Scope.TAG, "g9", ""),
        (access.Scope.PROJECT, "g9", ""),
        (access.Scope.CLUSTER, "", ""),
    ],
)
def test_a_rule_or_a_role_of_a_token_is_about_an_object_that_exists(
    scope: access.Scope, key: str, missing: str
) -> None:
    before = state(build.vm(1))

    def both(key: str) -> list[tuple[str, snapshot.Stored]]:
        rule = access.Rule(uuid="r", name="user:bob", role=ROLE, scope=scope, object=key)
        roles = (access.RoleOn(ROLE, scope, key),)
        token = access.Token(uuid="t", name="bob:ci", id="7", secret_hash="h", extent=access.Extent.ROLES, roles=roles)
        return [("access rule", rule), ("API token", token)]

    after = before.apply(build.put(*(value for _, value in both(key))), serial=2)
    assert set(after.accessrules) | set(after.apitokens) == {"r", "t"}
    for noun, value in both("g9") if missing else ():
        with pytest.raises(errors.NotFoundError, match=f"{noun}: no such {missing}"):
            before.apply(build.put(value), serial=2)

import msgspec
import pytest
from tests.state import build

from gantry import errors
from gantry.model import cluster, network
from gantry.state import snapshot


def state(*more: snapshot.Stored) -> snapshot.Snapshot:
    return snapshot.Snapshot().apply([*build.FIRST, *build.put(*more)], serial=1)


def test_an_instance_is_found_by_all_that_it_holds_and_by_nothing_afterwards() -> None:
    empty = state()
    full = empty.apply(build.put(build.vm(1, ip="10.0.0.1")), serial=2)
    assert full.instance("inst1").uuid == "i1"
    assert full.addresses["net", "10.0.0.1"] == ("i1", "x1")
    assert full.macs["aa:00:00:000001"] == "i1"
    assert set(full.on_node["n0"]) == set(full.in_network["net"]) == {"i1"}
    assert build.content(full.apply([snapshot.Delete("instances", "i1")], serial=1)) == build.content(empty)
    assert build.content(empty)["serial"] == 1


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
}


@pytest.mark.parametrize("message", BROKEN)
def test_what_would_break_an_invariant_is_refused(message: str) -> None:
    before = state(build.vm(1, ip="10.0.0.1"))
    with pytest.raises(errors.GantryError, match=message):
        before.apply(build.put(BROKEN[message]), serial=2)


@pytest.mark.parametrize(
    ("kind", "key", "message"),
    [
        ("nodes", "n0", "node is in use by instance inst1"),
        ("networks", "net", "network is in use by instance inst1"),
        ("nodegroups", "g", "node group is in use by node node0, node1, node2"),
        ("instances", "i9", "no such object in instances: i9"),
    ],
)
def test_what_others_need_is_not_deleted(kind: str, key: str, message: str) -> None:
    before = state(build.vm(1))
    with pytest.raises(errors.PrerequisiteError, match=message):
        before.apply([snapshot.Delete(kind, key)], serial=2)


def test_a_job_number_is_never_forgotten() -> None:
    before = state(build.queued(5))
    after = before.apply([snapshot.Delete("jobs", "5")], serial=2)
    assert after.last_job == 5
    assert "5" not in after.jobs

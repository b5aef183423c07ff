import msgspec
import pytest
from tests.state import build

import gantry
from gantry.model import cluster, network
from gantry.rpc import calls
from gantry.state.objects import snapshot, ssconf


def state(*more: snapshot.Change) -> snapshot.Snapshot:
    return snapshot.Snapshot().apply([*build.FIRST, *more], serial=1)


def test_the_files_show_the_cluster_as_the_contract_says() -> None:
    offline = msgspec.structs.replace(build.node(2), offline=True, master_candidate=False, secondary_ip="198.51.100.3")
    tagged = msgspec.structs.replace(build.OWNER, tags=("b", "a"), hvparams={"kvm": {"kernel_path": "/k"}})
    before = state(*build.put(build.vm(2), build.vm(1)))
    files = ssconf.values(before.apply(build.put(offline, tagged), serial=2))
    hypervisor = files.pop("hvparams_kvm")
    assert "kernel_path=/k\n" in hypervisor
    assert "acpi=True\n" in hypervisor
    assert files == {
        "cluster_name": "cl.example.com\n",
        "cluster_tags": "a\nb\n",
        "release_version": f"{gantry.__version__}\n",
        "master_node": "node0\n",
        "master_ip": "192.0.2.1\n",
        "master_netdev": "eth0\n",
        "master_candidates": "node0\nnode1\n",
        "master_candidates_ips": "192.0.2.1\n192.0.2.2\n",
        "master_candidates_certs": "",
        "node_certs": "",
        "revoked_certificates": "",
        "node_list": "node0\nnode1\nnode2\n",
        "node_primary_ips": "node0 192.0.2.1\nnode1 192.0.2.2\nnode2 192.0.2.3\n",
        "node_secondary_ips": "node0 192.0.2.1\nnode1 192.0.2.2\nnode2 198.51.100.3\n",
        "node_ports": "node0 1811\nnode1 1811\nnode2 1811\n",
        "node_vm_capable": "node0=True\nnode1=True\nnode2=True\n",
        "offline_nodes": "node2\n",
        "online_nodes": "node0\nnode1\n",
        "instance_list": "inst1\ninst2\n",
        "hypervisor_list": "kvm\n",
        "disk_templates": "file\ndiskless\n",
        "node_groups": "node0 g\nnode1 g\nnode2 g\n",
        "nodegroup_links": "",
        "nodegroups": "g default\n",
        "networks": "net net1\n",
    }


def test_the_files_have_the_bridges_and_devices_that_networks_of_a_group_use() -> None:
    segment = network.Segment(network_type="vlan", physical_network="p", segmentation_id=7)
    vlan = network.Network(uuid="net2", name="net2", segment=segment)
    routed = network.Network(uuid="net3", name="net3")
    plugs = {
        "net": cluster.Connection(mode="bridged", link="br0"),
        "net2": cluster.Connection(mode="bridged", link="eth1"),
        "net3": cluster.Connection(mode="routed", link="100"),
    }
    group = msgspec.structs.replace(build.GROUP, networks=plugs)
    files = ssconf.values(state().apply(build.put(vlan, routed, group), serial=2))
    assert files["nodegroup_links"] == "g bridge br0\ng device eth1\n"


def test_the_files_have_the_keys_of_nodes_and_the_revoked_certificates() -> None:
    keys = {number: cluster.Certificate(keys=(f"k{number}",)) for number in range(3)}
    changing = cluster.Certificate(keys=("k0", "next"))
    keyed = [msgspec.structs.replace(build.node(number), certificate=keys[number]) for number in range(1, 3)]
    master = msgspec.structs.replace(build.node(0), certificate=changing)
    demoted = msgspec.structs.replace(keyed[1], master_candidate=False)
    revoked = tuple(cluster.Revoked(serial=serial, end=1.0) for serial in ("b", "d", "a", "c"))
    owner = msgspec.structs.replace(build.OWNER, revoked=revoked)
    changes = build.put(owner, master, keyed[0], demoted)
    present = state().apply(changes, serial=2)
    files = ssconf.values(present)
    uuids = [node.uuid for node in (master, *keyed)]
    assert files["master_candidates_certs"] == f"{uuids[0]}=k0\n{uuids[0]}=next\n{uuids[1]}=k1\n"
    assert files["node_certs"] == files["master_candidates_certs"] + f"{uuids[2]}=k2\n"
    assert files["revoked_certificates"] == "a\nb\nc\nd\n"
    assert ssconf.master(present)["master_candidates_certs"]


def test_the_lines_that_change_are_sorted_and_new_and_equal_files_have_none() -> None:
    before = {"node_list": "n1\nn2\nn3\nn4\n", "master_node": "n1\n"}
    after = {"node_list": "n9\nn1\nn8\nn7\nn6\nn4\n", "master_node": "n1\n", "node_certs": "k\n"}
    (change,) = ssconf.line_changes(before, after).items()
    assert change == ("node_list", calls.LineChange(removed=("n2", "n3"), added=("n6", "n7", "n8", "n9")))


def affected(*changes: snapshot.Change) -> bool:
    before = state(*build.put(build.vm(1), build.queued(1)))
    return ssconf.affects(before, before.apply(changes, serial=2), changes)


def test_what_the_files_do_not_show_distributes_nothing() -> None:
    assert not affected(*build.put(build.queued(1), build.queued(2)))
    assert not affected(*build.put(build.vm(1, ip="10.0.0.9")))
    assert not affected(*build.put(msgspec.structs.replace(build.node(1), accelerator="tcg")))
    assert not affected(*build.put(msgspec.structs.replace(build.NET, tags=("x",))))


def test_what_the_files_show_is_distributed() -> None:
    assert affected(*build.put(build.vm(2)))
    assert affected(snapshot.Delete("instances", "i1"))
    assert affected(*build.put(msgspec.structs.replace(build.vm(1), name="other")))
    assert affected(*build.put(msgspec.structs.replace(build.node(1), offline=True)))
    assert affected(*build.put(msgspec.structs.replace(build.NET, name="net2")))
    assert affected(*build.put(msgspec.structs.replace(build.OWNER, tags=("x",))))


SEGMENT = network.Segment(network_type="vlan", physical_network="p", segmentation_id=7)
CONNECTED = msgspec.structs.replace(build.GROUP, networks={"net": cluster.Connection(mode="bridged", link="br0")})
STORED: dict[str, cluster.Node | cluster.NodeGroup | network.Network] = {
    "nodes": build.node(1),
    "nodegroups": CONNECTED,
    "networks": build.NET,
}
OTHER_VALUES = {
    "nodes": (
        *(("name", "other"), ("primary_ip", "192.0.2.99"), ("secondary_ip", "198.51.100.99"), ("port", 99)),
        *(("group", "g2"), ("certificate", cluster.Certificate(keys=("k",)))),
        *((flag, True) for flag in ("offline", "drained")),
        *((flag, False) for flag in ("master_candidate", "vm_capable")),
    ),
    "nodegroups": (
        *(("name", "other"), ("networks", {})),
        ("networks", {"net": cluster.Connection(mode="bridged", link="br1")}),
        ("networks", {"net": cluster.Connection(mode="routed", link="br0")}),
    ),
    "networks": (("name", "other"), ("segment", SEGMENT)),
}
"""Other values of each field that a file shows."""


@pytest.mark.parametrize(
    ("kind", "field", "value"), [(kind, *other) for kind, values in OTHER_VALUES.items() for other in values]
)
def test_each_change_of_a_file_is_distributed(kind: str, field: str, value: object) -> None:
    before = state(*build.put(cluster.NodeGroup(uuid="g2", name="g2"))).apply(build.put(CONNECTED), serial=2)
    stored = STORED[kind]
    changes = build.put(msgspec.structs.replace(stored, **{field: value}))
    after = before.apply(changes, serial=3)
    assert ssconf.values(before) != ssconf.values(after)
    assert ssconf.affects(before, after, changes)

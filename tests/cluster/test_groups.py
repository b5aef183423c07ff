"""Node groups in a cluster of real daemons: commands, fields, and effects on instances."""

from collections.abc import Iterator

import pytest
import yaml
from tests.cluster import lab

# The gate has the same rules in tests/operations/group, without daemons.
pytestmark = pytest.mark.slow

ADD = ("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start")


@pytest.fixture(scope="module")
def cluster() -> Iterator[lab.Lab]:
    """Two nodes in the default group, and one that joined another."""
    with lab.lab() as group_lab:
        group_lab.init()
        group_lab.add_node()
        group_lab.run("gnt-group", "add", "--node-parameters", "cpu_speed=1.5", "rack2")
        node = group_lab.add_machine()
        where = ("--primary-ip", "127.0.0.1", "--port", node.port, "-g", "rack2", "--node-parameters", "ssh_port=2222")
        group_lab.run("gnt-node", "add", "--join-token-file", node.root / "lib/join-token", *where, node.name)
        yield group_lab


def _members(cluster: lab.Lab) -> dict[str, str]:
    return dict(map(tuple, cluster.rows("gnt-node", "name,group")))  # type: ignore[arg-type]


def test_a_node_joins_a_group_and_has_its_parameters_and_its_own(cluster: lab.Lab) -> None:
    assert _members(cluster) == {"node1": "default", "node2": "default", "node3": "rack2"}
    fields = "name,ndp/cpu_speed,ndp/ssh_port"
    assert cluster.rows("gnt-node", fields) == [
        ["node1", "1.0", "22"],
        ["node2", "1.0", "22"],
        ["node3", "1.5", "2222"],
    ]
    assert cluster.rows("gnt-group", "name,node_list,ndp/cpu_speed") == [
        ["default", "node1,node2", "1.0"],
        ["rack2", "node3", "1.5"],
    ]
    (info,) = yaml.safe_load(cluster.run("gnt-group", "info", "rack2").stdout)
    assert info["own node parameters"] == {"cpu_speed": 1.5}
    assert info["instance policy"]["std"]["disk-size"] == 1024
    assert info["own instance policy"] == {}
    cluster.run("gnt-group", "add-tags", "rack2", "cold")
    assert cluster.run("gnt-group", "list-tags", "rack2").stdout == "cold\n"
    cluster.run("gnt-group", "remove-tags", "rack2", "cold")


def test_groups_are_created_renamed_filled_emptied_and_removed(cluster: lab.Lab) -> None:
    cluster.run("gnt-group", "add", "--alloc-policy", "unallocable", "rack3")
    cluster.run("gnt-group", "rename", "rack3", "cellar")
    cluster.run("gnt-group", "assign-nodes", "cellar", "node2", "node3")
    assert _members(cluster) == {"node1": "default", "node2": "cellar", "node3": "cellar"}
    assert "node group cellar still has node node2, node3" in cluster.refused("gnt-group", "remove", "cellar")
    cluster.kill_master()
    cluster.start_master()
    assert cluster.rows("gnt-group", "alloc_policy,node_cnt", "cellar") == [["unallocable", "2"]]
    assert "it is unallocable, so the node must be specified" in cluster.refused(*ADD, "-g", "cellar", "vm.example")
    cluster.run(*ADD, "-n", "node2", "vm.example")
    assert cluster.rows("gnt-instance", "pnode.group") == [["cellar"]]
    cluster.run("gnt-instance", "remove", "-f", "vm.example")
    cluster.run("gnt-group", "assign-nodes", "default", "node2")
    cluster.run("gnt-group", "assign-nodes", "rack2", "node3")
    cluster.run("gnt-group", "remove", "cellar")
    assert cluster.rows("gnt-group", "name") == [["default"], ["rack2"]]
    cluster.verified()


def test_a_node_does_not_leave_the_networks_of_its_instances(cluster: lab.Lab) -> None:
    cluster.add_network()
    cluster.add_instance("nic.example", "--no-start")
    assign = ("gnt-group", "assign-nodes", "rack2", "node1")
    assert "network net1 of instance nic.example on node1 is not connected" in cluster.refused(*assign)
    cluster.run("gnt-network", "connect", "-N", "mode=routed,link=main", "net1", "rack2")
    cluster.run(*assign)
    cluster.run("gnt-group", "assign-nodes", "default", "node1")
    cluster.run("gnt-instance", "remove", "-f", "nic.example")
    cluster.run("gnt-network", "disconnect", "net1")
    cluster.run("gnt-network", "remove", "-f", "net1")


def test_a_policy_holds_at_creation_and_modification_unless_it_is_ignored(cluster: lab.Lab) -> None:
    cluster.run("gnt-cluster", "modify", "--ipolicy-bounds-specs", "max:memory-size=256,cpu-count=2")
    cluster.run("gnt-group", "modify", "--ipolicy-bounds-specs", "min:memory-size=512/max:memory-size=1g", "rack2")
    assert (
        "violates the instance policy of node group default: memory-size 300 is above the maximum 256"
        in cluster.refused(*ADD, "-n", "node1", "-B", "memory=300", "vm.example")
    )
    cluster.run(*ADD, "-B", "memory=512", "large.example")
    cluster.run(*ADD, "small.example")
    assert dict(map(tuple, cluster.rows("gnt-instance", "name,pnode.group"))) == {  # type: ignore[arg-type]
        "large.example": "rack2",
        "small.example": "default",
    }
    assert "no node can take the instance" in cluster.refused(*ADD, "-B", "memory=300", "vm.example")
    modify = ("gnt-instance", "modify", "-B", "vcpus=3", "small.example")
    assert "cpu-count 3 is above the maximum 2" in cluster.refused(*modify)
    cluster.run(*modify, "--ignore-ipolicy")
    cluster.run("gnt-instance", "modify", "-B", "auto_balance=no", "small.example")
    output = cluster.run("gnt-group", "modify", "--ipolicy-bounds-specs", "max:memory-size=100", "default").stdout
    assert "instance small.example does not fit" not in output
    assert cluster.rows("gnt-instance", "status", "small.example") == [["ADMIN_down"]]
    for name in ("large.example", "small.example"):
        cluster.run("gnt-instance", "remove", "-f", name)
    cluster.run("gnt-cluster", "modify", "--ipolicy-bounds-specs", "default")
    for group in ("default", "rack2"):
        cluster.run("gnt-group", "modify", "--ipolicy-bounds-specs", "default", group)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("gnt-group add default", "node group default exists already"),
        ("gnt-group add --node-parameters cpu_sped=1 new", "unknown node parameter cpu_sped; did you mean cpu_speed?"),
        ("gnt-group modify default", "no change of node group default was requested"),
        ("gnt-group modify --alloc-policy preferred nowhere", "no such node group: nowhere; gnt-group list"),
        ("gnt-group modify -D plain:strips=2 default", "did you mean stripes?"),
        ("gnt-group modify --ipolicy-bounds-specs min:cpu-count=3/max:cpu-count=2 default", "is above the maximum, 2"),
        ("gnt-group modify --ipolicy-disk-templates fil default", "unknown disk template fil; did you mean file?"),
        ("gnt-group assign-nodes default node9", "no such node: node9"),
        ("gnt-group assign-nodes nowhere node2", "no such node group: nowhere"),
        ("gnt-group rename default rack2", "node group rack2 exists already"),
        ("gnt-group remove default", "node group default still has node node1"),
    ],
)
def test_what_cannot_be_is_one_line_and_changes_nothing(cluster: lab.Lab, line: str, complaint: str) -> None:
    before = cluster.run("gnt-group", "info").stdout
    assert complaint in cluster.refused(*line.split())
    assert cluster.run("gnt-group", "info").stdout == before

"""The cluster that an import makes: its master, its other nodes, its instances."""

import msgspec
import pytest
from msgspec import structs
from tests.state.upgrade import samples

from gantry import errors
from gantry.mastership import ganeti_import
from gantry.model import cluster, instance
from gantry.state.upgrade import configuration, files

SOURCE = ganeti_import.Source(path="/old/config.data", port=1812)


def plan(**fields: object) -> ganeti_import.Plan:
    upgraded = configuration.upgrade(samples.V3, path=SOURCE.path, storage="/srv/gantry/file-storage")
    old = files.Old(upgraded.version, upgraded.objects, ("a remark",), 77)
    return ganeti_import.plan(old, structs.replace(SOURCE, **fields), now=5.0)


@pytest.mark.parametrize(
    ("name", "master"),
    [("", "node1.example.com"), ("node2.example.com", "node2.example.com"), ("node3", "node3.example.com")],
)
def test_the_machine_becomes_the_master_and_the_only_candidate(name: str, master: str) -> None:
    imported = plan(node_name=name)
    nodes = {value.name: value for value in imported.objects if isinstance(value, cluster.Node)}
    owner = next(value for value in imported.objects if isinstance(value, cluster.Cluster))
    assert (imported.master, owner.master_node) == (nodes[master], nodes[master].uuid)
    assert [node.name for node in nodes.values() if node.master_candidate] == [master]
    assert {node.port for node in nodes.values()} == {1812}
    assert [node.name for node in nodes.values() if not node.joining] == [master]
    assert nodes[master].role(owner) is cluster.Role.MASTER
    assert not nodes[master].offline


def test_no_instance_is_up_because_its_old_guest_may_still_run() -> None:
    imported = plan()
    states = {value.name: value.admin_state for value in imported.objects if isinstance(value, instance.Instance)}
    assert set(states.values()) == {instance.AdminState.DOWN, instance.AdminState.OFFLINE}
    assert imported.lines == (
        "cluster cluster.example.com of version 3000000: 3 nodes, 3 instances; its master becomes node1.example.com",
        "job numbers continue after 77",
        "a remark",
        "down until you start them, in case Ganeti's guests still run: web.example.com",
    )


def test_a_machine_that_is_none_of_the_nodes_is_refused() -> None:
    with pytest.raises(errors.NotFoundError, match=r"no node node9; its nodes are node1\.example\.com, node2"):
        plan(node_name="node9")


@pytest.mark.parametrize("data", [b"", b"{}", b'{"path": 1}', b'{"path": "/x", "port": 0}', b'{"path": "/x", "a": 1}'])
def test_a_document_that_is_not_valid_is_refused(data: bytes) -> None:
    with pytest.raises(errors.InvalidError, match="what to import is not valid"):
        ganeti_import.decode(data)
    assert ganeti_import.decode(msgspec.json.encode({"path": "/x"})).port == 1811

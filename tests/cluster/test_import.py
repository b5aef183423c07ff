"""A cluster of Ganeti becomes one of Gantry: its configuration is imported, and its nodes join again."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.cluster import lab
from tests.state.upgrade import samples

# The conversion itself is tested in tests/state/upgrade, within the gate; its test with daemons is among the slowest.
pytestmark = pytest.mark.slow

ADDRESSES = {"node1.example.com": "127.0.0.1", "node2.example.com": "127.0.0.2", "node3.example.com": "127.0.0.3"}


def _configuration() -> bytes:
    """Return a configuration of Ganeti 3.0 whose nodes have addresses of this machine."""
    tree = msgspec.json.decode(samples.V3)
    for node in tree["nodes"].values():
        node["primary_ip"] = ADDRESSES[node["name"]]
    return msgspec.json.encode(tree)


@pytest.fixture
def machines() -> Iterator[lab.Lab]:
    """Three machines with node daemons at one port of three addresses, and Ganeti's files beside them."""
    with lab.lab() as cluster_lab:
        first = cluster_lab.add_machine()
        for address in ("127.0.0.2", "127.0.0.3"):
            node = cluster_lab.add_machine()
            node.stop()
            (node.root / "lib/join-token").unlink()
            node.address, node.port = address, first.port
            node.start()
        _write_files_of_ganeti(cluster_lab)
        yield cluster_lab


def _write_files_of_ganeti(cluster_lab: lab.Lab) -> Path:
    """Write configuration and queue of a cluster of Ganeti; return the path of the configuration."""
    folder = cluster_lab.folder / "ganeti"
    (folder / "queue").mkdir(parents=True)
    (folder / "config.data").write_bytes(_configuration())
    (folder / "queue/serial").write_text("500\n")
    return folder / "config.data"


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_cluster_of_ganeti_is_imported_and_its_nodes_join_again(machines: lab.Lab) -> None:
    old = machines.folder / "ganeti"
    before = _files(old)
    words = ("gnt-cluster", "import", "--port", machines.nodes[0].port)
    dry = machines.run(*words, "--dry-run", old / "config.data").stdout
    assert "3 nodes, 3 instances; its master becomes node1.example.com" in dry
    assert not (machines.master / "lib/config.data").exists()

    printed = machines.run(*words, old / "config.data").stdout
    assert "down until you start them, in case Ganeti's guests still run: web.example.com" in printed
    assert "The cluster cluster.example.com is up; node1.example.com is its master" in printed
    assert "  gnt-node add --readd node2.example.com\n  gnt-node add --readd node3.example.com\n" in printed
    assert _files(old) == before
    names = ["db.example.com", "probe.example.com", "web.example.com"]
    assert machines.rows("gnt-instance", "name") == [[name] for name in names]
    assert machines.rows("gnt-instance", "admin_state", "web.example.com") == [["down"]]
    assert min(int(row[0]) for row in machines.rows("gnt-job", "id")) == 501

    for node in machines.nodes[1:]:
        full = f"{node.name}.example.com"
        machines.run("gnt-node", "add", "--readd", "--join-token-file", node.root / "lib/join-token", full)
    assert machines.rows("gnt-node", "name,role,offline") == [
        ["node1.example.com", "M", "N"],
        ["node2.example.com", "C", "N"],
        ["node3.example.com", "C", "N"],
    ]
    lab.wait_until(lambda: (machines.nodes[2].root / "lib/config.data").exists(), "the copy of the state")
    machines.run("gnt-cluster", "master-failover", on=machines.nodes[1])


@pytest.mark.slow
def test_an_import_that_is_refused_changes_nothing() -> None:
    with lab.lab() as machine:
        machine.add_machine()
        old = _write_files_of_ganeti(machine)
        assert "cannot read" in machine.refused("gnt-cluster", "import", machine.folder / "none")
        assert "no node node9; its nodes are" in machine.refused("gnt-cluster", "import", "--node-name", "node9", old)
        old.write_bytes(b"{}")
        assert "is not a configuration of Ganeti 2.0 to 3.1" in machine.refused("gnt-cluster", "import", old)
        old.write_bytes(_configuration().replace(b'"fake"', b'"lxc"'))
        refusal = machine.refused("gnt-cluster", "import", old, code=2)
        assert "lxc does not exist here: instance probe" in refusal
        assert not (machine.master / "lib/config.data").exists()
        assert (machine.master / "lib/join-token").exists()

"""The flags of nodes on real daemons: who keeps the state, who is called, and what shows it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import lab, test_rapi


def _roles(cluster: lab.Lab) -> str:
    return "".join(role for _, role in sorted(map(tuple, cluster.rows("gnt-node", "name,role"))))


def _keeps_state(node: lab.Node) -> bool:
    return (node.root / "lib/config.data").exists() and (node.root / "lib/certs/authority.key").exists()


def _keeps_nothing(node: lab.Node) -> bool:
    folders = ("config.data", "journal", "queue/serial", "certs/authority.key")
    return not any((node.root / "lib" / name).exists() for name in folders)


@pytest.fixture(scope="module")
def three() -> Iterator[lab.Lab]:
    """Node 1 is the master, 2 a candidate, 3 a regular node: the pool takes two."""
    with lab.lab() as cluster_lab:
        cluster_lab.init("-C", "2")
        cluster_lab.add_node()
        cluster_lab.add_node()
        yield cluster_lab


def _reset(cluster: lab.Lab) -> None:
    if _roles(cluster) != "MCR":
        cluster.run("gnt-node", "modify", "-O", "no", "-D", "no", "--master-capable", "yes", "node2")
        cluster.run("gnt-node", "modify", "-O", "no", "-D", "no", "--master-capable", "yes", "node3")
    if _roles(cluster) == "MRC":
        cluster.run("gnt-node", "modify", "-C", "no", "-f", "node3")
    lab.wait_until(lambda: _roles(cluster) == "MCR", "the roles of the beginning")


@pytest.mark.slow
@pytest.mark.promise("cluster-81", "cluster-86")
def test_only_candidates_keep_the_state_and_the_key(three: lab.Lab) -> None:
    _reset(three)
    lab.wait_until(lambda: _keeps_state(three.nodes[1]), "the copy")
    assert _keeps_nothing(three.nodes[2])
    assert (three.nodes[2].root / "lib/ssconf/ssconf_master_node").read_text() == "node1\n"


@pytest.mark.promise("cluster-83", "cluster-87", "cluster-89", "cluster-90", "cluster-91", "cluster-97")
@pytest.mark.slow
def test_an_offline_candidate_is_replaced_left_alone_shown_and_comes_back(three: lab.Lab) -> None:
    _reset(three)
    output = three.run("gnt-node", "modify", "-O", "yes", "node2").stdout
    assert "node3 becomes a master candidate" in output
    assert _roles(three) == "MOC"
    lab.wait_until(lambda: _keeps_state(three.nodes[2]), "the copy of the other node")
    assert _keeps_nothing(three.nodes[1])
    # not called: its daemon is down, and nothing waits for it or complains
    three.nodes[1].stop()
    verified = three.verified()
    assert "1 offline node(s) found" in verified.partition("* Other Notes")[2]
    refused = three.refused("gnt-instance", "add", "-t", "diskless", "--no-nics", "-n", "node2", "vm.example")
    assert "offline" in refused
    assert "cannot be reached" in three.run("gnt-node", "modify", "-O", "no", "node2", check=False).stderr
    three.nodes[1].start()
    three.run("gnt-node", "modify", "-O", "no", "node2")
    assert _roles(three) == "MRC"
    names = three.nodes[1].root / "lib/ssconf/ssconf_master_candidates"
    lab.wait_until(lambda: names.read_text().split() == ["node1", "node3"], "its files")
    three.verified()


@pytest.mark.promise("cluster-88", "cluster-95", "cluster-96")
def test_a_drained_node_keeps_its_instances_and_gets_no_others(three: lab.Lab) -> None:
    _reset(three)
    add = ("gnt-instance", "add", "-t", "diskless", "--no-nics")
    three.run(*add, "-n", "node3", "old.example")
    try:
        assert "primary node of instance old.example" in three.refused("gnt-node", "modify", "-O", "yes", "node3")
        three.run("gnt-node", "modify", "-D", "yes", "node3")
        assert _roles(three) == "MCD"
        three.run("gnt-instance", "reboot", "-t", "hard", "old.example")
        assert "drained" in three.refused(*add, "-n", "node3", "new.example")
        assert "1 drained node(s) found" in three.verified()
        assert "exclude each other" in three.refused("gnt-node", "modify", "-C", "yes", "-D", "yes", "node2")
        assert "is the master" in three.refused("gnt-node", "modify", "-D", "yes", "node1")
    finally:
        three.run("gnt-instance", "remove", "-f", "old.example")


def test_a_dry_run_says_what_would_become_of_the_node(three: lab.Lab) -> None:
    _reset(three)
    output = three.run("gnt-node", "modify", "--dry-run", "-D", "yes", "node2").stdout
    assert "drained of node node2 becomes yes" in output
    assert _roles(three) == "MCR"


def test_files_that_were_lost_or_changed_come_by_redist_conf(three: lab.Lab) -> None:
    _reset(three)
    (three.master / "lib/users").write_text("alice:$2y$10$hash\n")
    name = three.nodes[2].root / "lib/ssconf/ssconf_cluster_name"
    name.unlink()
    key = three.nodes[1].root / "lib/certs/authority.key"
    key.unlink()
    three.run("gnt-cluster", "redist-conf")
    assert name.read_text() == "lab.example\n"
    assert key.exists()
    copies = [node.root / "lib/users" for node in three.nodes]
    assert [copy.exists() for copy in copies] == [True, True, False]
    assert copies[1].read_text() == "alice:$2y$10$hash\n"
    assert copies[1].stat().st_mode & 0o777 == 0o600


def _allocator(cluster: lab.Lab) -> Path:
    """Install an allocator that keeps its request and chooses the master; return the file of the request."""
    request, program = cluster.folder / "request.json", cluster.master / "srv/iallocators/keeps"
    program.parent.mkdir(parents=True, exist_ok=True)
    answer = '{"success": true, "info": "", "result": ["node1"]}'
    program.write_text(f"#!/bin/sh\ncp \"$1\" {request}\necho '{answer}'\n")
    program.chmod(0o755)
    return request


@pytest.mark.slow
@pytest.mark.promise("cluster-98")
def test_allocators_the_remote_api_and_other_programs_get_the_flags(three: lab.Lab) -> None:
    _reset(three)
    request = _allocator(three)
    names = ("drained", "master_candidate", "master_capable", "offline", "vm_capable")

    def request_of_allocator() -> dict[str, list[bool]]:
        """Return the flags of each node as the allocator got them."""
        add = ("gnt-instance", "add", "-t", "diskless", "--no-nics", "-I", "keeps", "flags.example")
        three.run(*add)
        three.run("gnt-instance", "remove", "-f", "flags.example")
        nodes = json.loads(request.read_text())["nodes"]
        return {name: [node[flag] for flag in names] for name, node in nodes.items()}

    with test_rapi.served(three) as remote:

        def flags() -> dict[str, list[bool]]:
            """Return the flags of each node, which all programs must agree on."""
            rows = remote.ask("GET", "/2/nodes?bulk=1").value
            assert isinstance(rows, list)
            by_name = {row["name"]: [row[flag] for flag in names] for row in rows}
            single = {name: remote.ask("GET", f"/2/nodes/{name}").value for name in by_name}
            assert {
                name: [row[flag] for flag in names] for name, row in single.items() if isinstance(row, dict)
            } == by_name
            with three.luxi() as luxi:
                values = luxi.value("QueryNodes", [], ["name", *names], False)
            assert json.loads(json.dumps(values)) == [[name, *by_name[name]] for name in sorted(by_name)]
            return by_name

        regular = [False, False, True, False, True]
        assert request_of_allocator() == flags()
        assert flags()["node3"] == regular
        three.run("gnt-node", "modify", "-D", "yes", "node2")
        three.run("gnt-node", "modify", "--vm-capable", "no", "node3")
        assert request_of_allocator() == flags()
        drained, candidate = [True, False, True, False, True], [False, True, True, False, True]
        assert flags() == {"node1": candidate, "node2": drained, "node3": [False, True, True, False, False]}
        assert remote.ask("GET", "/2/nodes/node2/role").value == "drained"
        three.run("gnt-node", "modify", "-D", "no", "node2")
        three.run("gnt-node", "modify", "--vm-capable", "yes", "node3")
        three.run("gnt-node", "modify", "-O", "yes", "node2")
        assert request_of_allocator() == flags()
        assert flags()["node2"] == [False, False, True, True, True]
        assert remote.ask("GET", "/2/nodes/node2/role").value == "offline"

"""Instances that go to other nodes, over real daemons with guests of the fake hypervisor."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import lab

HAIL = Path("/usr/lib/ganeti/iallocators/hail")


@pytest.fixture(scope="module")
def three() -> Iterator[lab.Lab]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        cluster_lab.add_node()
        cluster_lab.run("gnt-cluster", "modify", "--enabled-disk-templates", "file,diskless,sharedfile")
        yield cluster_lab


@pytest.fixture
def vm(three: lab.Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name.replace("_", "-")[:60].rstrip("-")
    three.run("gnt-instance", "add", "-t", "diskless", "-n", "node1", "--no-nics", name)
    yield name
    three.run("gnt-instance", "remove", "-f", "--ignore-failures", name)


def where(cluster_lab: lab.Lab, name: str) -> list[str]:
    """Return the nodes whose own files say that a guest is there, and in which state."""
    guests = []
    for node in cluster_lab.nodes:
        file = node.root / "run/instances/fake" / name
        if file.exists():
            guests.append(f"{node.name} {json.loads(file.read_text())['running']['state']}")
    return guests


def primary(cluster_lab: lab.Lab, name: str) -> str:
    return cluster_lab.rows("gnt-instance", "pnode", name)[0][0]


def test_a_migrated_instance_runs_on_the_other_node_alone(three: lab.Lab, vm: str) -> None:
    output = three.run("gnt-instance", "migrate", "-f", "-n", "node2", vm).stdout
    assert "MiB" in output
    assert (primary(three, vm), where(three, vm)) == ("node2", ["node2 running"])


def test_an_instance_fails_over_to_any_node_that_reaches_its_disks(three: lab.Lab, vm: str) -> None:
    three.run("gnt-instance", "failover", "-f", "-n", "node3", vm)
    assert (primary(three, vm), where(three, vm)) == ("node3", ["node3 running"])


def test_the_allocator_says_why_it_takes_a_node(three: lab.Lab, vm: str) -> None:
    output = three.run("gnt-instance", "failover", "--dry-run", vm).stdout
    assert "the allocator chose node" in output
    assert (primary(three, vm), where(three, vm)) == ("node1", ["node1 running"])
    assert "the allocator chose node" in three.run("gnt-instance", "failover", "-f", vm).stdout
    assert where(three, vm) == [f"{primary(three, vm)} running"]


def test_an_instance_that_is_down_changes_its_node_and_stays_down(three: lab.Lab, vm: str) -> None:
    three.run("gnt-instance", "stop", vm)
    assert "is not running" in three.refused("gnt-instance", "migrate", "-f", "-n", "node2", vm)
    three.run("gnt-instance", "migrate", "-f", "--allow-failover", "-n", "node2", vm)
    assert (primary(three, vm), where(three, vm)) == ("node2", [])


@pytest.mark.promise("cluster-87", "cluster-95")
@pytest.mark.parametrize(
    ("flag", "why"),
    [("--drained", "is drained"), ("--offline", "is offline"), ("--vm-capable", "is not vm_capable")],
)
def test_a_node_that_takes_no_instances_is_refused_and_nothing_changes(
    three: lab.Lab, vm: str, flag: str, why: str
) -> None:
    on, off = ("no", "yes") if flag == "--vm-capable" else ("yes", "no")
    three.run("gnt-node", "modify", flag, on, "-f", "node3")
    try:
        for verb in ("failover", "migrate"):
            assert why in three.refused("gnt-instance", verb, "-f", "-n", "node3", vm)
    finally:
        three.run("gnt-node", "modify", flag, off, "-f", "node3")
    assert (primary(three, vm), where(three, vm)) == ("node1", ["node1 running"])


def test_unknown_nodes_instances_and_allocators_are_refused_in_one_line(three: lab.Lab, vm: str) -> None:
    assert "node9" in three.refused("gnt-instance", "migrate", "-f", "-n", "node9", vm)
    assert "vm9" in three.refused("gnt-instance", "failover", "-f", "vm9")
    assert "no such allocator: missing" in three.refused("gnt-instance", "failover", "-f", "-I", "missing", vm)
    assert "already" in three.refused("gnt-instance", "failover", "-f", "-n", "node1", vm)
    assert where(three, vm) == ["node1 running"]


def test_a_node_without_room_is_refused(three: lab.Lab, vm: str) -> None:
    three.run("gnt-instance", "modify", "-B", "memory=4t", "--ignore-ipolicy", vm)
    assert "MiB are free" in three.refused("gnt-instance", "failover", "-f", "-n", "node2", vm)
    assert "MiB are free" in three.refused("gnt-instance", "failover", "-f", vm)
    assert where(three, vm) == ["node1 running"]


def test_disks_of_one_node_alone_are_copied_by_a_move(three: lab.Lab) -> None:
    three.run("gnt-instance", "add", *lab.instance_arguments(nics="mode=routed,link=main"), "mover")
    assert "gnt-instance move" in three.refused("gnt-instance", "migrate", "-f", "-n", "node2", "mover")
    files = (three.nodes[0].root / "srv/file-storage/mover").iterdir()
    (disk,) = [file for file in files if file.stat().st_size == 16 << 20]
    content = b"something that is kept" * 100
    with disk.open("r+b") as file:
        file.write(content)
    three.run("gnt-instance", "move", "-f", "-n", "node2", "mover")
    (copy,) = [path for path in (three.nodes[1].root / "srv/file-storage/mover").iterdir() if path.name == disk.name]
    assert copy.read_bytes().startswith(content)
    assert not disk.exists()
    assert (primary(three, "mover"), where(three, "mover")) == ("node2", ["node2 running"])
    three.run("gnt-instance", "remove", "-f", "mover")


def test_an_evacuated_node_has_no_instance_left_and_each_runs_once(three: lab.Lab) -> None:
    names = [f"evac{number}" for number in range(4)]
    for name in names:
        three.run("gnt-instance", "add", "-t", "diskless", "-n", "node3", "--no-nics", name)
    planned = three.run("gnt-node", "evacuate", "--dry-run", "-p", "node3").stdout
    assert all(name in planned for name in names)
    three.run("gnt-node", "evacuate", "-f", "-p", "node3")
    for name in names:
        assert where(three, name) == [f"{primary(three, name)} running"]
        assert primary(three, name) != "node3"
    for name in names:
        three.run("gnt-instance", "remove", "-f", name)


@pytest.mark.promise("cluster-154")
def test_an_evacuation_is_made_of_parts_with_locks_of_their_own(three: lab.Lab) -> None:
    names = ("slow", "swift")
    for name in names:
        three.run("gnt-instance", "add", "-t", "diskless", "-n", "node3", "--no-nics", name)
    gate = three.folder / "gate"
    hook = three.master / "etc/hooks/instance-migrate-pre.d/10-gate"
    hook.parent.mkdir(parents=True)
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    hook.write_text(f'#!/bin/sh\n[ "$GANETI_INSTANCE_NAME" != slow ] || {wait}\n')
    hook.chmod(0o755)
    try:
        three.run("gnt-node", "evacuate", "-f", "-p", "--submit", "node3")
        lab.wait_until(lambda: primary(three, "swift") != "node3", "the move that nothing holds up")
        three.run("gnt-instance", "reboot", "swift")
        assert where(three, "slow") == ["node3 running"]
        gate.touch()
        lab.wait_until(lambda: primary(three, "slow") != "node3", "the move that waited for its hook")
    finally:
        gate.touch()
        hook.unlink()
        for name in names:
            three.run("gnt-instance", "remove", "-f", name)


def test_an_instance_whose_disks_are_on_one_node_stays_and_is_named(three: lab.Lab) -> None:
    three.run("gnt-instance", "add", *lab.instance_arguments(nics="mode=routed,link=main"), "stayer")
    done = three.run("gnt-node", "evacuate", "-f", "-p", "node1", check=False)
    assert done.returncode == 1
    assert "stayer stays" in done.stdout + done.stderr
    assert where(three, "stayer") == ["node1 running"]
    three.run("gnt-instance", "remove", "-f", "stayer")


def test_all_that_runs_on_a_node_is_migrated_or_failed_over(three: lab.Lab) -> None:
    for name in ("many1", "many2"):
        three.run("gnt-instance", "add", "-t", "diskless", "-n", "node2", "--no-nics", name)
    three.run("gnt-node", "migrate", "-f", "-n", "node3", "node2")
    assert [where(three, name) for name in ("many1", "many2")] == [["node3 running"]] * 2
    three.run("gnt-node", "failover", "-f", "node3")
    assert [where(three, name) for name in ("many1", "many2")] == [
        [f"{primary(three, name)} running"] for name in ("many1", "many2")
    ]
    for name in ("many1", "many2"):
        three.run("gnt-instance", "remove", "-f", name)


def test_an_instance_changes_its_node_group(three: lab.Lab, vm: str) -> None:
    assert "no other node group" in three.refused("gnt-instance", "change-group", vm)
    three.run("gnt-group", "add", "far")
    three.run("gnt-group", "assign-nodes", "far", "node3")
    try:
        assert "already" in three.refused("gnt-instance", "change-group", "--to", "default", vm)
        three.run("gnt-instance", "change-group", "--to", "far", vm)
        assert (primary(three, vm), where(three, vm)) == ("node3", ["node3 running"])
        three.run("gnt-instance", "migrate", "-f", "-n", "node1", vm)
    finally:
        three.run("gnt-group", "assign-nodes", "--force", "default", "node3")
        three.run("gnt-group", "remove", "far")


@pytest.mark.slow
def test_a_node_group_is_emptied_into_another_one(three: lab.Lab) -> None:
    for name in ("many1", "many2"):
        three.run("gnt-instance", "add", "-t", "diskless", "-n", "node2", "--no-nics", name)
    three.run("gnt-instance", "add", *lab.instance_arguments(nics="mode=routed,link=main"), "stayer")
    assert "no other node group" in three.refused("gnt-group", "evacuate", "default")
    three.run("gnt-group", "add", "far")
    three.run("gnt-group", "assign-nodes", "far", "node3")
    try:
        assert "target node group default is already the node group of" in three.refused(
            "gnt-group", "evacuate", "--to", "default", "default"
        )
        assert "evacuate node group default" in three.run("gnt-group", "evacuate", "--dry-run", "default").stdout
        three.run("gnt-group", "evacuate", "--to", "far", "--sequential", "default")
        assert [where(three, name) for name in ("many1", "many2", "stayer")] == [["node3 running"]] * 3
        three.run("gnt-group", "evacuate", "--force-failover", "far")
        assert "node3" not in [primary(three, name) for name in ("many1", "many2", "stayer")]
    finally:
        for name in ("many1", "many2", "stayer"):
            three.run("gnt-instance", "remove", "-f", name)
        three.run("gnt-group", "assign-nodes", "default", "node3")
        three.run("gnt-group", "remove", "far")


def test_a_migration_whose_target_dies_leaves_the_instance_running_once(three: lab.Lab, vm: str) -> None:
    target = three.nodes[1]
    target.stop()
    try:
        assert "node2" in three.refused("gnt-instance", "migrate", "-f", "-n", "node2", vm)
        assert (primary(three, vm), where(three, vm)) == ("node1", ["node1 running"])
    finally:
        target.start()
    output = three.run("gnt-instance", "migrate", "--cleanup", vm).stdout
    assert f"instance {vm} is on node1" in output


def test_a_cleanup_lets_an_instance_go_on_that_stands_still_on_both_nodes(three: lab.Lab, vm: str) -> None:
    """What a master leaves that dies in the moment when all has arrived."""
    here, there = (node.root / "run/instances/fake" / vm for node in three.nodes[:2])
    there.parent.mkdir(parents=True, exist_ok=True)
    for file, state, status in ((there, "arrived", "none"), (here, "migrated", "completed")):
        guest = json.loads(here.read_text())
        guest["running"]["state"], guest["status"] = state, status
        file.write_text(json.dumps(guest))
    assert "interrupted" in three.refused("gnt-instance", "migrate", "-f", "-n", "node3", vm)
    output = three.run("gnt-instance", "migrate", "--cleanup", vm).stdout
    assert "was sent from here" in output
    assert (primary(three, vm), where(three, vm)) == ("node2", ["node2 running"])


@pytest.mark.skipif(not HAIL.exists(), reason="hail (Debian package ganeti-htools) is not installed")
def test_hail_decides_where_instances_go(three: lab.Lab, vm: str) -> None:
    three.run("gnt-cluster", "modify", "--default-iallocator", "hail")
    try:
        three.run("gnt-node", "evacuate", "-f", "-p", "node1")
        assert primary(three, vm) != "node1"
        output = three.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "chosen").stdout
        assert "allocator hail chose" in output
        three.run("gnt-instance", "remove", "-f", "chosen")
        assert where(three, vm) == [f"{primary(three, vm)} running"]
    finally:
        three.run("gnt-cluster", "modify", "--default-iallocator", "default")


def test_what_a_broken_allocator_says_is_refused_clearly(three: lab.Lab, vm: str) -> None:
    folder = three.master / "srv/iallocators"
    folder.mkdir(parents=True)
    scripts = {
        "fails": ("#!/bin/sh\necho no idea >&2; exit 3\n", "no idea"),
        "babbles": ("#!/bin/sh\necho hello\n", "is invalid"),
        "refuses": ('#!/bin/sh\necho \'{"success": false, "info": "full", "result": []}\'\n', "found no node: full"),
        "invents": ('#!/bin/sh\necho \'{"success": true, "info": "", "result": ["node7"]}\'\n', "node7"),
        "sticks": (
            '#!/bin/sh\necho \'{"success": true, "info": "", "result": ["node1"]}\'\n',
            'it begins with: {"success": true, "info": "", "result": ["node1"]}',
        ),
    }
    for name, (text, words) in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
        assert words in three.refused("gnt-instance", "failover", "-f", "-I", name, vm), name
    assert where(three, vm) == ["node1 running"]

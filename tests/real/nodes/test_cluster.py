"""Mirrored disks under a real master: every command that changes them, and what breaks, on nodes with LVM and DRBD.

The tests share a cluster and one guest, which each finds running on two of the three nodes (``vm``).
"""

import contextlib
import re
from collections.abc import Iterator

import pytest
from tests.cluster import lab as commands
from tests.real.nodes import cluster as clusters
from tests.real.nodes import lab, storage
from tests.real.nodes.cluster import Cluster, Guest
from tests.real.nodes.storage import GROUP

pytestmark = lab.NEEDS

LISTED = "lvs --noheadings --separator '|' -o lv_name,lv_tags,devices 2>/dev/null"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with clusters.up() as cluster:
        yield cluster


@pytest.fixture
def vm(cluster: Cluster) -> Guest:
    """A guest with one disk, as another test left it, or a new one."""
    guest = Guest(cluster, "vm1.example")
    known = [name for (name,) in cluster.rows("gnt-instance", "name")]
    if guest.name in known and guest.placement[2] == "running" and guest.is_whole():
        return guest
    if guest.name in known:
        guest.gnt("remove", "-f", "--ignore-failures")
    return guest.add("node1", "node2")


def minor(vm: Guest, node: str, disk: int = 0) -> str:
    """Return the minor of a disk on a node, as the configuration has it."""
    minors: list[str] = re.findall(rf"{node}, minor=(\d+)", vm.gnt("info"))
    return minors[disk]


def secret(vm: Guest, node: str, disk: int) -> str:
    """Return the secret that a node's kernel was given for a disk."""
    (shared_secret,) = re.findall(
        r'shared-secret\s+"(\w+)"', vm.cluster.node(node).sh(f"drbdsetup show {minor(vm, node, disk)}")
    )
    return str(shared_secret)


def three_nodes(vm: Guest) -> tuple[str, str, str]:
    """Return its primary node, its secondary one, and the third."""
    primary, secondary, _ = vm.placement
    (third,) = {node.name for node in vm.cluster.machines.nodes} - {primary, secondary}
    return primary, secondary, third


def lying(cluster: Cluster, node: str, name: str = "") -> dict[str, str]:
    """Return the logical volumes of a node, or those of one instance there, each with its physical volume."""
    rows = [line.split("|") for line in cluster.node(node).sh(LISTED).splitlines()]
    return {volume.strip(): devices.split("(")[0] for volume, tags, devices in rows if name in tags}


@contextlib.contextmanager
def extra(cluster: Cluster, name: str) -> Iterator[Guest]:
    """An instance that the test makes, and that is gone after it."""
    guest = Guest(cluster, name)
    try:
        yield guest
    finally:
        guest.gnt("remove", "-f", "--ignore-failures")
    assert not [lying(cluster, node.name, name) for node in cluster.machines.nodes if lying(cluster, node.name, name)]


@contextlib.contextmanager
def nearly_full(cluster: Cluster, name: str) -> Iterator[None]:
    """A node whose first physical volume has room for one small mirrored disk, not for two."""
    node = cluster.node(name)
    first, free = node.sh("pvs --noheadings --nosuffix --units m -o pv_name,pv_free").splitlines()[0].split()
    node.sh(f"lvcreate -qq -y -n filler -L {int(float(free)) - 200}M {GROUP} {first}")
    yield
    node.sh(f"lvremove -qq -y {GROUP}/filler")


@pytest.mark.promise("cluster-100", "cluster-104", "cluster-105", "cluster-110", "cluster-142")
def test_mirrored_disks_from_their_making_to_their_end(cluster: Cluster) -> None:
    with extra(cluster, "disks.example") as vm, nearly_full(cluster, "node1"), nearly_full(cluster, "node3"):
        vm.add("node1", "node3", "--disk", "0:size=16m", "--disk", "1:size=8m,access=w")
        assert vm.placement == ("node1", "node3", "running")
        node, paths = vm.primary, [vm.device(index) for index in (0, 1)]
        assert [node.sh(f"head -n 1 {path}") for path in paths] == [
            f"{vm.name} installed on disk {index}" for index in (0, 1)
        ]
        # All four volumes of the instance are together where they fit, not where there was room for the first.
        for node_name in ("node1", "node3"):
            volumes = lying(cluster, node_name, vm.name)
            assert (len(volumes), len({*volumes.values()})) == (4, 1)
        assert paths == [f"/dev/drbd{minor(vm, 'node1', disk)}" for disk in (0, 1)]
        secrets = {(disk, secret(vm, node_name, disk)) for disk in (0, 1) for node_name in ("node1", "node3")}
        assert len(secrets) == len({output for _, output in secrets}) == 2
        assert "Peer authenticated" in cluster.node("node3").sh("dmesg")

        vm.gnt("stop")
        assert vm.sides()[0].endswith("not active, degraded")
        assert f" {minor(vm, 'node1')}: cs:" not in node.sh("cat /proc/drbd")
        assert vm.gnt("activate-disks", "--wait-for-sync").splitlines()[-2:] == [
            f"node1:disk/{index}:{path}" for index, path in enumerate(paths)
        ]
        assert vm.is_whole(1)
        vm.gnt("deactivate-disks")
        vm.gnt("modify", "--disk", "1:access=r")
        vm.gnt("start")
        write = ["dd", "if=/dev/zero", f"of={paths[1]}", "bs=4k", "count=1", "conv=notrunc", "oflag=direct"]
        assert "not permitted" in node.run(*write)[1]
        before = vm.checksum()
        cluster.run("gnt-instance", "grow-disk", vm.name, 0, "8m")
        assert vm.field("disk.sizes") == "24,8"
        assert node.sh(f"blockdev --getsize64 {paths[0]}") == str(24 << 20)
        assert node.sh(f"head -c {16 << 20} {paths[0]} | md5sum").split()[0] == before
        assert "ERROR" not in cluster.run("gnt-cluster", "verify").stdout
        node.sh(f"lvcreate -qq -y -n left --addtag originstname+gone -L 4M {GROUP}")
        output = cluster.run("gnt-cluster", "verify", check=False).stdout
        assert f"node node1: volume {GROUP}/left is unknown; it was created for instance gone" in output
        node.sh(f"lvremove -qq -y {GROUP}/left")


@pytest.mark.promise("cluster-107", "cluster-108", "cluster-109")
def test_a_guest_goes_to_its_other_node_and_to_any(cluster: Cluster, vm: Guest) -> None:
    first, second, third = three_nodes(vm)
    before = vm.write()
    vm.gnt("migrate", "-f")
    assert (vm.placement, vm.checksum()) == ((second, first, "running"), before)
    assert "no copy of its disks" in vm.refused("migrate", "-f", "-n", third)
    before = vm.write(megabytes=4)
    vm.gnt("failover", "-f")
    assert (vm.placement, vm.checksum()) == ((first, second, "running"), before)

    output = vm.gnt("failover", "-f", "-n", third)  # S1 becomes S2
    steps = (
        f"pair disk 0 of {second} with {third}",
        f"let disk 0 on {third} receive",
        "start vm1",
        "wait until the disks",
        "remove disk",
    )
    order = [output.index(step) for step in steps]
    assert order == sorted(order)
    assert (vm.placement, vm.checksum()) == ((third, second, "running"), before)
    assert lying(cluster, first) == {}

    vm.gnt("failover", "-f", "-n", first, "--keep", "primary")  # P1 becomes S2
    assert (vm.placement, vm.checksum()) == ((first, third, "running"), before)
    assert lying(cluster, second) == {}
    vm.gnt("stop")
    vm.gnt("failover", "-f", "-n", second)
    assert vm.placement == (second, third, "ADMIN_down")
    vm.gnt("start")
    assert vm.checksum() == before


@pytest.mark.promise("cluster-153")
def test_each_side_is_recreated_and_a_node_is_evacuated(cluster: Cluster, vm: Guest) -> None:
    first, second, third = three_nodes(vm)
    before = vm.write()
    for side in ("-s", "-p"):
        vm.gnt("replace-disks", side)
        assert (vm.placement, vm.is_whole(), vm.checksum()) == ((first, second, "running"), True, before)
    vm.gnt("replace-disks", "-n", third)
    assert (vm.placement, vm.is_whole(), vm.checksum()) == ((first, third, "running"), True, before)
    assert lying(cluster, second) == {}

    assert "nothing to do" in vm.gnt("replace-disks", "-a")
    cluster.node(third).sh(f"drbdsetup detach {minor(vm, third)}")
    commands.wait_until(lambda: not vm.is_whole(), "the lost side")
    vm.gnt("replace-disks", "-a")
    assert (vm.is_whole(), vm.checksum()) == (True, before)

    output = cluster.run("gnt-node", "evacuate", "-f", "-s", "-n", second, third).stdout
    assert f"connect to {second}" in output
    assert (vm.placement, vm.is_whole(), vm.checksum()) == ((first, second, "running"), True, before)
    assert lying(cluster, third) == {}
    cluster.run("gnt-node", "evacuate", "-f", "-p", first)
    assert (vm.placement, vm.checksum()) == ((second, first, "running"), before)
    cluster.run("gnt-node", "migrate", "-f", second)
    assert (vm.placement, vm.checksum()) == ((first, second, "running"), before)


def test_a_node_that_dies_is_done_without_and_caught_up_with(cluster: Cluster, vm: Guest) -> None:
    first, second, _ = three_nodes(vm)
    before, dead = vm.write(), vm.primary
    dead.kill()
    try:
        output = vm.refused("failover", "-f")
        assert f"node {first} does not answer, so instance vm1.example cannot be stopped there" in output
        assert "cannot be reached" in output
        cluster.run("gnt-node", "modify", "-f", "--offline", "yes", first)
        vm.gnt("failover", "-f")
        assert (vm.placement, vm.checksum()) == ((second, first, "running"), before)
        before = vm.write(megabytes=4)
        verified = cluster.run("gnt-cluster", "verify").stdout
        assert "ERROR" not in verified
        assert f"WARNING: instance vm1.example: disk 0 on {second} is not complete on both nodes" in verified
    finally:
        dead.reboot()
    cluster.run("gnt-node", "modify", "--offline", "no", first)
    assert vm.sides()[1].endswith("not active, degraded")
    cluster.run("gnt-cluster", "verify-disks")
    vm.until_whole()
    vm.gnt("failover", "-f")
    assert (vm.placement, vm.checksum()) == ((first, second, "running"), before)


def test_what_a_cut_cable_kept_away_is_made_up_for_before_a_guest_goes_there(cluster: Cluster, vm: Guest) -> None:
    first, second, _ = three_nodes(vm)
    other = vm.secondary
    cluster.machines.cable(other, plugged=False)
    try:
        commands.wait_until(lambda: "WFConnection" in vm.primary.sh("cat /proc/drbd"), "the cut")
        before = vm.write(megabytes=4)
    finally:
        cluster.machines.cable(other, plugged=True)
    vm.gnt("failover", "-f")
    assert (vm.placement, vm.checksum()) == ((second, first, "running"), before)


@pytest.mark.promise("cluster-101")
def test_a_minor_that_somebody_else_has_is_taken_back_unless_it_is_in_use(cluster: Cluster, vm: Guest) -> None:
    first, second, third = three_nodes(vm)
    node = cluster.node(third)  # it has none of the guest's disks, so the first minor is the next one there
    node.sh(
        f"lvcreate -qq -y -n foreign -L 8M {GROUP}; lvcreate -qq -y -n foreign_meta -L 4M {GROUP};"
        "drbdsetup new-resource foreign; drbdsetup new-minor foreign 0 0;"
        f"drbdmeta --force 0 v08 /dev/{GROUP}/foreign_meta flex-external create-md;"
        f"drbdsetup attach 0 /dev/{GROUP}/foreign /dev/{GROUP}/foreign_meta flexible; drbdsetup primary 0 --force"
    )
    storage.scribble(node, "/dev/drbd0", megabytes=8)
    before, theirs = vm.write(), storage.checksum(node, "/dev/drbd0")
    storage.hold(node, "/dev/drbd0")
    try:
        output = vm.refused("replace-disks", "-n", third)
        assert f"drbd0 on node {third} cannot be shut down" in output
        assert "stop the program that uses it" in output
        assert (vm.placement, vm.is_whole(), vm.checksum()) == ((first, second, "running"), True, before)
        assert lying(cluster, third, vm.name) == {}
        assert storage.checksum(node, "/dev/drbd0") == theirs
    finally:
        storage.release(node)
    vm.gnt("replace-disks", "-n", third)
    assert (minor(vm, third), vm.is_whole(), vm.checksum()) == ("0", True, before)
    assert "foreign" not in node.sh("drbdsetup show all")
    assert storage.checksum(node, f"/dev/{GROUP}/foreign") == theirs
    node.sh(f"lvremove -qq -y {GROUP}/foreign {GROUP}/foreign_meta")


@pytest.mark.promise("cluster-105")
def test_a_peer_with_another_secret_is_reported_and_connects_with_the_right_one(cluster: Cluster, vm: Guest) -> None:
    first, second, _ = three_nodes(vm)
    node, number = vm.secondary, minor(vm, second)
    there, here = re.findall(r"address\s+(ipv4 [\d.:]+);", node.sh(f"drbdsetup show {number}"))
    ends = f"{here} {there}".replace("ipv4 ", "ipv4:")
    node.sh(
        f"drbdsetup disconnect {ends}; drbdsetup connect resource{number} {ends}"
        f" --protocol=C --cram-hmac-alg=sha256 --shared-secret=guessed {clusters.NET}"
    )
    commands.wait_until(lambda: "StandAlone" in node.sh("cat /proc/drbd"), "the end of the connection")
    before = vm.write()
    assert "has another shared secret" in vm.sides()[1]
    output = vm.refused("failover", "-f")
    assert "not connected to the primary copy" in output
    assert "authentication failed, as its peer has another shared secret" in output
    assert vm.placement == (first, second, "running")
    vm.gnt("activate-disks", "--wait-for-sync")
    vm.gnt("failover", "-f")
    assert (vm.placement, vm.checksum()) == ((second, first, "running"), before)


@pytest.mark.promise("cluster-106")
def test_a_failed_disk_is_removed_and_its_volumes_are_recreated(cluster: Cluster, vm: Guest) -> None:
    before, node = vm.write(), vm.secondary
    watcher = ("gantry-watcher", "--repair-storage", "--root", cluster.master)
    cluster.run(*watcher)  # it sees that all is well
    vm.gnt("stop")  # User-Mode Linux gives a disk up only when nothing holds it
    (device,) = {*lying(cluster, node.name, vm.name).values()}
    index = next(number for number in node.hardware.disks if node.device(number) == device)
    node.pull_disk(index)
    assert "missing" in vm.refused("start")
    assert "misses 1 of its physical volumes" in cluster.run("gnt-cluster", "verify", check=False).stdout
    cluster.run(*watcher)
    commands.wait_until(lambda: not lying(cluster, node.name, vm.name), "the repair")
    vm.gnt("replace-disks", "-a")
    vm.gnt("start")
    vm.until_whole()
    assert vm.checksum() == before
    fresh = node.add_disk(clusters.DISKS[0])
    lab.until(lambda: node.run("vgextend", "-y", GROUP, fresh)[0] == 0, "the fresh disk")
    vm.gnt("failover", "-f")
    assert vm.checksum() == before


def test_lost_disks_are_recreated_on_other_nodes(cluster: Cluster) -> None:
    with extra(cluster, "lost.example") as vm:
        vm.add("node3", "node2", "--disk", "0:size=8m")
        vm.gnt("stop")
        assert "exists on node" in vm.refused("recreate-disks")
        for name in ("node3", "node2"):
            cluster.node(name).sh(
                f"lvremove -qq -y {' '.join(f'{GROUP}/{volume}' for volume in lying(cluster, name, vm.name))}"
            )
        vm.gnt("recreate-disks", "-n", "node3:node1")
        assert vm.field("snodes") == "node1"
        vm.gnt("start")
        vm.until_whole()


def test_an_instance_on_plain_volumes_is_copied_to_another_node(cluster: Cluster) -> None:
    with extra(cluster, "plain.example") as vm:
        where = ("-t", "plain", "-n", "node3", "--no-nics", "-o", "plain", "--disk", "0:size=16m")
        cluster.run("gnt-instance", "add", *where, "--disk", "1:size=4m,access=r", vm.name)
        (volume,) = (name for name in lying(cluster, "node3", vm.name) if name.endswith("disk0"))
        path = f"/dev/{GROUP}/{volume}"
        storage.scribble(cluster.node("node3"), path, megabytes=16)
        before = storage.checksum(cluster.node("node3"), path)
        assert "on its node node3 alone" in vm.refused("failover", "-f")
        vm.gnt("move", "-f", "-n", "node2")
        assert (vm.field("pnode"), vm.field("status")) == ("node2", "running")
        assert storage.checksum(cluster.node("node2"), path) == before
        assert lying(cluster, "node3", vm.name) == {}


def test_plain_volumes_become_mirrored_disks_and_plain_ones_again(cluster: Cluster) -> None:
    with extra(cluster, "convert.example") as vm:
        where = ("-t", "plain", "-n", "node1", "--no-nics", "-o", "plain", "--disk", "0:size=16m")
        cluster.run("gnt-instance", "add", *where, vm.name)
        (volume,), before = lying(cluster, "node1", vm.name), vm.write()
        assert "instance convert.example is running" in vm.refused("modify", "-t", "drbd", "-n", "node2")
        vm.gnt("stop")
        vm.gnt("modify", "-t", "drbd", "-n", "node2")
        assert vm.placement == ("node1", "node2", "ADMIN_down")
        vm.gnt("start")
        assert (vm.is_whole(), vm.checksum()) == (True, before)
        vm.gnt("failover", "-f")
        assert (vm.placement, vm.checksum()) == (("node2", "node1", "running"), before)

        before, numbers = vm.write(megabytes=4), [(node, minor(vm, node)) for node in ("node1", "node2")]
        vm.gnt("stop")
        vm.gnt("modify", "-t", "plain")
        assert (vm.field("pnode"), lying(cluster, "node1", vm.name)) == ("node2", {})
        assert [*lying(cluster, "node2", vm.name)] == [volume]
        assert not [node for node, number in numbers if f" {number}: cs:" in cluster.node(node).sh("cat /proc/drbd")]
        vm.gnt("start")
        assert vm.checksum() == before
        vm.gnt("stop")
        assert "the allocator chose" in vm.gnt("modify", "-t", "drbd")
        assert vm.refused("modify", "-t", "drbd").endswith("already have template drbd")

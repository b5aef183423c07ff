"""Real guests on mirrored disks: one moves while it writes and answers, and one loses its node.

The tests share a cluster and one guest, which each finds running on two of the three nodes (``vm``).
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import lab as commands
from tests.real.nodes import guests, lab
from tests.real.nodes.cluster import Cluster
from tests.real.nodes.guests import Guest

pytestmark = lab.NEEDS


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with guests.up() as cluster:
        yield cluster


@pytest.fixture
def vm(cluster: Cluster) -> Guest:
    """A guest that runs, as another test left it, or a new one."""
    guest = Guest(cluster, "vm1.example")
    known = [name for (name,) in cluster.rows("gnt-instance", "name")]
    if guest.name in known and guest.placement[2] == "running" and guest.answers() and is_whole(guest):
        return guest
    if guest.name in known:
        guest.gnt("remove", "-f", "--ignore-failures")
    return guest.add("node1", "node2")


def last_job(cluster: Cluster) -> list[str]:
    """Return number and status of the newest job that migrates."""
    return [row for row in cluster.rows("gnt-job", "id,status,summary") if "MIGRATE" in row[2]][-1][:2]


def is_whole(vm: Guest) -> bool:
    return vm.is_whole(0) and vm.is_whole(1)


def test_a_guest_is_migrated_while_it_writes_and_answers(vm: Guest, tmp_path: Path) -> None:
    first, second, _ = vm.placement
    before = vm.written()
    with guests.pinged(tmp_path) as gaps, vm.watched() as watch:
        vm.gnt("migrate", "-f")
        vm.until_up()
    print(f"between two answers to a ping at most {max(gaps):.2f} s, between running here and there {watch.gap:.2f} s")
    assert watch.gap > 0, "it ran on both nodes at once"
    assert (vm.placement, vm.hosts()) == ((second, first, "running"), [second])
    assert vm.written() > before
    assert is_whole(vm)


def test_a_target_that_dies_half_way_leaves_the_guest_running_where_it_was(cluster: Cluster, vm: Guest) -> None:
    first, second, _ = vm.placement
    dead, before = vm.secondary, vm.written()
    cluster.run("gnt-cluster", "modify", "-H", "kvm:migration_bandwidth=1")
    try:
        vm.gnt("migrate", "-f", "--submit")
        lab.until(lambda: "ESTAB" in dead.sh("ss -Htn sport = :8102"), "the migration", timeout=120)
        dead.kill()
        commands.wait_until(lambda: last_job(cluster)[1] != "running", "the end of the migration", timeout=120)
        number, status = last_job(cluster)
        assert status == "error"
        output = cluster.run("gnt-job", "info", number).stdout
        assert f"the migration of instance {vm.name} to {second} failed" in output, output
        assert "cannot be reached" in output, output
        vm.until_up()
        assert vm.placement == (first, second, "running")
    finally:
        dead.reboot()
        cluster.run("gnt-cluster", "modify", "-H", "kvm:migration_bandwidth=default")
    assert (vm.hosts(), vm.written() > before) == ([first], True)
    cluster.run("gnt-cluster", "verify-disks")
    for disk in (0, 1):
        vm.until_whole(disk)


def test_a_guest_whose_node_dies_goes_on_with_all_that_it_had_written(cluster: Cluster, vm: Guest) -> None:
    first, second, _ = vm.placement
    dead, synced = vm.primary, vm.written() - 1  # the last may be under way
    dead.kill()
    begun = time.monotonic()
    try:
        cluster.run("gnt-node", "modify", "-f", "--offline", "yes", first)
        vm.gnt("failover", "-f")
        assert vm.placement == (second, first, "running")
        assert vm.written() >= synced > 0
        vm.until_up()
        print(f"it answers and writes {time.monotonic() - begun:.0f} s after its node died")
    finally:
        dead.reboot()
    cluster.run("gnt-node", "modify", "--offline", "no", first)
    cluster.run("gnt-cluster", "verify-disks")
    for disk in (0, 1):
        vm.until_whole(disk)
    before = vm.written()
    vm.gnt("migrate", "-f")
    vm.until_up()
    assert (vm.placement, vm.hosts()) == ((first, second, "running"), [first])
    assert vm.written() > before
    assert is_whole(vm)
    assert "ERROR" not in cluster.run("gnt-cluster", "verify").stdout

"""The simulated DRBD: which copy becomes the source, and when two copies refuse each other."""

from collections.abc import Iterator

import pytest

from gantry import errors
from gantry.sim import cluster
from gantry.sim.hardware import copying, volumes

DISKS = {"disks": [{"size": 64}], "disk_template": "drbd", "nics": [], "beparams": {"maxmem": 128, "minmem": 128}}
CREATE = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm1", "os_type": copying.OS_NAME, **DISKS}


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    """Make a cluster of three nodes with an instance whose disk is mirrored on node1 and node2."""
    with cluster.SimulatedCluster(seed=3) as simulated:
        templates = ["drbd", "plain", "diskless"]
        simulated.run(simulated.build(vg_name=volumes.GROUP, enabled_disk_templates=templates))
        simulated.run(simulated.done({**CREATE, "pnode": "node1", "snode": "node2"}))
        yield simulated


def states(lab: cluster.SimulatedCluster, name: str) -> str:
    """Return a node's line about the first minor in its /proc/drbd."""
    return lab.world.machine(name).disk.read("/proc/drbd").decode().splitlines()[1].strip()


def contents(lab: cluster.SimulatedCluster) -> dict[str, list[bytes]]:
    """Return what was written to the data volumes of each node."""
    return {
        name: [volume.content for volume in group.by_name.values() if not volume.generation]
        for name, group in lab.groups.items()
    }


def test_what_is_written_to_a_device_is_on_both_nodes(lab: cluster.SimulatedCluster) -> None:
    assert states(lab, "node1") == "0: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----"
    assert states(lab, "node2") == "0: cs:Connected ro:Secondary/Primary ds:UpToDate/UpToDate C r-----"
    assert contents(lab) == {"node1": [b"vm1"], "node2": [b"vm1"], "node3": []}


def test_a_copy_that_missed_writes_is_brought_up_to_date(lab: cluster.SimulatedCluster) -> None:
    lab.world.network.partition("node1", "node2")
    assert "cs:WFConnection ro:Primary/Unknown ds:UpToDate/DUnknown" in states(lab, "node1")
    lab.world.network.heal("node1", "node2")
    assert "cs:SyncSource" in states(lab, "node1")
    assert "cs:SyncTarget ro:Secondary/Primary ds:Inconsistent/UpToDate" in states(lab, "node2")
    lab.run(lab.world.clock.sleep(10))
    assert "cs:Connected ro:Secondary/Primary ds:UpToDate/UpToDate" in states(lab, "node2")


def test_a_copy_whose_synchronization_was_interrupted_cannot_become_primary(lab: cluster.SimulatedCluster) -> None:
    lab.world.network.partition("node1", "node2")
    states(lab, "node1")
    lab.world.network.heal("node1", "node2")
    states(lab, "node1")
    lab.world.network.partition("node1", "node2")
    assert "ds:Inconsistent/DUnknown" in states(lab, "node2")
    lab.run(lab.world.clock.sleep(10))
    assert "ds:Inconsistent/DUnknown" in states(lab, "node2")


def test_two_copies_that_were_both_written_to_refuse_each_other(lab: cluster.SimulatedCluster) -> None:
    lab.world.network.partition("node1", "node2")
    states(lab, "node1")
    minor = lab.kernels.minor("node2", 0)
    assert minor is not None
    run = lab.world.machine("node2").processes
    lab.run(run.run(["drbdsetup", "primary", "0"]))
    states(lab, "node2")
    lab.run(run.run(["drbdsetup", "secondary", "0"]))
    lab.world.network.heal("node1", "node2")
    assert "cs:StandAlone" in states(lab, "node1")
    assert "cs:StandAlone" in states(lab, "node2")
    log = lab.run(lab.world.machine("node1").processes.run(["dmesg"])).stdout.decode()
    assert "drbd0: Split-Brain detected" in log


def test_a_power_loss_ends_the_minors_but_not_the_volumes(lab: cluster.SimulatedCluster) -> None:
    lab.crash("node2")
    assert lab.kernels.minor("node2", 0) is None
    assert contents(lab)["node2"] == [b"vm1"]
    assert "cs:WFConnection" in states(lab, "node1")


def test_a_group_that_is_full_takes_no_volume(lab: cluster.SimulatedCluster) -> None:
    op = {**CREATE, "instance_name": "vm2", "disk_template": "plain", "disks": [{"size": "20g"}], "pnode": "node3"}
    with pytest.raises(errors.ExecutionError, match="MiB"):
        lab.run(lab.done(op))
    assert lab.groups["node3"].by_name == {}

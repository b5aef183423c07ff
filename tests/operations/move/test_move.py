"""A move of an instance with its disks to another node."""

import asyncio

import pytest

from gantry import errors
from gantry.sim import cluster
from gantry.sim.hardware import volumes

VM = "vm1.example"
STORAGE = f"{cluster.FOLDERS.file_storage}/{VM}"
CREATE: cluster.Opcode = {
    "OP_ID": "OP_INSTANCE_CREATE",
    "instance_name": VM,
    "disk_template": "file",
    "disks": [{"size": 64}],
    "pnode": "node2",
    "no_install": True,
}
MOVE: cluster.Opcode = {"OP_ID": "OP_INSTANCE_MOVE", "instance_name": VM, "target_node": "node3"}


def files(lab: cluster.SimulatedCluster, node: str) -> list[str]:
    disk = lab.world.machine(node).disk
    return list(disk.names(STORAGE)) if disk.exists(STORAGE) else []


def test_a_move_whose_start_at_the_target_fails_leaves_no_disk_at_the_source() -> None:
    async def scenario() -> None:
        await lab.build()
        await lab.done(CREATE)
        assert len(files(lab, "node2")) == 1
        lab.world.machine("node3").disk.broken = {f"{cluster.FOLDERS.instances}": 1.0}
        with pytest.raises(errors.ExecutionError, match="instance_start"):
            await lab.done(MOVE)
        assert len(files(lab, "node3")) == 1
        assert files(lab, "node2") == []

    with cluster.SimulatedCluster(9) as lab:
        lab.run(scenario())


@pytest.mark.parametrize("template", ["file", "plain"])
def test_a_move_starts_the_instance_although_the_source_does_not_answer_after_the_copy(template: str) -> None:
    async def scenario() -> None:
        await lab.build(enabled_disk_templates=["file", "plain"], vg_name=volumes.GROUP)
        await lab.done({**CREATE, "disk_template": template})
        state = lab.daemons["node1"].store
        moving = asyncio.ensure_future(lab.done(MOVE))
        while state.snapshot.nodes[state.snapshot.instance(VM).primary_node].name != "node3":
            await lab.world.clock.sleep(0.0001)
        lab.kill("node2")
        await moving
        guests = f"{cluster.FOLDERS.instances}/fake"
        assert list(lab.world.machine("node3").disk.names(guests)) == [VM]

    with cluster.SimulatedCluster(10) as lab:
        lab.run(scenario())

"""Volume groups that lost disks: repaired by a command, and by the watcher's rule."""

import pytest
from tests.operations import build
from tests.operations.disk import test_disks

from gantry.model import opcodes
from gantry.rpc import calls

WHOLE = calls.VolumeGroup(name="xenvg", size=9000, free=5000, extent=4.0, on={"/dev/sda": 5000})
BROKEN = calls.VolumeGroup(name="xenvg", size=9000, free=5000, extent=4.0, missing=1, on={"/dev/sda": 5000})


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> build.MemoryCluster:
    answer = build.Machine.answer

    def with_groups(machine: build.Machine, call: calls.Call[object]) -> object:
        match call:
            case calls.VgList():
                return (BROKEN,) if machine.files.get("broken") else (WHOLE,)
            case calls.LvList():
                lost = bool(machine.files.get("broken"))
                return tuple(calls.Volume(name=f"{uuid}.disk0", size=64, partial=lost) for uuid in machine.disks)
            case calls.VgReduce():
                machine.files.pop("broken", None)
                return ("lost",)
            case _:
                return answer(machine, call)

    monkeypatch.setattr(build.Machine, "answer", with_groups)
    return build.MemoryCluster(*(test_disks.OWNER if value is build.OWNER else value for value in build.FIRST))


def look(*, whole_before: bool) -> opcodes.Opcode:
    return opcodes.ClusterRepairStorage(whole_before=whole_before)


@pytest.mark.promise("cluster-106")
async def test_a_disk_that_has_just_died_is_taken_out_of_its_group(lab: build.MemoryCluster) -> None:
    assert await lab.run(look(whole_before=True)) is True
    lab.machine("node2").files["broken"] = "yes"
    assert await lab.run(look(whole_before=True)) is False
    assert [node for node, call in lab.nodes.made if isinstance(call, calls.VgReduce)] == ["node2"]
    assert any("lvm-repair node=node2 group=xenvg missing=1 lost=lost" in line for line in lab.log.lines)
    assert await lab.run(look(whole_before=False)) is True


@pytest.mark.promise("cluster-106")
async def test_what_was_broken_before_or_in_several_places_is_left_alone(lab: build.MemoryCluster) -> None:
    lab.machine("node2").files["broken"] = "yes"
    assert await lab.run(look(whole_before=False)) is False
    lab.machine("node3").files["broken"] = "yes"
    assert await lab.run(look(whole_before=True)) is False
    assert lab.nodes.calls_of(calls.VgReduce) == []


async def test_a_cluster_without_volume_groups_calls_no_node(lab: build.MemoryCluster) -> None:
    lab.put(build.OWNER)
    assert await lab.run(look(whole_before=True)) is True
    assert lab.nodes.calls_of(calls.VgList) == []


async def test_a_repair_by_hand_does_not_give_up_the_only_copy_of_a_disk(lab: build.MemoryCluster) -> None:
    await lab.run(test_disks.op("plain", opcodes.DiskSpec(size=64)))
    lab.machine("node2").files["broken"] = "yes"
    repair = opcodes.RepairNodeStorage(node_name="node2", name="xenvg")
    assert "instance new has its only copy" in str(await lab.refused(repair))
    forced = opcodes.RepairNodeStorage(node_name="node2", name="xenvg", ignore_consistency=True)
    assert await lab.run(forced) == ["lost"]
    assert "no volume group other" in str(await lab.refused(opcodes.RepairNodeStorage(node_name="node2", name="other")))


async def test_volumes_and_rooms_are_listed_with_those_who_have_them(lab: build.MemoryCluster) -> None:
    await lab.run(test_disks.op("plain", opcodes.DiskSpec(size=64)))
    (disk,) = lab.state.instance("new").disks
    rows = await lab.run(opcodes.NodeQueryvols(nodes=("node2",), output_fields=("node", "vg", "name", "instance")))
    assert rows == [["node2", "xenvg", disk.logical_id[1], "new"]]
    rows = await lab.run(opcodes.NodeQueryStorage(nodes=("node2",), storage_type="lvm-vg"))
    assert rows == [["node2", "lvm-vg", "xenvg", 9000, 4000, 5000, True]]
    rows = await lab.run(opcodes.NodeQueryStorage(nodes=("node2",), output_fields=("name", "free")))
    assert rows == [["/file", 5000]]
    wrong = opcodes.NodeQueryvols(output_fields=("nme",))
    assert "did you mean name?" in str(await lab.refused(wrong))

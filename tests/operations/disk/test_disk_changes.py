"""Disks of instances that exist: added, removed, changed, grown, activated, recreated, replaced; storage of nodes."""

from typing import cast

import msgspec
import pytest
from tests.operations import build
from tests.operations.disk import test_disks

from gantry import errors
from gantry.model import instance, opcodes
from gantry.operations.disk import replace as disk_replace
from gantry.rpc import calls

Disk = opcodes.DiskSpec
mirrored = test_disks.mirrored


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster(*(test_disks.OWNER if value is build.OWNER else value for value in build.FIRST))


async def plain(lab: build.MemoryCluster, *, start: bool = False) -> instance.Instance:
    await lab.run(test_disks.op("plain", Disk(size=64), Disk(size=128, name="data"), start=start))
    return lab.state.instance("new")


def change(*changes: list[object], **fields: object) -> opcodes.Opcode:
    return opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "new", "disks": list(changes), **fields})


async def test_a_disk_is_added_behind_the_last_or_where_it_is_wanted(lab: build.MemoryCluster) -> None:
    old = await plain(lab)
    await lab.run(change(["add", {"size": "1g"}], ["add", 0, {"size": 8, "mode": "ro"}]))
    vm = lab.state.instance("new")
    assert [disk.size for disk in vm.disks] == [8, 64, 128, 1024]
    assert vm.disks[1:3] == old.disks
    assert vm.disks[0].mode == "ro"
    assert lab.machine("node2").disks == {disk.uuid: disk.size for disk in vm.disks}
    assert lab.nodes.calls_of(calls.DiskPlug) == []


async def test_a_running_guest_gets_a_new_disk_and_gives_one_up(lab: build.MemoryCluster) -> None:
    old = await plain(lab, start=True)
    await lab.run(change(["add", {"size": 8}], ["remove", "data", {}]))
    vm = lab.state.instance("new")
    assert [disk.size for disk in vm.disks] == [64, 8]
    machine = lab.machine("node2")
    assert machine.disks.keys() == {disk.uuid for disk in vm.disks}
    assert vm.disks[1].uuid in machine.active
    assert [call.disk.uuid for call in lab.nodes.calls_of(calls.DiskPlug)] == [vm.disks[1].uuid]
    assert [call.disk.uuid for call in lab.nodes.calls_of(calls.DiskUnplug)] == [old.disks[1].uuid]


@pytest.mark.parametrize("action", ["remove", "detach"])
async def test_the_state_keeps_a_disk_until_the_guest_has_released_it(lab: build.MemoryCluster, action: str) -> None:
    old = await plain(lab, start=True)
    plan = await lab.plan(change(["add", {"size": 8}], [action, 0, {}]))
    lab.change(plan.changes)
    assert lab.state.instance("new").disks[:2] == old.disks
    assert not lab.state.disks
    assert plan.finish
    lab.change(plan.finish(lab.state))
    assert [disk.size for disk in lab.state.instance("new").disks] == [128, 8]
    assert [*lab.state.disks] == ([old.disks[0].uuid] if action == "detach" else [])


async def test_the_numbers_of_a_removed_disk_are_held_until_it_is_deactivated(lab: build.MemoryCluster) -> None:
    vm = await mirrored(lab, start=True)
    before, plan = lab.state, await lab.plan(change(["remove", 0, {}]))
    lab.ledger.hold(1, before, changes=plan.changes)
    lab.change(plan.changes)
    assert plan.finish
    lab.change(plan.finish(lab.state))
    assert vm.disks[0].mirror
    minor = vm.disks[0].mirror.minors["n2"]
    assert lab.ledger.mirrors.picks().minor("n2") != minor
    lab.ledger.release(1)
    assert lab.ledger.mirrors.picks().minor("n2") == minor


async def test_a_mirrored_disk_is_added_on_both_nodes_and_removed_from_both(lab: build.MemoryCluster) -> None:
    await mirrored(lab)
    await lab.run(change(["add", {"size": 8}]))
    added = lab.state.instance("new").disks[2]
    assert added.mirror
    assert added.mirror.minors == {"n2": 2, "n3": 2}
    assert all(added.uuid in lab.machine(name).disks for name in ("node2", "node3"))
    await lab.run(change(["remove", {}]))
    assert not any(added.uuid in lab.machine(name).disks for name in ("node2", "node3"))


@pytest.mark.promise("cluster-110", "cluster-142")
async def test_mode_and_name_of_a_disk_change_and_change_back(lab: build.MemoryCluster) -> None:
    await plain(lab)
    report = await lab.run(change([1, {"access": "r", "name": "none"}]))
    assert report == [("disk.mode/1", "ro"), ("disk.name/1", "")]
    assert [(disk.mode, disk.name) for disk in lab.state.instance("new").disks] == [("rw", ""), ("ro", "")]
    await lab.run(change(["modify", 1, {"mode": "rw"}]))
    assert lab.state.instance("new").disks[1].mode == "rw"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([["remove", 7, {}]], "the instance has no disk 7"),
        ([[9, {"mode": "ro"}]], "the instance has no disk 9"),
        ([["remove", "nobody", {}]], "has no disks named nobody"),
        ([["modify", 0, {"size": 9}]], "size of a disk cannot be changed"),
        ([["eject", 0, {}]], "'eject' is not a disk action"),
        ([["add", 9, {"size": 9}]], "a disk cannot be added at index '9'"),
        ([["add", {"size": 9}]] * 15, "instance new would have 17 disks, the maximum is 16"),
        ([["remove", {}], ["remove", {}]], "instance new is running, so its last disk cannot be removed"),
    ],
)
async def test_changes_that_are_refused(lab: build.MemoryCluster, changes: list[list[object]], message: str) -> None:
    await plain(lab, start=True)
    error = await lab.refused(change(*changes))
    assert message in str(error)
    assert isinstance(error, errors.PrerequisiteError)


async def test_what_a_running_guest_cannot_let_go_stays(lab: build.MemoryCluster) -> None:
    await plain(lab, start=True)
    error = await lab.refused(change(["remove", {}], hotplug=False))
    assert "instance new is running, and its hypervisor cannot unplug disks" in str(error)


@pytest.mark.parametrize(("amount", "absolute", "size"), [("64m", False, 128), (1024, True, 1024)])
async def test_a_disk_grows_on_both_nodes(
    lab: build.MemoryCluster, amount: int | str, absolute: bool, size: int
) -> None:
    vm = await mirrored(lab)
    await lab.run(opcodes.InstanceGrowDisk(instance_name="new", disk=0, amount=amount, absolute=absolute))
    grown = lab.state.instance("new").disks[0]
    assert (grown.size, grown.children[0].size, grown.children[1].size) == (size, size, 128)
    grow_calls = [(node, call.backing) for node, call in lab.nodes.made
            if isinstance(call, calls.BlockdevGrow) and not call.dry_run]  # fmt: skip
    assert grow_calls == [("node3", True), ("node2", True), ("node2", False)]
    assert lab.machine("node2").disks[vm.disks[0].uuid] == size
    assert lab.machine("node2").active == {}


async def test_a_running_guest_learns_the_new_size_of_a_disk(lab: build.MemoryCluster) -> None:
    await plain(lab, start=True)
    await lab.run(opcodes.InstanceGrowDisk(instance_name="new", disk=1, amount=64))
    (resize_call,) = lab.nodes.calls_of(calls.DiskResize)
    assert resize_call.disk.size == 192


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"disk": 2, "amount": 8}, "instance new has no disk 2"),
        ({"disk": 0, "amount": 8, "absolute": True}, "disk 0 of instance new has 64 MiB, it cannot shrink to 8 MiB"),
    ],
)
async def test_growth_that_is_refused(lab: build.MemoryCluster, fields: dict[str, object], message: str) -> None:
    await plain(lab)
    op = opcodes.decode({"OP_ID": "OP_INSTANCE_GROW_DISK", "instance_name": "new", **fields})
    assert message in str(await lab.refused(op))


async def test_a_disk_does_not_grow_in_a_full_group(lab: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    vm = await plain(lab)
    answer = build.Machine.answer

    def full(machine: build.Machine, call: calls.Call[object]) -> object:
        if isinstance(call, calls.BlockdevGrow):
            raise errors.NoRoomError("disk of 8 MiB does not fit, 0 MiB are free in xenvg on node node2")
        return answer(machine, call)

    monkeypatch.setattr(build.Machine, "answer", full)
    error = await lab.refused(opcodes.InstanceGrowDisk(instance_name="new", disk=0, amount=8))
    assert "0 MiB are free in xenvg" in str(error)
    assert lab.state.instance("new") == vm


async def test_disks_are_activated_and_deactivated_by_themselves(lab: build.MemoryCluster) -> None:
    vm = await mirrored(lab)
    activated_disks = await lab.run(opcodes.InstanceActivateDisks(instance_name="new", wait_for_sync=True))
    assert activated_disks == [("node2", f"disk/{index}", f"/dev/{disk.uuid}") for index, disk in enumerate(vm.disks)]
    assert len(lab.machine("node3").active) == 2
    await lab.run(opcodes.InstanceDeactivateDisks(instance_name="new"))
    assert lab.machine("node2").active == lab.machine("node3").active == {}
    await lab.run(opcodes.InstanceStartup(instance_name="new"))
    assert "instance new is running" in str(await lab.refused(opcodes.InstanceDeactivateDisks(instance_name="new")))


async def test_lost_disks_are_recreated_on_other_nodes(lab: build.MemoryCluster) -> None:
    vm = await mirrored(lab)
    assert "disk 0 of instance new exists on node node3" in str(
        await lab.refused(opcodes.InstanceRecreateDisks(instance_name="new"))
    )
    for name in ("node2", "node3"):
        lab.machine(name).disks.clear()
    await lab.run(opcodes.InstanceRecreateDisks(instance_name="new", nodes=("node1", "node3")))
    new = lab.state.instance("new")
    assert new.nodes == ("n1", "n3")
    assert lab.machine("node1").disks == lab.machine("node3").disks == {disk.uuid: disk.size for disk in vm.disks}
    assert lab.machine("node2").disks == {}


async def test_disks_that_exist_are_not_recreated_on_other_nodes(lab: build.MemoryCluster) -> None:
    vm = await plain(lab)
    other = opcodes.InstanceRecreateDisks(instance_name="new", nodes=("node3",))
    assert "disk 0 of instance new exists on node node2" in str(await lab.refused(other))
    assert lab.machine("node3").disks == {}
    lab.put(msgspec.structs.replace(lab.state.node("node2"), offline=True))
    await lab.run(other)
    assert lab.machine("node3").disks == {disk.uuid: disk.size for disk in vm.disks}


async def test_one_lost_disk_is_recreated(lab: build.MemoryCluster) -> None:
    vm = await plain(lab)
    del lab.machine("node2").disks[vm.disks[1].uuid]
    await lab.run(opcodes.InstanceRecreateDisks(instance_name="new", disks=(1,)))
    assert lab.machine("node2").disks == {disk.uuid: disk.size for disk in vm.disks}
    assert "no disk 5" in str(await lab.refused(opcodes.InstanceRecreateDisks(instance_name="new", disks=(5,))))


async def test_a_recreated_disk_may_get_another_size(lab: build.MemoryCluster) -> None:
    vm = await plain(lab)
    del lab.machine("node2").disks[vm.disks[1].uuid]
    await lab.run(again(disks=[[1, {"size": "1g", "access": "r"}]]))
    new = lab.state.instance("new")
    assert [(disk.size, disk.mode) for disk in new.disks] == [(64, "rw"), (1024, "ro")]
    assert lab.machine("node2").disks == {disk.uuid: disk.size for disk in new.disks}


async def test_an_allocator_chooses_the_nodes_of_recreated_disks(lab: build.MemoryCluster) -> None:
    vm = await mirrored(lab)
    lab.put(msgspec.structs.replace(lab.state.node("node3"), offline=True))
    lab.machine("node2").disks.clear()
    plan = await lab.plan(again(iallocator="gantry"))
    assert any("the allocator chose node" in line for line in plan.lines)
    await lab.run(again(iallocator="gantry"))
    new = lab.state.instance("new")
    assert set(new.nodes) == {"n1", "n2"}
    assert lab.machine("node1").disks.keys() >= {disk.uuid for disk in vm.disks}
    for name in ("node1", "node2"):
        for disk in vm.disks:
            lab.machine(name).disks.pop(disk.uuid)
    lab.allocators["p"] = b'{"success": true, "info": "so", "result": ["node2", "node3"]}'
    refused = await lab.refused(again(iallocator="p"))
    assert "allocator p chose unfit node node3: the node is offline" in str(refused)
    lab.allocators["p"] = b'{"success": true, "info": "so", "result": ["node2", "node1"]}'
    await lab.run(again(iallocator="p"))
    assert lab.state.instance("new").nodes == ("n2", "n1")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"disks": [1, [1, {"size": 8}]]}, "disk 1 is listed twice"),
        ({"disks": [[1, {"name": "x"}]]}, "only size and mode"),
        ({"disks": [[1, {"size": 0}]]}, "is not above 0 MiB"),
        ({"disks": [7]}, "has no disk 7"),
        ({"disks": [1], "iallocator": "gantry"}, "on other nodes, all disks of instance new must be recreated"),
        ({"nodes": ["node1"], "iallocator": "gantry"}, "exclude each other"),
        ({"nodes": ["node1", "node3"]}, "instance new needs 1 nodes, 2 were specified"),
    ],
)
async def test_recreations_that_are_refused(lab: build.MemoryCluster, fields: dict[str, object], message: str) -> None:
    await plain(lab)
    lab.machine("node2").disks.clear()
    lab.put(msgspec.structs.replace(lab.state.node("node2"), drained=True))
    before = lab.state
    assert message in str(await lab.refused(again(**fields)))
    assert lab.state is before


def again(**fields: object) -> opcodes.Opcode:
    return opcodes.decode({"OP_ID": "OP_INSTANCE_RECREATE_DISKS", "instance_name": "new", **fields})


def replace(mode: str, **fields: object) -> opcodes.Opcode:
    return opcodes.decode({"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "instance_name": "new", "mode": mode, **fields})


@pytest.mark.promise("cluster-104")
@pytest.mark.parametrize("start", [False, True])
async def test_another_secondary_node_gets_the_disks(lab: build.MemoryCluster, start: bool) -> None:
    vm = await mirrored(lab, start=start)
    await lab.run(replace("replace_new_secondary", remote_node="node1"))
    new = lab.state.instance("new")
    assert new.nodes == ("n2", "n1")
    assert (lab.machine("node3").disks, lab.machine("node3").active) == ({}, {})
    assert lab.machine("node1").disks == {disk.uuid: disk.size for disk in vm.disks}
    (place_call,) = lab.nodes.calls_of(calls.BlockdevPlace, "node1")
    assert [disk.uuid for disk in place_call.disks] == [disk.uuid for disk in vm.disks]
    assert [call.on for call in lab.nodes.calls_of(calls.BlockdevCreate, "node1")] == [("pv1",), ("pv1",)]
    assert bool(lab.machine("node2").active) is bool(lab.machine("node1").active) is start
    turned = [call for call in lab.nodes.calls_of(calls.BlockdevAssemble, "node2") if call.disk.mirror]
    assert turned[-1].disk.mirror
    assert turned[-1].disk.mirror.remote == "203.0.113.1"


async def test_a_secondary_node_that_burnt_is_replaced_by_one_that_is_chosen(lab: build.MemoryCluster) -> None:
    await mirrored(lab, start=True)
    lab.put(msgspec.structs.replace(lab.state.node("node3"), offline=True))
    await lab.run(replace("replace_new_secondary"))
    assert lab.state.instance("new").nodes == ("n2", "n1")
    assert any("node3" in line for line in lab.log.lines if line.startswith("WARNING"))


async def test_a_primary_node_that_fails_meanwhile_leaves_the_recorded_pair(lab: build.MemoryCluster) -> None:
    vm = await mirrored(lab, start=True)
    plan = await lab.plan(replace("replace_new_secondary", remote_node="node1"))
    done = []
    for step in plan.steps:
        done.append(step)
        if step.text.startswith("connect to node1"):
            break
        await lab.do(step)
    lab.machine("node2").down = True
    with pytest.raises(errors.RemoteError):
        await lab.do(done[-1])
    # If an undo failed, the state would keep the new node, whose disks are gone.
    for step in reversed(done):
        await lab.undo(step)
    assert lab.machine("node1").disks == {}
    assert lab.machine("node3").disks == {disk.uuid: disk.size for disk in vm.disks}
    assert any("not connected to node3 again" in line for line in lab.log.lines)


@pytest.mark.parametrize(("mode", "node"), [("replace_on_primary", "node2"), ("replace_on_secondary", "node3")])
async def test_volumes_of_one_side_are_recreated(lab: build.MemoryCluster, mode: str, node: str) -> None:
    vm = await mirrored(lab, start=True)
    lab.nodes.made.clear()
    await lab.run(replace(mode, disks=[1]))
    child_calls = [(name, type(call).__name__) for name, call in lab.nodes.made if "children" in type(call).__name__]
    used = node == "node2"  # under a disk that a guest writes to
    assert child_calls == ([(node, "BlockdevRemovechildren"), (node, "BlockdevAddchildren")] if used else [])
    created = [call.disk.uuid for call in lab.nodes.calls_of(calls.BlockdevCreate, node)]
    assert created == ([child.uuid for child in vm.disks[1].children] if used else [vm.disks[1].uuid])
    assert not lab.nodes.calls_of(calls.BlockdevCreate, "node3" if used else "node2")


@pytest.mark.parametrize(("mode", "node"), [("replace_on_primary", "node2"), ("replace_auto", "node3")])
async def test_a_lost_side_is_recreated_while_the_disks_are_not_in_use(
    lab: build.MemoryCluster, mode: str, node: str
) -> None:
    vm = await mirrored(lab)
    lab.machine(node).disks.clear()
    await lab.run(replace(mode))
    assert lab.machine(node).disks == {disk.uuid: disk.size for disk in vm.disks}
    assert (lab.machine("node2").active, lab.machine("node3").active) == ({}, {})


def state(local: str) -> calls.DiskState:
    return calls.DiskState(path="/dev/drbd0", size=64, active=True, local=local)


async def test_automatic_replacement_takes_the_broken_side(lab: build.MemoryCluster) -> None:
    vm = await mirrored(lab)
    every = frozenset(disk.uuid for disk in vm.disks)
    good, bad = (state("UpToDate"),) * 2, (state("UpToDate"), state("Diskless"))
    assert disk_replace.broken_side(vm, every, {"n2": good, "n3": good}) == ""
    assert disk_replace.broken_side(vm, every, {"n2": good, "n3": bad}) == "replace_on_secondary"
    assert disk_replace.broken_side(vm, every, {"n2": bad, "n3": good}) == "replace_on_primary"
    with pytest.raises(errors.WrongStateError, match="broken on both nodes"):
        disk_replace.broken_side(vm, every, {"n2": bad})
    before = lab.state.instance("new")
    await lab.run(replace("replace_auto"))
    assert lab.state.instance("new") == before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": "replace_new_secondary", "remote_node": "node3"}, "node node3 already has the disks of instance new"),
        ({"mode": "replace_new_secondary", "disks": [0]}, "a new secondary node gets all disks of instance new"),
        (
            {"mode": "replace_on_primary", "remote_node": "node1"},
            "mode replace_on_primary takes no new node: omit node1",
        ),
        ({"mode": "replace_on_primary", "disks": [4]}, "instance new has no disk 4"),
    ],
)
async def test_replacement_that_is_refused(lab: build.MemoryCluster, fields: dict[str, object], message: str) -> None:
    await mirrored(lab)
    assert message in str(await lab.refused(replace(str(fields.pop("mode")), **fields)))


async def test_the_only_good_copy_is_not_given_up(lab: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    await mirrored(lab, start=True)
    monkeypatch.setattr(build.Machine, "find", lambda *_: state("Inconsistent"))
    assert "would have the only copy" in str(await lab.refused(replace("replace_on_primary")))


async def test_the_newest_copy_is_not_given_up(lab: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    await mirrored(lab, start=True)
    alone = msgspec.structs.replace(state("UpToDate"), connection="WFConnection")
    monkeypatch.setattr(build.Machine, "find", lambda *_: alone)
    with pytest.raises(errors.WrongStateError, match="not connected to the primary copy"):
        await lab.run(replace("replace_on_primary"))
    assert not lab.nodes.calls_of(calls.BlockdevRemovechildren)


async def test_disks_of_one_node_have_no_side_to_replace(lab: build.MemoryCluster) -> None:
    await plain(lab)
    assert "no mirrored disks" in str(await lab.refused(replace("replace_auto")))


async def test_running_instances_with_inactive_disks_are_reported(lab: build.MemoryCluster) -> None:
    await plain(lab, start=True)
    verify = opcodes.GroupVerifyDisks(group_name="default")
    assert await lab.run(verify) == [{}, [], {}]
    lab.machine("node2").active.clear()
    verify_result = cast("list[object]", await lab.run(verify))
    assert "new" in cast("list[str]", verify_result[1])
    lab.machine("node2").disks.clear()
    verify_result = cast("list[object]", await lab.run(verify))
    assert cast("dict[str, object]", verify_result[2])["new"] == [("node2", "disk/0"), ("node2", "disk/1")]
    lab.machine("node2").down = True
    assert "node2" in cast("dict[str, str]", cast("list[object]", await lab.run(verify))[0])


async def test_a_look_at_all_disks_is_a_job_for_each_group(lab: build.MemoryCluster) -> None:
    plan = await lab.plan(opcodes.ClusterVerifyDisks())
    assert plan.jobs == [[opcodes.GroupVerifyDisks(group_name="default")]]


PHYSICAL = calls.PhysicalVolume(name="/dev/sda", size=900, free=500)


@pytest.fixture
def physical(monkeypatch: pytest.MonkeyPatch) -> list[calls.PhysicalVolume]:
    physical_disks, answer = [PHYSICAL], build.Machine.answer

    def answered(machine: build.Machine, call: calls.Call[object]) -> object:
        if isinstance(call, calls.VgList):
            return (calls.VolumeGroup(name="xenvg", size=900, free=500, extent=4.0, physical=(*physical_disks,)),)
        if isinstance(call, calls.PvChange):
            physical_disks[0] = msgspec.structs.replace(PHYSICAL, allocatable=call.allocatable)
        return answer(machine, call)

    monkeypatch.setattr(build.Machine, "answer", answered)
    return physical_disks


async def test_a_physical_volume_is_kept_from_new_disks(
    lab: build.MemoryCluster, physical: list[calls.PhysicalVolume]
) -> None:
    change = {"OP_ID": "OP_NODE_MODIFY_STORAGE", "node_name": "node2", "storage_type": "lvm-pv", "name": "/dev/sda"}
    for word in ("no", "no", "yes"):
        await lab.run(opcodes.decode({**change, "changes": {"allocatable": word == "yes"}}))
        listed = opcodes.NodeQueryStorage(nodes=("node2",), storage_type="lvm-pv")
        assert await lab.run(listed) == [["node2", "lvm-pv", "/dev/sda", 900, 400, 500, word == "yes"]]
    assert len(lab.nodes.calls_of(calls.PvChange, "node2")) == 2
    refused = await lab.refused(opcodes.decode({**change, "name": "/dev/sdz", "changes": {"allocatable": False}}))
    assert "node node2 has no physical volume /dev/sdz; its physical volumes: /dev/sda" in str(refused)

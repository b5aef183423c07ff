"""Disks made those of another template, in place between plain and drbd, by copying otherwise; what is refused."""

from collections.abc import Sequence

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import cluster, instance, opcodes
from gantry.operations import hook_environment
from gantry.rpc import calls

TEMPLATES = ("file", "diskless", "sharedfile", "plain", "drbd", "ext")
OWNER = msgspec.structs.replace(build.OWNER, enabled_disk_templates=TEMPLATES)
VOLUMES = tuple(
    instance.Disk(
        uuid=f"d{n}", dev_type="plain", size=64, name=f"disk{n}", mode=mode, logical_id=("fast", f"volume{n}")
    )
    for n, mode in ((1, "rw"), (2, "ro"))
)
VM = msgspec.structs.replace(build.VM, disk_template="plain", disks=VOLUMES)
ROOMY = msgspec.structs.replace(
    build.STATUS, storage=(calls.StorageInfo(kind="plain", path="fast", free=5000, total=9000),)
)


def convert(template: str, **fields: object) -> opcodes.InstanceSetParams:
    return msgspec.convert(
        {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1", "disk_template": template} | fields,
        opcodes.InstanceSetParams,
    )


@pytest.fixture
def lab() -> build.MemoryCluster:
    """An instance on two plain volumes of node 1; the other nodes are empty."""
    lab = build.MemoryCluster()
    lab.put(OWNER, VM)
    lab.machine("node1").disks = {"d1": 64, "d2": 64}
    for name in ("node1", "node2", "node3"):
        lab.machine(name).status = ROOMY
    return lab


def disks(lab: build.MemoryCluster) -> tuple[instance.Disk, ...]:
    return lab.state.instance("vm1").disks


def order(lab: build.MemoryCluster) -> list[tuple[str, str, str]]:
    """Return what was made and removed, in order: node, call, and the kind of the disk."""
    return [
        (node, type(call).__name__, call.disk.dev_type)
        for node, call in lab.nodes.made
        if isinstance(call, calls.BlockdevCreate | calls.BlockdevRemove)
    ]


async def test_plain_volumes_become_the_data_of_mirrored_disks(lab: build.MemoryCluster) -> None:
    assert await lab.run(convert("drbd", remote_node="node2")) == [("disk_template", "drbd")]
    vm = lab.state.instance("vm1")
    assert (vm.disk_template, vm.nodes) == ("drbd", ("n1", "n2"))
    for disk, old in zip(vm.disks, VOLUMES, strict=True):
        data, meta = disk.children
        assert (disk.uuid, disk.size, disk.name, disk.mode) == (old.uuid, old.size, old.name, old.mode)
        assert (data.logical_id, data.size) == (old.logical_id, 64)
        assert (meta.logical_id[0], meta.size) == ("fast", 128)
        assert disk.mirror is not None
        assert {*disk.mirror.minors} == {"n1", "n2"}
    opened = lab.nodes.calls_of(calls.BlockdevOpen, "node1")
    assert [call.force for call in opened] == [True, True]
    assert not lab.nodes.calls_of(calls.BlockdevOpen, "node2")
    assert not lab.nodes.calls_of(calls.BlockdevRemove)
    assert [lab.machine(name).active for name in ("node1", "node2")] == [{}, {}]


async def test_metadata_never_has_the_name_of_an_older_one(lab: build.MemoryCluster) -> None:
    names = []
    for _ in range(2):
        await lab.run(convert("drbd", remote_node="node2"))
        names += [disk.children[1].logical_id for disk in disks(lab)]
        await lab.run(convert("plain"))
    assert len({*names}) == 4
    assert [disk.logical_id for disk in disks(lab)] == [disk.logical_id for disk in VOLUMES]


async def test_without_waiting_the_second_node_copies_on_by_itself(lab: build.MemoryCluster) -> None:
    lab.machine("node1").degraded = 2
    await lab.run(convert("drbd", remote_node="node2", wait_for_sync=False))
    assert lab.machine("node1").degraded == 2
    assert lab.machine("node1").active == {"d1": "primary", "d2": "primary"}


async def test_the_second_node_is_chosen_where_none_is_named(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.NODES[1], drained=True))
    plan = await lab.plan(convert("drbd"))
    assert any("the allocator chose node3" in line for line in plan.lines)
    await lab.run(convert("drbd", iallocator="gantry"))
    assert lab.state.instance("vm1").nodes == ("n1", "n3")


async def test_mirrored_disks_become_plain_where_the_instance_is(lab: build.MemoryCluster) -> None:
    await lab.run(convert("drbd", remote_node="node2"))
    metadata = [disk.children[1].uuid for disk in disks(lab)]
    lab.nodes.made.clear()
    await lab.run(convert("plain"))
    assert (disks(lab), lab.state.instance("vm1").nodes) == (VOLUMES, ("n1",))
    assert lab.machine("node2").disks == {}
    assert [call.disk.uuid for call in lab.nodes.calls_of(calls.BlockdevRemove, "node1")] == metadata
    assert [call.force for call in lab.nodes.calls_of(calls.BlockdevOpen)] == [False, False]
    assert [*lab.state.instance("vm1").numbers()] == []


@pytest.mark.parametrize("marked", [True, False])
async def test_a_dead_second_node_does_not_keep_disks_mirrored(lab: build.MemoryCluster, marked: bool) -> None:
    await lab.run(convert("drbd", remote_node="node2"))
    lab.machine("node2").down = True
    lab.put(msgspec.structs.replace(build.NODES[1], offline=marked))
    await lab.run(convert("plain"))
    assert disks(lab) == VOLUMES
    assert any("WARNING ignored" in line and "node2" in line for line in lab.log.lines)


async def test_a_copy_that_is_not_whole_is_not_left_alone(
    lab: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lab.run(convert("drbd", remote_node="node2"))
    behind = calls.DiskState(path="/dev/drbd0", size=64, active=True, local="Inconsistent", connection="SyncTarget")
    monkeypatch.setattr(build.Machine, "find", lambda *_: behind)
    with pytest.raises(
        errors.WrongStateError,
        match="disk 0 of instance vm1 on node node1 is not a usable copy: the copy is Inconsistent, not UpToDate",
    ):
        await lab.run(convert("plain"))
    assert lab.state.instance("vm1").nodes == ("n1", "n2")
    assert not lab.nodes.calls_of(calls.BlockdevRemove)


async def test_by_force_the_primary_nodes_copy_is_kept_as_it_is(lab: build.MemoryCluster) -> None:
    await lab.run(convert("drbd", remote_node="node2"))
    lab.nodes.made.clear()
    await lab.run(convert("plain", force=True))
    assert disks(lab) == VOLUMES
    assert not lab.nodes.calls_of(calls.BlockdevAssemble)


async def test_disks_are_plain_again_when_the_second_node_dies(lab: build.MemoryCluster) -> None:
    plan = await lab.plan(convert("drbd", remote_node="node2"))
    steps = [step for step in plan.steps if not step.text.startswith(("wait", "deactivate"))]
    for step in steps:
        await lab.do(step)
    lab.machine("node2").down = True
    for step in reversed(steps):
        await lab.undo(step)
    assert (lab.machine("node1").disks, lab.machine("node1").active) == ({"d1": 64, "d2": 64}, {})
    assert (
        len([line for line in lab.log.lines if "not undone, check the secondary node when it answers again" in line])
        == 4
    )


@pytest.mark.parametrize(
    ("template", "fields", "expected_ids"),
    [
        ("file", {}, [("file", "/file/vm1/u{}"), ("file", "/file/vm1/u{}")]),
        ("sharedfile", {}, [("sharedfile", "/file/vm1/u{}"), ("sharedfile", "/file/vm1/u{}")]),
        ("ext", {"ext_params": {"provider": "san", "tier": "gold"}}, [("san", "u{}.disk0"), ("san", "u{}.disk1")]),
    ],
)
async def test_other_templates_are_copied_to_on_the_same_node(
    lab: build.MemoryCluster, template: str, fields: dict[str, object], expected_ids: Sequence[tuple[str, str]]
) -> None:
    await lab.run(convert(template, **fields))
    new = disks(lab)
    assert [disk.dev_type for disk in new] == [template] * 2
    for disk, old, (first, last) in zip(new, VOLUMES, expected_ids, strict=True):
        assert disk.logical_id == (first, last.format(disk.uuid.removeprefix("u")))
        assert disk.uuid != old.uuid
        assert (disk.size, disk.name, disk.mode) == (old.size, old.name, old.mode)
    if template == "ext":
        assert new[0].params == {"provider": "san", "tier": "gold"}
    sent = lab.nodes.calls_of(calls.StreamSend, "node1")
    assert [call.end.disk and call.end.disk.uuid for call in sent] == ["d1", "d2"]
    assert lab.machine("node1").disks == {disk.uuid: 64 for disk in new}
    assert lab.machine("node1").active == {}
    creation, removal = ("node1", "BlockdevCreate", template), ("node1", "BlockdevRemove", "plain")
    assert order(lab) == [creation, creation, removal, removal]


async def test_a_read_only_disk_is_written_to_while_it_is_filled(lab: build.MemoryCluster) -> None:
    await lab.run(convert("file"))
    lab.nodes.made.clear()
    await lab.run(convert("plain"))
    first = {call.disk.uuid: call.disk.mode for call in reversed(lab.nodes.calls_of(calls.BlockdevAssemble))}
    assert [first[disk.uuid] for disk in disks(lab)] == ["rw", "rw"]
    assert [disk.mode for disk in disks(lab)] == ["rw", "ro"]
    assert [disk.logical_id[0] for disk in disks(lab)] == ["xenvg"] * 2


async def test_a_file_that_stays_one_keeps_its_format(lab: build.MemoryCluster) -> None:
    image = instance.Disk(uuid="d1", dev_type="file", size=64, logical_id=("file", "/a/b"), params={"format": "qcow2"})
    lab.put(msgspec.structs.replace(VM, disk_template="file", disks=(image,)))
    await lab.run(convert("sharedfile"))
    assert disks(lab)[0].params == {"format": "qcow2"}
    await lab.run(convert("plain"))
    assert disks(lab)[0].params == {}


async def test_an_instance_without_disks_only_has_another_word(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(VM, disks=()))
    for template in ("diskless", "file"):
        await lab.run(convert(template))
        assert lab.state.instance("vm1").disk_template == template
    assert {type(call) for _, call in lab.nodes.made} == {calls.InstanceInfo}


async def test_other_changes_go_with_a_conversion_and_hooks_run(lab: build.MemoryCluster) -> None:
    op = convert("drbd", remote_node="node2", beparams={"vcpus": 2})
    plan = await lab.plan(op)
    assert plan.hooks
    before = hook_environment.environment(lab.state, plan.hooks, op_code=op.op_id, phase="pre")
    assert before["GANETI_NEW_DISK_TEMPLATE"] == "drbd"
    assert before["GANETI_INSTANCE_SECONDARIES"] == "node2"
    assert "disk_template: drbd" in plan.lines
    assert await lab.run(op) == [("disk_template", "drbd"), ("be/vcpus", 2)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"disk_template": "drdb"}, "unknown disk template drdb; did you mean drbd?"),
        ({"disk_template": "plain"}, "the disks of instance vm1 already have template plain"),
        ({"disk_template": "diskless"}, "instance vm1 has disks, so it cannot become diskless"),
        ({"disk_template": "file", "remote_node": "node2"}, "template file has no secondary node: omit node node2"),
        ({"disk_template": "file", "ext_params": {"provider": "san"}}, "template file has no storage provider"),
        (
            {"disk_template": "file", "disks": [["add", {"size": 8}]]},
            "disks cannot be changed and converted in the same request",
        ),
        ({"disk_template": "ext"}, "no storage provider specified for the disks"),
        ({"disk_template": "ext", "ext_params": {"provider": "san", "access": "x"}}, "'x' is not one of kernelspace"),
        ({"remote_node": "node1"}, "node node1 already has the disks of instance vm1"),
        ({"remote_node": "node9"}, "no such node: node9"),
        ({"remote_node": "node2", "iallocator": "hail"}, "a node and an allocator exclude each other"),
        ({"iallocator": "hail"}, "allocator hail cannot choose a secondary node alone"),
        (
            {"disk_template": None, "remote_node": "node2", "beparams": {"vcpus": 2}},
            "specify the new disk template with -t",
        ),
    ],
)
async def test_what_is_refused(lab: build.MemoryCluster, fields: dict[str, object], message: str) -> None:
    error = await lab.refused(convert("drbd", **({"disk_template": "drbd"} | fields)))
    assert message in str(error)
    assert isinstance(error, errors.PrerequisiteError)


@pytest.mark.promise("cluster-95")
@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"offline": True}, "node node2 cannot take the disks of instance vm1: the node is offline"),
        ({"drained": True}, "node node2 cannot take the disks of instance vm1: the node is drained"),
        ({"vm_capable": False}, "node node2 cannot take the disks of instance vm1: the node is not vm_capable"),
        ({"group": "g2"}, "node node2 is not in the node group of the other copy of the disks of instance vm1"),
    ],
)
async def test_a_second_node_that_cannot_have_copies_is_refused(
    lab: build.MemoryCluster, node: dict[str, object], message: str
) -> None:
    lab.put(cluster.NodeGroup(uuid="g2", name="other", networks=build.GROUP.networks))
    lab.put(msgspec.structs.replace(build.NODES[1], **node))
    assert message in str(await lab.refused(convert("drbd", remote_node="node2")))


async def test_templates_that_have_nothing_in_common_need_a_way_between(lab: build.MemoryCluster) -> None:
    await lab.run(convert("drbd", remote_node="node2"))
    error = await lab.refused(convert("file"))
    assert "disks of template drbd cannot be converted directly to file" in str(error)
    assert error.hint == "convert the disks to plain first"


async def test_an_instance_that_runs_keeps_its_disks(lab: build.MemoryCluster) -> None:
    await lab.run(opcodes.InstanceStartup(instance_name="vm1"))
    error = await lab.refused(convert("drbd", remote_node="node2"))
    assert ("instance vm1 is running" in str(error), error.hint) == (True, "gnt-instance stop vm1")


async def test_a_primary_node_that_is_offline_converts_nothing(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.NODES[0], offline=True))
    assert "node node1 of instance vm1 is offline" in str(await lab.refused(convert("file")))


async def test_room_and_policy_are_looked_at_first(lab: build.MemoryCluster) -> None:
    full = calls.StorageInfo(kind="file", path="/file", free=100, total=9000)
    lab.machine("node1").status = msgspec.structs.replace(build.STATUS, storage=(full,))
    error = await lab.refused(convert("file"))
    assert isinstance(error, errors.NoRoomError)
    assert "node node1 cannot take the disks of instance vm1: needs 128 MiB of disk space, 100 MiB are free" in str(
        error
    )
    lab.put(msgspec.structs.replace(OWNER, ipolicy=cluster.Policy(disk_templates=("plain",))))
    assert "violates the instance policy" in str(await lab.refused(convert("drbd", remote_node="node2")))

"""Disks that leave an instance with what is on them, and come to another one."""

from typing import cast

import msgspec
import pytest
from msgspec import structs
from tests.operations import build
from tests.operations.disk import test_disks

from gantry import errors
from gantry.model import instance, lock, opcodes
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

Disk = opcodes.DiskSpec


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster(*(test_disks.OWNER if value is build.OWNER else value for value in build.FIRST))


async def create_instance(
    lab: build.MemoryCluster, name: str, *disks: opcodes.DiskSpec, template: str = "plain", **fields: object
) -> instance.Instance:
    await lab.run(test_disks.op(template, *disks, instance_name=name, **fields))
    return lab.state.instance(name)


def change(name: str, *changes: list[object], **fields: object) -> opcodes.Opcode:
    return opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": name, "disks": list(changes), **fields})


async def test_a_disk_without_an_instance_is_attached_to_another_one(lab: build.MemoryCluster) -> None:
    old = await create_instance(lab, "old", Disk(size=64), Disk(size=128, name="data"))
    await create_instance(lab, "new", Disk(size=8))
    report = await lab.run(change("old", ["detach", "data", {}]))
    assert report == [("disk/1", "detach")]
    assert lab.state.instance("old").disks == old.disks[:1]
    loose = lab.state.detached_disk("data")
    assert (loose.disk, loose.nodes, loose.instance) == (old.disks[1], ("n2",), "old")
    assert lab.machine("node2").disks[loose.uuid] == 128
    await lab.run(change("new", ["attach", 0, {"uuid": loose.uuid}]))
    assert [disk.size for disk in lab.state.instance("new").disks] == [128, 8]
    assert lab.state.instance("new").disks[0] == old.disks[1]
    assert not lab.state.disks
    assert not lab.state.disks_on
    assert lab.machine("node2").owners[loose.uuid] == "new"


async def test_a_running_guest_gives_a_disk_up_and_another_one_gets_it(lab: build.MemoryCluster) -> None:
    old = await create_instance(lab, "old", Disk(size=64), Disk(size=128), start=True)
    await create_instance(lab, "new", Disk(size=8), start=True)
    uuid = old.disks[1].uuid
    await lab.run(change("old", ["detach", {}]))
    assert [call.disk.uuid for call in lab.nodes.calls_of(calls.DiskUnplug)] == [uuid]
    assert uuid not in lab.machine("node2").active
    await lab.run(change("new", ["attach", {"uuid": uuid}]))
    assert [call.disk.uuid for call in lab.nodes.calls_of(calls.DiskPlug)] == [uuid]
    assert uuid in lab.machine("node2").active


async def test_a_file_moves_to_the_place_of_its_new_instance(lab: build.MemoryCluster) -> None:
    old = await create_instance(lab, "old", Disk(size=64), Disk(size=8), template="file")
    await create_instance(lab, "new", template="diskless")
    uuid = old.disks[0].uuid
    await lab.run(change("old", ["detach", 0, {}]))
    await lab.run(change("new", ["attach", {"uuid": uuid}]))
    new = lab.state.instance("new")
    assert (new.disk_template, new.disks[0].logical_id) == ("file", ("file", f"/file/new/{uuid}"))
    assert lab.machine("node2").places[uuid] == ("file", f"/file/new/{uuid}")


async def test_a_mirrored_disk_keeps_its_minors_and_port(lab: build.MemoryCluster) -> None:
    old = await test_disks.mirrored(lab, "old")
    mirror = cast("instance.Mirror", old.disks[1].mirror)
    await lab.run(change("old", ["detach", {}]))
    assert lab.state.disks[old.disks[1].uuid].nodes == ("n2", "n3")
    # A new one must not get what the disk still has.
    new = await test_disks.mirrored(lab)
    taken = {number for disk in (*old.disks, *new.disks) for number in instance.numbers_of((disk,))}
    assert len(taken) == 4 * 3
    await lab.run(change("new", ["attach", {"uuid": old.disks[1].uuid}]))
    assert lab.state.instance("new").disks[2].mirror == mirror
    await lab.run(opcodes.InstanceRemove(instance_name="new"))
    assert instance.Number(instance.PORTS, mirror.port) not in lab.state.numbers


async def test_an_attach_shares_the_node_of_a_copy_that_the_instance_gets_with_the_disk(
    lab: build.MemoryCluster,
) -> None:
    old = await test_disks.mirrored(lab, "old")
    await lab.run(change("old", ["detach", 1, {}], ["detach", 0, {}]))
    await create_instance(lab, "new", template="diskless")
    attach = change("new", ["attach", {"uuid": old.disks[0].uuid}])
    locks = lab.unit(attach).locks(lab.state)
    assert lab.state.instance("new").nodes == ("n2",)
    assert {locks.get((lock.Level.NODE, node)) for node in old.nodes} == {lock.Mode.SHARED}
    await lab.run(attach)
    assert {*lab.state.instance("new").nodes} == {*old.nodes}


@pytest.mark.parametrize("flag", ["offline", "drained"])
async def test_a_mirrored_disk_with_a_copy_on_a_node_that_takes_none_is_not_attached(
    lab: build.MemoryCluster, flag: str
) -> None:
    old = await test_disks.mirrored(lab, "old")
    await lab.run(change("old", ["detach", 1, {}], ["detach", 0, {}]))
    await create_instance(lab, "new", template="diskless")
    first, second = (change("new", ["attach", {"uuid": disk.uuid}]) for disk in old.disks)
    node = lab.state.node("node3")
    flagged = msgspec.structs.replace(node, offline=flag == "offline", drained=flag == "drained")
    lab.put(flagged)
    text = f"disk {{}} has a copy on node node3, and that node is {flag}; gnt-node modify --{flag} no node3"
    assert text.format(old.disks[0].uuid) in str(await lab.refused(first))
    lab.put(node)
    await lab.run(first)
    lab.put(flagged)
    if flag == "offline":
        assert text.format(old.disks[1].uuid) in str(await lab.refused(second))
    else:
        await lab.run(second)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("old", [["detach", 0, {"mode": "ro"}]], "detach of a disk takes no parameters"),
        ("old", [["detach", 7, {}]], "the instance has no disk 7"),
        ("old", [["add", {"size": 8}], ["detach", {}]], "disk 1 is added and removed in the same request"),
        ("new", [["attach", {"uuid": "nobody"}]], "there is no disk nobody without an instance"),
        ("new", [["attach", {}]], "attach takes either the UUID or the name of a disk, nothing else"),
        (
            "new",
            [["attach", {"name": "data", "mode": "ro"}]],
            "attach takes either the UUID or the name of a disk, nothing else",
        ),
        ("new", [["attach", {"name": "data"}], ["attach", {"name": "data"}]], "is attached twice"),
        ("new", [["attach", 9, {"name": "data"}]], "a disk cannot be added at index '9'"),
        ("files", [["attach", {"name": "data"}]], "disk u2 has template plain, but instance files has file disks"),
        ("elsewhere", [["attach", {"name": "data"}]], "disk u2 is on node node2, where instance elsewhere is not"),
        ("new", [["modify", 0, {"uuid": "other"}]], "uuid of a disk cannot be changed"),
    ],
)
async def test_what_is_refused(lab: build.MemoryCluster, name: str, changes: list[list[object]], message: str) -> None:
    await create_instance(lab, "old", Disk(size=64), Disk(size=128, name="data"))
    await create_instance(lab, "new", Disk(size=8))
    await create_instance(lab, "files", Disk(size=8), template="file")
    await create_instance(lab, "elsewhere", Disk(size=8), pnode="node3")
    await lab.run(change("old", ["detach", "data", {}]))
    before = lab.state
    error = await lab.refused(change(name, *changes))
    assert message in str(error)
    assert isinstance(error, errors.PrerequisiteError)
    assert lab.state is before


async def test_a_running_guest_keeps_its_last_disk(lab: build.MemoryCluster) -> None:
    await create_instance(lab, "old", Disk(size=64), start=True)
    assert "last disk" in str(await lab.refused(change("old", ["detach", {}])))


async def test_a_disk_that_is_not_on_its_node_is_not_attached(lab: build.MemoryCluster) -> None:
    old = await create_instance(lab, "old", Disk(size=64), Disk(size=128))
    await lab.run(change("old", ["detach", {}]))
    del lab.machine("node2").disks[old.disks[1].uuid]
    error = await lab.refused(change("old", ["attach", {"uuid": old.disks[1].uuid}]))
    assert "detached disk u2 does not exist on node node2" in str(error)


async def test_a_node_and_a_cluster_with_such_disks_stay(lab: build.MemoryCluster) -> None:
    old = await create_instance(lab, "old", Disk(size=64))
    await lab.run(change("old", ["detach", {}]))
    for name in ("old", "vm1"):
        await lab.run(opcodes.InstanceRemove(instance_name=name))
    with pytest.raises(errors.WrongStateError, match=f"node node2 is in use by detached disk {old.disks[0].uuid}"):
        lab.change([states.Delete("nodes", "n2")])
    assert "1 disks without an instance" in str(await lab.refused(opcodes.ClusterDestroy()))


async def test_no_two_disks_have_a_number_and_none_is_in_two_places(lab: build.MemoryCluster) -> None:
    old = await test_disks.mirrored(lab, "old")
    loose = instance.DetachedDisk(disk=old.disks[0], nodes=("n2", "n3"), instance="old")
    with pytest.raises(errors.NotUniqueError, match="in use by a disk of instance old"):
        lab.put(loose)
    file = instance.DetachedDisk(disk=build.DISK, nodes=("n1",), instance="vm1")
    with pytest.raises(errors.InternalError, match="and without an instance too"):
        lab.put(file, structs.replace(build.VM, serial_no=2))
    with pytest.raises(errors.NotFoundError, match="no such node: n9"):
        lab.put(structs.replace(file, nodes=("n9",)))

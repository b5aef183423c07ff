"""Disks that leave an instance with what is on them, and come to another one."""

from typing import cast

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
def house() -> build.House:
    return build.House(*(test_disks.OWNER if value is build.OWNER else value for value in build.FIRST))


async def create_instance(
    house: build.House, name: str, *disks: opcodes.DiskSpec, template: str = "plain", **fields: object
) -> instance.Instance:
    await house.run(test_disks.op(template, *disks, instance_name=name, **fields))
    return house.state.instance(name)


def change(name: str, *changes: list[object], **fields: object) -> opcodes.Opcode:
    return opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": name, "disks": list(changes), **fields})


async def test_a_disk_without_an_instance_is_attached_to_another_one(house: build.House) -> None:
    old = await create_instance(house, "old", Disk(size=64), Disk(size=128, name="data"))
    await create_instance(house, "new", Disk(size=8))
    report = await house.run(change("old", ["detach", "data", {}]))
    assert report == [("disk/1", "detach")]
    assert house.state.instance("old").disks == old.disks[:1]
    loose = house.state.detached_disk("data")
    assert (loose.disk, loose.nodes, loose.instance) == (old.disks[1], ("n2",), "old")
    assert house.machine("node2").disks[loose.uuid] == 128
    await house.run(change("new", ["attach", 0, {"uuid": loose.uuid}]))
    assert [disk.size for disk in house.state.instance("new").disks] == [128, 8]
    assert house.state.instance("new").disks[0] == old.disks[1]
    assert not house.state.disks
    assert not house.state.disks_on
    assert house.machine("node2").owners[loose.uuid] == "new"


async def test_a_running_guest_gives_a_disk_up_and_another_one_gets_it(house: build.House) -> None:
    old = await create_instance(house, "old", Disk(size=64), Disk(size=128), start=True)
    await create_instance(house, "new", Disk(size=8), start=True)
    uuid = old.disks[1].uuid
    await house.run(change("old", ["detach", {}]))
    assert [call.disk.uuid for call in house.nodes.calls_of(calls.DiskUnplug)] == [uuid]
    assert uuid not in house.machine("node2").active
    await house.run(change("new", ["attach", {"uuid": uuid}]))
    assert [call.disk.uuid for call in house.nodes.calls_of(calls.DiskPlug)] == [uuid]
    assert uuid in house.machine("node2").active


async def test_a_file_moves_to_the_place_of_its_new_instance(house: build.House) -> None:
    old = await create_instance(house, "old", Disk(size=64), Disk(size=8), template="file")
    await create_instance(house, "new", template="diskless")
    uuid = old.disks[0].uuid
    await house.run(change("old", ["detach", 0, {}]))
    await house.run(change("new", ["attach", {"uuid": uuid}]))
    new = house.state.instance("new")
    assert (new.disk_template, new.disks[0].logical_id) == ("file", ("file", f"/file/new/{uuid}"))
    assert house.machine("node2").places[uuid] == ("file", f"/file/new/{uuid}")


async def test_a_mirrored_disk_keeps_its_minors_and_port(house: build.House) -> None:
    old = await test_disks.mirrored(house, "old")
    mirror = cast("instance.Mirror", old.disks[1].mirror)
    await house.run(change("old", ["detach", {}]))
    assert house.state.disks[old.disks[1].uuid].nodes == ("n2", "n3")
    # A new one must not get what the disk still has.
    new = await test_disks.mirrored(house)
    taken = {number for disk in (*old.disks, *new.disks) for number in instance.numbers_of((disk,))}
    assert len(taken) == 4 * 3
    await house.run(change("new", ["attach", {"uuid": old.disks[1].uuid}]))
    assert house.state.instance("new").disks[2].mirror == mirror
    await house.run(opcodes.InstanceRemove(instance_name="new"))
    assert instance.Number(instance.PORTS, mirror.port) not in house.state.numbers


async def test_an_attach_shares_the_node_of_a_copy_that_the_instance_gets_with_the_disk(house: build.House) -> None:
    old = await test_disks.mirrored(house, "old")
    await house.run(change("old", ["detach", 1, {}], ["detach", 0, {}]))
    await create_instance(house, "new", template="diskless")
    attach = change("new", ["attach", {"uuid": old.disks[0].uuid}])
    locks = house.unit(attach).locks(house.state)
    assert house.state.instance("new").nodes == ("n2",)
    assert {locks.get((lock.Level.NODE, node)) for node in old.nodes} == {lock.Mode.SHARED}
    await house.run(attach)
    assert {*house.state.instance("new").nodes} == {*old.nodes}


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
async def test_what_is_refused(house: build.House, name: str, changes: list[list[object]], message: str) -> None:
    await create_instance(house, "old", Disk(size=64), Disk(size=128, name="data"))
    await create_instance(house, "new", Disk(size=8))
    await create_instance(house, "files", Disk(size=8), template="file")
    await create_instance(house, "elsewhere", Disk(size=8), pnode="node3")
    await house.run(change("old", ["detach", "data", {}]))
    before = house.state
    error = await house.refused(change(name, *changes))
    assert message in str(error)
    assert isinstance(error, errors.PrerequisiteError)
    assert house.state is before


async def test_a_running_guest_keeps_its_last_disk(house: build.House) -> None:
    await create_instance(house, "old", Disk(size=64), start=True)
    assert "last disk" in str(await house.refused(change("old", ["detach", {}])))


async def test_a_disk_that_is_not_on_its_node_is_not_attached(house: build.House) -> None:
    old = await create_instance(house, "old", Disk(size=64), Disk(size=128))
    await house.run(change("old", ["detach", {}]))
    del house.machine("node2").disks[old.disks[1].uuid]
    error = await house.refused(change("old", ["attach", {"uuid": old.disks[1].uuid}]))
    assert "detached disk u2 does not exist on node node2" in str(error)


async def test_a_node_and_a_cluster_with_such_disks_stay(house: build.House) -> None:
    old = await create_instance(house, "old", Disk(size=64))
    await house.run(change("old", ["detach", {}]))
    for name in ("old", "vm1"):
        await house.run(opcodes.InstanceRemove(instance_name=name))
    with pytest.raises(errors.WrongStateError, match=f"node node2 is in use by detached disk {old.disks[0].uuid}"):
        house.change([states.Delete("nodes", "n2")])
    assert "1 disks without an instance" in str(await house.refused(opcodes.ClusterDestroy()))


async def test_no_two_disks_have_a_number_and_none_is_in_two_places(house: build.House) -> None:
    old = await test_disks.mirrored(house, "old")
    loose = instance.DetachedDisk(disk=old.disks[0], nodes=("n2", "n3"), instance="old")
    with pytest.raises(errors.NotUniqueError, match="in use by a disk of instance old"):
        house.put(loose)
    file = instance.DetachedDisk(disk=build.DISK, nodes=("n1",), instance="vm1")
    with pytest.raises(errors.InternalError, match="and without an instance too"):
        house.put(file, structs.replace(build.VM, serial_no=2))
    with pytest.raises(errors.NotFoundError, match="no such node: n9"):
        house.put(structs.replace(file, nodes=("n9",)))

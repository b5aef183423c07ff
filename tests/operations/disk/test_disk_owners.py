"""A file or volume that is a disk already is neither adopted nor created once more; the refusal names its owner."""

import msgspec
import pytest
from tests.operations import build
from tests.operations.disk import test_detached_disks, test_disks

from gantry import errors
from gantry.model import opcodes

Disk = opcodes.DiskSpec
create_instance = test_detached_disks.create_instance

WRITES = ("BlockdevAdopt", "BlockdevCreate", "BlockdevRemove", "BlockdevRename", "BlockdevSetinfo")


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster(*(test_disks.OWNER if value is build.OWNER else value for value in build.FIRST))


async def refused(lab: build.MemoryCluster, template: str, *disks: opcodes.DiskSpec) -> errors.GantryError:
    """Create an instance, which must fail without changing anything on a node."""
    lab.nodes.made.clear()
    error = await lab.refused(test_disks.op(template, *disks, instance_name="thief", no_install=True))
    assert not [name for _, name in test_disks.names(lab.nodes.made) if name in WRITES]
    return error


@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize(
    ("template", "part"), [("file", ""), ("sharedfile", ""), ("plain", ""), ("drbd", "_data"), ("drbd", "_meta")]
)
async def test_the_disk_of_an_instance_is_not_adopted(
    lab: build.MemoryCluster, template: str, part: str, *, start: bool
) -> None:
    mirror = {"snode": "node3"} if template == "drbd" else {}
    victim = await create_instance(lab, "victim", Disk(size=64), template=template, start=start, **mirror)
    (disk,) = victim.disks
    source = f"{disk.uuid}.disk0{part}" if part else disk.logical_id[-1]
    lab.machine("node2").strays[source] = 64
    error = await refused(lab, "plain" if part else template, Disk(adopt=source))
    assert isinstance(error, errors.NotUniqueError)
    assert f"{source} on node node2 is disk 0 of instance victim" in str(error)


@pytest.mark.parametrize("template", ["file", "plain"])
async def test_a_detached_disk_is_not_adopted(lab: build.MemoryCluster, template: str) -> None:
    await create_instance(lab, "victim", Disk(size=64), template=template)
    await lab.run(test_detached_disks.change("victim", ["detach", 0, {}]))
    (loose,) = lab.state.disks.values()
    lab.machine("node2").strays[loose.disk.logical_id[-1]] = 64
    error = await refused(lab, template, Disk(adopt=loose.disk.logical_id[-1]))
    assert f"is detached disk {loose.uuid}, last of instance victim" in str(error)


@pytest.mark.parametrize("name", ["{uuid}.u99.snap", "{uuid}.disk0", ".new-{uuid}"])
async def test_what_belongs_to_a_disk_is_not_adopted(lab: build.MemoryCluster, name: str) -> None:
    victim = await create_instance(lab, "victim", Disk(size=64), template="file")
    source = "/file/other/" + name.format(uuid=victim.disks[0].uuid)
    lab.machine("node2").strays[source] = 64
    assert "is disk 0 of instance victim" in str(await refused(lab, "file", Disk(adopt=source)))


async def test_a_link_to_the_disk_of_an_instance_is_that_disk(lab: build.MemoryCluster) -> None:
    victim = await create_instance(lab, "victim", Disk(size=64), template="file")
    path = victim.disks[0].logical_id[-1]
    machine = lab.machine("node2")
    machine.strays["/file/thief/link"], machine.aliases["/file/thief/link"] = 64, (path,)
    error = await refused(lab, "file", Disk(adopt="/file/thief/link"))
    assert isinstance(error, errors.NotUniqueError)
    assert f"/file/thief/link on node node2 is a link to {path}, disk 0 of instance victim" in str(error)


async def test_two_names_of_a_file_are_one_source(lab: build.MemoryCluster) -> None:
    names = ("/file/a/one", "/file/a/two")
    for name, other in (names, names[::-1]):
        lab.machine("node2").strays[name], lab.machine("node2").aliases[name] = 64, (other,)
    error = await refused(lab, "file", *(Disk(adopt=name) for name in names))
    assert "disks 0 and 1 name the same file: /file/a/two is a link to /file/a/one" in str(error)
    await create_instance(lab, "heir", Disk(adopt=names[0]), template="file", no_install=True)


async def test_a_source_is_named_once_in_a_request(lab: build.MemoryCluster) -> None:
    lab.machine("node2").strays["old"] = 320
    error = await refused(lab, "plain", Disk(adopt="old"), Disk(adopt="old"))
    assert "disks 0 and 1 name the same source old" in str(error)


async def test_a_new_disk_does_not_get_the_path_of_another_disk(lab: build.MemoryCluster) -> None:
    victim = await create_instance(lab, "victim", Disk(size=64), template="file")
    path = victim.disks[0].logical_id[-1]
    assert "is disk 0 of instance victim" in str(await refused(lab, "file", Disk(size=64, path=path)))
    error = await refused(lab, "file", Disk(size=8, path="root.img"), Disk(size=8, path="/file/thief/root.img"))
    assert "disks 0 and 1 name the same source /file/thief/root.img" in str(error)
    await create_instance(lab, "thief", Disk(size=8), template="file")
    add: list[object] = ["add", {"size": 64, "path": path}]
    own: list[object] = ["add", {"size": 64, "path": "data.img"}]
    with pytest.raises(errors.NotUniqueError, match="is disk 0 of instance victim"):
        await lab.run(test_detached_disks.change("thief", add))
    with pytest.raises(errors.InvalidError, match="disks 1 and 2 name the same source"):
        await lab.run(test_detached_disks.change("thief", own, own))


async def test_a_name_on_another_node_is_no_owner(lab: build.MemoryCluster) -> None:
    disk = msgspec.structs.replace(build.DISK, logical_id=("file", "/file/vm1/root"))
    lab.put(msgspec.structs.replace(build.VM, primary_node="n3", disks=(disk,)))
    lab.machine("node2").strays["/file/vm1/root"] = 64
    await create_instance(lab, "heir", Disk(adopt="/file/vm1/root"), template="file", no_install=True)
    assert lab.state.instance("heir").disks[0].size == 64

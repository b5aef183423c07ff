"""LVM as it is, with its device mapper, through the node daemon's calls."""

import pytest
from tests.real.nodes import lab
from tests.real.nodes.lab import Lab
from tests.real.nodes.storage import GROUP, LOST, OWNER, checksum, hold, release, scribble, state, volume

from gantry import errors
from gantry.rpc import calls

pytestmark = lab.NEEDS


def test_a_volume_lives_from_its_making_to_its_end(nodes: Lab) -> None:
    node, disk = nodes.nodes[0], volume("life")
    for _ in range(2):
        path = nodes.call(node, calls.BlockdevCreate(disk=disk, owner=OWNER))
    assert path == f"/dev/{GROUP}/life"
    assert OWNER in node.sh(f"lvs --noheadings -o lv_tags {GROUP}/life")
    scribble(node, path, megabytes=16)
    before = checksum(node, path)

    nodes.call(node, calls.BlockdevShutdown(disk=disk))
    assert not state(nodes, node, disk).active
    assert nodes.call(node, calls.BlockdevAssemble(disk=disk, primary=True)) == path
    assert checksum(node, path) == before

    for _ in range(2):
        nodes.call(node, calls.BlockdevGrow(disk=disk, size=24))
    disk_state = state(nodes, node, disk)
    assert (disk_state.size, disk_state.active, disk_state.problem) == (24, True, "")
    assert node.sh(f"head -c {16 << 20} {path} | md5sum").split()[0] == before

    for part in (0, 8, 16):
        nodes.call(node, calls.BlockdevWipe(disk=disk, offset=part, size=8))
    assert node.sh(f"tr -d '\\0' < {path} | wc -c") == "0"
    for _ in range(2):
        nodes.call(node, calls.BlockdevRemove(disk=disk, owner=OWNER))
    assert nodes.call(node, calls.BlockdevFind(disk=disk)) is None


def test_a_volume_becomes_read_only_and_writable_again(nodes: Lab) -> None:
    node, disk = nodes.nodes[0], volume("fixed", mode="ro")
    path = nodes.call(node, calls.BlockdevCreate(disk=disk, owner=OWNER))
    nodes.call(node, calls.BlockdevAssemble(disk=disk, primary=True))
    write = ["dd", "if=/dev/zero", f"of={path}", "bs=4k", "count=1", "conv=notrunc", "oflag=direct"]
    assert "not permitted" in node.run(*write)[1]
    nodes.call(node, calls.BlockdevSetMode(disk=volume("fixed")))
    assert node.run(*write)[0] == 0
    nodes.call(node, calls.BlockdevSetMode(disk=disk))
    assert node.run(*write)[0] != 0
    nodes.call(node, calls.BlockdevRemove(disk=disk, owner=OWNER))


def test_a_snapshot_keeps_what_the_volume_held(nodes: Lab) -> None:
    node, disk = nodes.nodes[0], volume("origin")
    path = nodes.call(node, calls.BlockdevCreate(disk=disk, owner=OWNER))
    scribble(node, path, megabytes=16)
    before = checksum(node, path)
    for _ in range(2):
        kind, name = nodes.call(node, calls.BlockdevSnapshot(disk=disk, name="kept"))
    assert (kind, name) == ("plain", (GROUP, "kept"))
    scribble(node, path, megabytes=16)
    assert checksum(node, f"/dev/{GROUP}/kept") == before != checksum(node, path)
    for each in (volume("kept"), disk):
        nodes.call(node, calls.BlockdevRemove(disk=each, owner=OWNER))
    assert "kept" not in {volume.name for volume in nodes.call(node, calls.LvList(group=GROUP))}


def test_a_volume_is_adopted_unless_somebody_uses_it(nodes: Lab) -> None:
    node, disk = nodes.nodes[0], volume("mine")
    node.sh(f"lvcreate -qq -y -n theirs -L 8M {GROUP}")
    adopt = calls.BlockdevAdopt(disk=disk, source="theirs", owner=OWNER)
    hold(node, f"/dev/{GROUP}/theirs")
    with pytest.raises(errors.WrongStateError, match=r"volume xenvg/theirs on node node1 is in use"):
        nodes.call(node, adopt)
    release(node)
    assert [nodes.call(node, adopt) for _ in range(2)] == [8, 8]
    assert OWNER in node.sh(f"lvs --noheadings -o lv_tags {GROUP}/mine")
    nodes.call(node, calls.BlockdevRemove(disk=disk, owner=OWNER))
    with pytest.raises(errors.NotFoundError, match="there is no volume /dev/xenvg/mine"):
        nodes.call(node, adopt)


def test_a_volume_in_use_is_neither_taken_out_of_use_nor_removed(nodes: Lab) -> None:
    node, disk = nodes.nodes[0], volume("held")
    path = nodes.call(node, calls.BlockdevCreate(disk=disk, owner=OWNER))
    hold(node, path)
    for call in (calls.BlockdevShutdown(disk=disk), calls.BlockdevRemove(disk=disk, owner=OWNER)):
        with pytest.raises(errors.WrongStateError, match="in use"):
            nodes.call(node, call)
    release(node)
    nodes.call(node, calls.BlockdevRemove(disk=disk, owner=OWNER))


def test_the_volumes_of_an_instance_lie_on_one_disk_and_striped_ones_on_two(nodes: Lab) -> None:
    node = nodes.nodes[0]
    disks = tuple(volume(f"near{number}", size=16) for number in range(3))
    physical_volumes = nodes.call(node, calls.BlockdevPlace(dev_type="plain", disks=disks))
    for disk, on in zip(disks, physical_volumes, strict=True):
        nodes.call(node, calls.BlockdevCreate(disk=disk, owner=OWNER, on=on))
    assert len({disk_state.on for disk_state in (state(nodes, node, disk) for disk in disks)}) == 1
    wide = volume("wide", size=16, stripes=2)
    nodes.call(node, calls.BlockdevCreate(disk=wide, owner=OWNER))
    assert state(nodes, node, wide).on == (node.device(0), node.device(1))
    for disk in (*disks, wide):
        nodes.call(node, calls.BlockdevRemove(disk=disk, owner=OWNER))


def test_a_pulled_disk_is_noticed_and_the_group_repaired(nodes: Lab) -> None:
    node = nodes.nodes[1]
    kept, lost = volume("kept", group=LOST), volume("lost", group=LOST)
    for disk, index in ((kept, 2), (lost, 3)):
        nodes.call(node, calls.BlockdevCreate(disk=disk, owner=OWNER, on=(node.device(index),)))
    # User-Mode Linux gives a disk up only when nothing holds it.
    nodes.call(node, calls.BlockdevShutdown(disk=lost))
    node.pull_disk(3)

    assert "a physical volume under /dev/lostvg/lost on node node2 is missing" in state(nodes, node, lost).problem
    assert state(nodes, node, kept).problem == ""
    unit = calls.StorageUnit(kind="plain", name=LOST)
    (complaint,) = nodes.call(node, calls.NodeVerify(storage=(unit,)))["storage"]
    assert "volume group lostvg misses 1 of its physical volumes, and with them lost" in complaint
    for call in (
        calls.BlockdevAssemble(disk=lost, primary=True),
        calls.BlockdevCreate(disk=volume("more", group=LOST), owner=OWNER),
    ):
        with pytest.raises(errors.EnvironmentFaultError, match="missing"):
            nodes.call(node, call)
    assert nodes.call(node, calls.BlockdevAssemble(disk=kept, primary=True))

    with pytest.raises(errors.WrongStateError, match="on a physical volume that is missing: lost"):
        nodes.call(node, calls.VgReduce(group=LOST))
    assert nodes.call(node, calls.VgReduce(group=LOST, force=True)) == ("lost",)
    assert nodes.call(node, calls.VgReduce(group=LOST, force=True)) == ()
    assert nodes.call(node, calls.NodeVerify(storage=(unit,)))["storage"] == []
    fresh = node.add_disk(64)
    lab.until(lambda: node.run("vgextend", "-y", LOST, fresh)[0] == 0, "the fresh disk")
    nodes.call(node, calls.BlockdevCreate(disk=volume("more", group=LOST), owner=OWNER, on=(fresh,)))
    assert state(nodes, node, volume("more", group=LOST)).on == (fresh,)


def test_a_group_that_is_gone_is_named_with_what_to_do(nodes: Lab) -> None:
    node = nodes.nodes[0]
    with pytest.raises(
        errors.EnvironmentFaultError, match="no volume group gonevg on node node1; check there with pvs and vgs"
    ):
        nodes.call(node, calls.BlockdevCreate(disk=volume("any", group="gonevg"), owner=OWNER))
    status = nodes.call(node, calls.NodeInfo(storage=(calls.StorageUnit(kind="plain", name="gonevg"),)))
    assert "no volume group gonevg" in status.storage[0].problem
    assert {group.name for group in nodes.call(node, calls.VgList())} >= {GROUP}

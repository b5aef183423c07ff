import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.storage import storages
from tests.node.storage.storages import OWNER, Storage

from gantry import errors
from gantry.node.storage import lvm, plain, programs
from gantry.runtime import simulated

REAL = [pytest.mark.real, pytest.mark.skipif(not shutil.which("vgcreate"), reason="LVM is not installed: make system")]


@pytest.fixture(params=[pytest.param("LVM", marks=REAL)])
def group(tmp_path: Path) -> Iterator[Storage]:
    with storages.volumes(tmp_path) as new_storage:
        yield new_storage


def volumes(storage: Storage) -> lvm.Lvm:
    return lvm.Lvm(programs.Programs(storages.runtime()), mapper=False)


def devices(storage: Storage) -> list[str]:
    words = ["pvs", "--driverloaded", "n", "--noheadings", "-o", "pv_name", "--select", f"vg_name={storage.place}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def pull(device: str) -> None:
    subprocess.run(["losetup", "--detach", device], check=True)


async def test_volumes_that_are_made_together_share_a_physical_volume_and_spill_over_when_it_is_full(
    group: Storage,
) -> None:
    disks = [group.disk(size=24, uuid=f"d{number}") for number in range(2)]
    chosen = await group.driver.choose_volumes(disks)
    for disk, on in zip(disks, chosen, strict=True):
        await group.driver.create(disk, owner=OWNER, on=on)
    states = [await group.driver.find(disk) for disk in disks]
    assert len({state.on for state in states if state}) == 1
    more = group.disk(size=24, uuid="d2")
    await group.driver.create(more, owner=OWNER, on=chosen[0])
    assert await group.driver.find(more) is not None


async def test_more_than_the_group_has_is_not_placed(group: Storage) -> None:
    disks = [group.disk(size=100, uuid=f"d{number}") for number in range(2)]
    with pytest.raises(errors.NoRoomError, match=r"200 MiB does not fit, 180 MiB are free in gt\w+ on node node1"):
        await group.driver.choose_volumes(disks)


async def test_a_disk_carries_the_name_of_its_instance_and_only_the_last_one(group: Storage) -> None:
    disk = group.disk()
    await group.driver.create(disk, owner=OWNER)
    await group.driver.set_info(disk, "vm2")
    (volume,) = await volumes(group).volumes(group.place)
    assert volume.tags == ("originstname+vm2",)


async def test_a_volume_of_another_instance_is_not_taken_for_the_disk(group: Storage) -> None:
    await group.driver.create(group.disk(), owner="vm2")
    with pytest.raises(errors.ExistsError, match="exists already on node node1"):
        await group.driver.create(group.disk(), owner=OWNER)


async def test_a_volume_is_renamed_and_adopted_once(group: Storage) -> None:
    first, second = group.disk(), group.disk(uuid="d1")
    await group.driver.create(first, owner=OWNER)
    for _ in range(2):
        await group.driver.rename(first, second.logical_id)
    assert await group.driver.find(first) is None
    for _ in range(2):
        assert await group.driver.adopt(first, second.logical_id[1], owner="vm2") == 4
    (volume,) = await volumes(group).volumes(group.place)
    assert (volume.name, volume.tags) == (first.logical_id[1], ("originstname+vm2",))
    with pytest.raises(errors.NotFoundError, match="disk 0: there is no volume"):
        await group.driver.adopt(second, "nothing", owner=OWNER)
    with pytest.raises(errors.InvalidError, match="cannot be renamed from group"):
        await group.driver.rename(first, ("other", "name"))


async def test_a_physical_volume_is_kept_from_new_volumes_and_given_back(group: Storage) -> None:
    first, *other_devices = devices(group)
    for _ in range(2):
        await volumes(group).allocate(first, allocatable=False)
    (volume,) = [entry for entry in await volumes(group).groups() if entry.name == group.place]
    assert {entry.name: entry.allocatable for entry in volume.physical} == {first: False} | dict.fromkeys(
        other_devices, True
    )
    assert first not in volume.on
    assert all(entry.size >= entry.free > 0 for entry in volume.physical)
    disk = group.disk(size=24)
    (on,) = await group.driver.choose_volumes([disk])
    await group.driver.create(disk, owner=OWNER, on=on)
    assert first not in on
    await volumes(group).allocate(first, allocatable=True)
    assert first in (await volumes(group).group(group.place)).on
    with pytest.raises(errors.NotFoundError, match="node node1 has no physical volume /dev/nothing"):
        await volumes(group).allocate("/dev/nothing", allocatable=True)


async def test_a_missing_disk_is_complained_of_and_taken_out_of_its_group(group: Storage) -> None:
    kept, lost = group.disk(uuid="kept"), group.disk(uuid="lost")
    first, second, *_ = devices(group)
    await group.driver.create(kept, owner=OWNER, on=(first,))
    await group.driver.create(lost, owner=OWNER, on=(second,))
    pull(second)

    (complaint,) = await group.driver.verify(group.unit)
    assert f"misses 1 of its physical volumes, and with them {lost.logical_id[1]}; reconnect the disk" in complaint
    state = await group.driver.find(lost)
    assert state is not None
    assert (state.degraded, "is missing" in state.problem) == (True, True)
    with pytest.raises(errors.EnvironmentFaultError, match="a physical volume under"):
        await group.driver.activate(lost, primary=True)
    with pytest.raises(errors.EnvironmentFaultError, match="a physical volume is missing on node node1"):
        await group.driver.create(group.disk(uuid="new"), owner=OWNER)

    with pytest.raises(errors.WrongStateError, match=f"that is missing: {lost.logical_id[1]}; reconnect the disk"):
        await volumes(group).reduce(group.place, force=False)
    assert await volumes(group).reduce(group.place, force=True) == (lost.logical_id[1],)
    assert await volumes(group).reduce(group.place, force=True) == ()
    assert await group.driver.verify(group.unit) == []
    await group.driver.create(group.disk(uuid="new"), owner=OWNER)


async def test_a_missing_disk_that_holds_nothing_is_taken_out_without_force(group: Storage) -> None:
    pull(devices(group)[0])
    assert await volumes(group).reduce(group.place, force=False) == ()
    assert await group.driver.verify(group.unit) == []


async def test_a_group_that_is_gone_is_named(group: Storage) -> None:
    storages.command("vgremove", "--yes", group.place)
    for ask in (group.driver.verify(group.unit), group.driver.create(group.disk(), owner=OWNER)):
        with pytest.raises(
            errors.EnvironmentFaultError,
            match=rf"no volume group {group.place} on node node1; check there with pvs and",
        ):
            await ask
    assert group.place not in {entry.name for entry in await volumes(group).groups()}


def test_a_node_without_lvm_names_the_package() -> None:
    with simulated.World(seed=1) as world:
        tools = programs.Programs(world.machine("node1"))
        driver = plain.Plain(lvm.Lvm(tools), tools)
        with pytest.raises(errors.EnvironmentFaultError, match="node1 has no program pvs; install the package lvm2"):
            world.run(driver.verify("xenvg"))


def test_a_name_that_lvm_would_take_for_an_option_is_refused() -> None:
    for name in ("-y", "", ".", "..", "a/b", "a b", "x" * 128):
        with pytest.raises(errors.InvalidError):
            lvm.checked(name)
    assert lvm.checked("a.disk0_data") == "a.disk0_data"


FREE = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 500), min_size=1)
REQUESTS = st.lists(st.tuples(st.integers(1, 200), st.integers(1, 3)), min_size=1, max_size=4)


@given(FREE, REQUESTS)
def test_volumes_of_one_instance_get_as_few_physical_volumes_as_hold_them(
    free: dict[str, int], requests: list[tuple[int, int]]
) -> None:
    chosen = plain.spread(free, requests)
    assert len(chosen) == len(requests)
    used = {name for on in chosen for name in on}
    assert used <= set(free)
    assert all(on for on in chosen)
    total, widest = sum(size for size, _ in requests), max(stripes for _, stripes in requests)
    if any(free >= total for free in free.values()) and widest == 1:
        assert len(used) == 1
        assert free[used.pop()] == max(free.values())


def test_a_striped_volume_gets_a_physical_volume_per_stripe() -> None:
    assert plain.spread({"a": 10, "b": 30, "c": 20}, [(10, 2), (5, 1)]) == [("b", "c"), ("b",)]

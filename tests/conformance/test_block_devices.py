"""What every driver of disks keeps; a new one joins ``storages.ALL``.

The last one, DRBD, needs two nodes and is in ``tests/real``.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node import samples
from tests.node.storage import storages
from tests.node.storage.storages import OWNER, Storage

from gantry import errors
from gantry.rpc import calls

REAL = [pytest.mark.real, pytest.mark.skipif(not shutil.which("vgcreate"), reason="LVM is not installed: make system")]

NOT_THERE = "disk 0: there is no|no volume"


@pytest.fixture(params=[*storages.FILES, pytest.param("plain", marks=REAL)])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    with storages.ALL[request.param](tmp_path) as new_storage:
        yield new_storage


async def existing_state(storage: Storage, disk: calls.Disk) -> calls.DiskState:
    state = await storage.driver.find(disk)
    assert state is not None
    return state


async def grow(storage: Storage, disk: calls.Disk, size: int, *, dry_run: bool = False) -> None:
    for backing in (True, False):
        await storage.driver.grow(disk, size, backing=backing, dry_run=dry_run)


async def test_a_disk_is_made_with_its_size_and_found(storage: Storage) -> None:
    disk = storage.disk()
    assert await storage.driver.find(disk) is None
    path = await storage.driver.create(disk, owner=OWNER)
    assert path == storage.driver.path(disk)
    state = await existing_state(storage, disk)
    assert (state.path, state.size, state.problem) == (path, 4, "")
    assert storage.grain == 4 or await storage.driver.activate(disk, primary=True) == path


async def test_a_disk_is_not_made_over_another(storage: Storage) -> None:
    await storage.driver.create(storage.disk(), owner=OWNER)
    with pytest.raises(errors.ExistsError, match="exists already on node node1"):
        await storage.driver.create(storage.disk(size=12), owner=OWNER)
    assert (await existing_state(storage, storage.disk())).size == 4


async def test_a_disk_that_is_made_again_is_left_as_it_is(storage: Storage) -> None:
    path = await storage.driver.create(storage.disk(), owner=OWNER)
    if storage.readable:
        samples.write(path, "precious".ljust(4 << 20))
    assert await storage.driver.create(storage.disk(), owner=OWNER) == path
    if storage.readable:
        assert samples.read(path).startswith(b"precious")


async def test_a_removed_disk_is_gone_and_removing_again_is_no_error(storage: Storage) -> None:
    disk, other = storage.disk(), storage.disk(uuid="d1")
    for each in (disk, other):
        await storage.driver.create(each, owner=OWNER)
    for _ in range(2):
        await storage.driver.remove(disk)
    assert await storage.driver.find(disk) is None
    assert await storage.driver.find(other) is not None


@pytest.mark.parametrize("size", [0, -1])
async def test_a_size_that_cannot_be_is_refused(storage: Storage, size: int) -> None:
    with pytest.raises(errors.InvalidError, match=f"a size of {size} MiB is not possible"):
        await storage.driver.create(storage.disk(size=size), owner=OWNER)
    assert await storage.driver.find(storage.disk()) is None


async def test_a_disk_larger_than_the_room_is_refused_and_leaves_nothing(storage: Storage) -> None:
    info = await storage.driver.storage(storage.unit)
    if not info.total:
        pytest.skip("nobody knows the room")
    with pytest.raises(errors.NoRoomError, match=rf"does not fit, \d+ MiB are free in {info.path} on node node1"):
        await storage.driver.create(storage.disk(size=info.total + 1), owner=OWNER)
    assert await storage.driver.find(storage.disk()) is None


async def test_the_capacity_is_reported_and_a_healthy_storage_has_no_complaints(storage: Storage) -> None:
    info = await storage.driver.storage(storage.unit)
    assert 0 <= info.free <= info.total
    assert info.kind == storage.kind
    assert await storage.driver.verify(storage.unit) == []


async def test_a_disk_keeps_its_place_when_it_is_asked_for_again(storage: Storage) -> None:
    first = storage.driver.logical_id(OWNER, "d0", index=0)
    assert first == storage.driver.logical_id(OWNER, "d0", index=0)
    assert first != storage.driver.logical_id(OWNER, "d1", index=0)


async def test_a_disk_grows_to_the_size_that_is_asked_for_and_no_further_when_asked_again(storage: Storage) -> None:
    disk = storage.disk()
    await storage.driver.create(disk, owner=OWNER)
    await grow(storage, disk, 12, dry_run=True)
    assert (await existing_state(storage, disk)).size == 4
    for _ in range(2):
        await grow(storage, disk, 12)
        assert (await existing_state(storage, disk)).size == 12
    await grow(storage, disk, 8)
    assert (await existing_state(storage, disk)).size == 12


async def test_a_disk_does_not_grow_beyond_the_room(storage: Storage) -> None:
    info = await storage.driver.storage(storage.unit)
    if not info.total:
        pytest.skip("nobody knows the room")
    disk = storage.disk()
    await storage.driver.create(disk, owner=OWNER)
    for dry_run in (True, False):
        with pytest.raises(errors.NoRoomError, match=r"does not fit, \d+ MiB are free"):
            await grow(storage, disk, info.total + 8, dry_run=dry_run)
    assert (await existing_state(storage, disk)).size == 4


async def test_what_needs_a_disk_that_is_not_there_says_so(storage: Storage) -> None:
    with pytest.raises(errors.GantryError, match=NOT_THERE):
        await storage.driver.activate(storage.disk(), primary=True)
    with pytest.raises(errors.GantryError, match=NOT_THERE):
        await grow(storage, storage.disk(), 12)


async def test_the_instance_of_a_disk_can_be_recorded_repeatedly(storage: Storage) -> None:
    await storage.driver.create(storage.disk(), owner=OWNER)
    for owner in ("vm2", "vm2", OWNER):
        await storage.driver.set_info(storage.disk(), owner)
    assert await storage.driver.find(storage.disk()) is not None


async def test_a_disk_without_a_mirror_opens_and_closes_and_goes_out_of_use(storage: Storage) -> None:
    disk = storage.disk()
    await storage.driver.create(disk, owner=OWNER)
    await storage.driver.open(disk, force=False)
    await storage.driver.close(disk)
    for _ in range(2):
        await storage.driver.deactivate(disk)
    assert (await existing_state(storage, disk)).size == 4


async def test_a_name_that_leads_elsewhere_is_refused(storage: Storage) -> None:
    for name in ("../../etc/passwd", "/etc/../passwd", "-rf", "a b", ""):
        wrong = calls.Disk(
            index=0,
            uuid="d0",
            dev_type=storage.kind,
            size=4,
            logical_id=(storage.place, name),
            params=dict(storage.params),
        )
        with pytest.raises(errors.GantryError):
            await storage.driver.create(wrong, owner=OWNER)
    with pytest.raises(errors.GantryError):
        await storage.driver.create(calls.Disk(index=0, uuid="d0", dev_type=storage.kind, size=4), owner=OWNER)

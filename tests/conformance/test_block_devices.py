"""What every driver of disks keeps; a new driver joins ``DRIVERS``."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.node import samples

from gantry import errors
from gantry.node import drivers, file
from gantry.rpc import calls
from gantry.runtime.real import RealRuntime

Make = Callable[[Path], drivers.BlockDevice]
DRIVERS: dict[str, Make] = {
    "file": lambda folder: file.FileStorage(RealRuntime().disk, str(folder / "storage"), node="node1")
}


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> drivers.BlockDevice:
    return DRIVERS[request.param](tmp_path)


def disk(driver: drivers.BlockDevice, *, size: int = 3, uuid: str = "d0", kind: str = "file") -> calls.Disk:
    return calls.Disk(
        index=0, uuid=uuid, dev_type=kind, size=size, logical_id=(kind, driver.logical_id("vm1.example.com", uuid))
    )


async def test_a_disk_is_made_with_its_size_and_found(driver: drivers.BlockDevice) -> None:
    made = disk(driver)
    assert not driver.exists(made)
    path = await driver.create(made, owner="vm1")
    assert path == driver.path(made)
    assert os.stat(path).st_size == 3 << 20
    assert driver.exists(made)


async def test_a_disk_is_not_made_over_another(driver: drivers.BlockDevice) -> None:
    path = await driver.create(disk(driver), owner="vm1")
    samples.write(path, "precious")
    with pytest.raises(errors.ExistsError, match="exists already on node node1"):
        await driver.create(disk(driver), owner="vm1")
    assert samples.read(path) == b"precious"


async def test_a_removed_disk_is_gone_and_removing_again_is_no_error(driver: drivers.BlockDevice) -> None:
    made, other = disk(driver), disk(driver, uuid="d1")
    for each in (made, other):
        await driver.create(each, owner="vm1")
    for _ in range(2):
        await driver.remove(made)
    assert not driver.exists(made)
    assert driver.exists(other)


@pytest.mark.parametrize("size", [0, -1])
async def test_a_size_that_cannot_be_is_refused(driver: drivers.BlockDevice, size: int) -> None:
    with pytest.raises(errors.InvalidError, match=f"a size of {size} MiB is not possible"):
        await driver.create(disk(driver, size=size), owner="vm1")
    assert not driver.exists(disk(driver))


async def test_a_disk_larger_than_the_room_is_refused_and_leaves_nothing(driver: drivers.BlockDevice) -> None:
    room = await driver.storage()
    with pytest.raises(errors.NoRoomError, match=rf"does not fit, \d+ MiB are free in {room.path} on node node1"):
        await driver.create(disk(driver, size=room.total + 1), owner="vm1")
    assert not driver.exists(disk(driver))


async def test_the_room_is_told(driver: drivers.BlockDevice) -> None:
    room = await driver.storage()
    assert 0 < room.free <= room.total


async def test_a_disk_keeps_its_place_when_it_is_asked_for_again(driver: drivers.BlockDevice) -> None:
    assert driver.logical_id("vm1", "d0") == driver.logical_id("vm1", "d0") != driver.logical_id("vm1", "d1")

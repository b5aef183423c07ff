import os
from pathlib import Path

import pytest

from gantry import errors
from gantry.node import file
from gantry.rpc import calls
from gantry.runtime.real import RealRuntime


@pytest.fixture
def storage(tmp_path: Path) -> file.FileStorage:
    return file.FileStorage(RealRuntime().disk, str(tmp_path / "fs"), node="node1")


def at(path: str) -> calls.Disk:
    return calls.Disk(index=0, uuid="d", dev_type="file", size=1, logical_id=("file", path))


OUTSIDE = "/etc/passwd ROOT ROOT/vm ROOT/vm/d/e ROOT/../d ROOT/vm/.. ROOT/./d ROOT//d ROOTx/v/d"


@pytest.mark.parametrize("path", ["", *OUTSIDE.split()])
async def test_a_path_outside_the_storage_is_refused_whatever_is_asked(
    storage: file.FileStorage, tmp_path: Path, path: str
) -> None:
    wrong = at(path.replace("ROOT", str(tmp_path / "fs")))
    with pytest.raises(errors.InvalidError, match="no place for a disk on node node1"):
        await storage.create(wrong, owner="vm1")
    with pytest.raises(errors.InvalidError):
        await storage.remove(wrong)
    with pytest.raises(errors.InvalidError):
        storage.exists(wrong)
    assert not (tmp_path / "fs").exists()


def test_an_instance_cannot_name_a_place_outside(storage: file.FileStorage) -> None:
    with pytest.raises(errors.InvalidError):
        storage.logical_id("../../etc", "d")


async def test_a_disk_takes_no_room_until_it_is_written(storage: file.FileStorage) -> None:
    status = os.stat(await storage.create(at(storage.logical_id("vm1", "d")), owner="vm1"))
    assert status.st_blocks == 0
    assert status.st_mode & 0o777 == 0o600


async def test_the_folder_of_an_instance_goes_with_its_last_disk(storage: file.FileStorage, tmp_path: Path) -> None:
    first, second = (at(storage.logical_id("vm1", name)) for name in ("a", "b"))
    await storage.create(first, owner="vm1")
    await storage.create(second, owner="vm1")
    await storage.remove(first)
    assert (tmp_path / "fs" / "vm1").exists()
    await storage.remove(second)
    assert not (tmp_path / "fs" / "vm1").exists()

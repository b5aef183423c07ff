import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.node import samples
from tests.node.storage import storages

from gantry import errors
from gantry.node import drivers
from gantry.node.storage import file, qcow2_export
from gantry.rpc import calls
from gantry.runtime import simulated


@pytest.fixture
def storage(tmp_path: Path) -> file.FileStorage:
    return storages.file_storage(tmp_path, "fs")


def at(path: str, *, image: str = "raw", size: int = 1) -> calls.Disk:
    return calls.Disk(
        index=0, uuid="d", dev_type="file", size=size, logical_id=("file", path), params={"format": image}
    )


OUTSIDE = "/etc/passwd ROOT ROOT/vm ROOT/vm/d/e ROOT/../d ROOT/vm/.. ROOT/./d ROOT//d ROOTx/v/d"


@pytest.mark.parametrize("path", ["", *OUTSIDE.split()])
async def test_a_path_outside_the_storage_is_refused_whatever_is_asked(
    storage: file.FileStorage, tmp_path: Path, path: str
) -> None:
    wrong = at(path.replace("ROOT", str(tmp_path / "fs")))
    with pytest.raises(errors.InvalidError, match="is not a valid path of a disk on node node1"):
        await storage.create(wrong, owner="vm1")
    with pytest.raises(errors.InvalidError):
        await storage.remove(wrong)
    with pytest.raises(errors.InvalidError):
        await storage.find(wrong)
    with pytest.raises(errors.InvalidError):
        await storage.adopt(at(storage.logical_id("vm1", "d", index=0)), wrong.logical_id[1], owner="vm1")
    with pytest.raises(errors.InvalidError):
        await storage.rename(at(storage.logical_id("vm1", "d", index=0)), wrong.logical_id)
    assert not (tmp_path / "fs").exists()


def test_an_instance_cannot_name_a_place_outside(storage: file.FileStorage) -> None:
    with pytest.raises(errors.InvalidError):
        storage.logical_id("../../etc", "d", index=0)


async def test_a_disk_takes_no_space_until_it_is_written(storage: file.FileStorage) -> None:
    status = os.stat(await storage.create(at(storage.logical_id("vm1", "d", index=0)), owner="vm1"))
    assert status.st_blocks == 0
    assert status.st_mode & 0o777 == 0o600


async def test_an_empty_file_that_a_crash_left_is_replaced(storage: file.FileStorage) -> None:
    disk = at(storage.logical_id("vm1", "d", index=0))
    path = await storage.create(disk, owner="vm1")
    os.truncate(path, 0)
    await storage.create(disk, owner="vm1")
    assert os.stat(path).st_size == 1 << 20


async def test_the_folder_of_an_instance_goes_with_its_last_disk(storage: file.FileStorage, tmp_path: Path) -> None:
    first, second = (at(storage.logical_id("vm1", name, index=0)) for name in ("a", "b"))
    await storage.create(first, owner="vm1")
    await storage.create(second, owner="vm1")
    await storage.remove(first)
    assert (tmp_path / "fs" / "vm1").exists()
    await storage.remove(second)
    assert not (tmp_path / "fs" / "vm1").exists()


def write(path: str, data: bytes) -> None:
    with open(path, "r+b") as opened:
        opened.write(data)


async def test_a_qcow2_file_is_one_for_its_reader_and_takes_no_room_until_it_is_written(
    storage: file.FileStorage,
) -> None:
    disk = at(storage.logical_id("vm1", "d", index=0), image="qcow2", size=64)
    path = await storage.create(disk, owner="vm1")
    assert samples.read(path).startswith(b"QFI\xfb")
    status = os.stat(path)
    assert status.st_blocks * 512 < 1 << 20
    assert status.st_mode & 0o777 == 0o600
    await storage.grow(disk, 128, backing=False, dry_run=False)
    state = await storage.find(disk)
    assert state is not None
    assert state.size == 128


async def test_a_format_that_does_not_exist_is_refused(storage: file.FileStorage, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidError, match="disk 0: 'vmdk' is not a disk format; use raw or qcow2"):
        await storage.create(at(storage.logical_id("vm1", "d", index=0), image="vmdk"), owner="vm1")
    assert not (tmp_path / "fs").exists()


async def test_a_draft_that_a_crash_left_goes_with_its_disk(storage: file.FileStorage, tmp_path: Path) -> None:
    disk = at(storage.logical_id("vm1", "d", index=0), image="qcow2")
    await storage.create(disk, owner="vm1")
    (tmp_path / "fs/vm1/.new-d").touch()
    await storage.remove(disk)
    assert not (tmp_path / "fs/vm1").exists()


@pytest.mark.parametrize("image", ["raw", "qcow2"])
async def test_a_wiped_part_reads_as_zeros_and_the_rest_stays(storage: file.FileStorage, image: str) -> None:
    disk = at(storage.logical_id("vm1", "d", index=0), image=image, size=4)
    path = await storage.create(disk, owner="vm1")
    _qemu_io(path, image, "write -P 7 0 4M")
    for _ in range(2):
        await storage.wipe(disk, offset=1, size=2)
    _qemu_io(path, image, "read -P 7 0 1M", "read -P 0 1M 2M", "read -P 7 3M 1M")


def _qemu_io(path: str, image: str, *orders: str) -> None:
    words = [word for order in orders for word in ("-c", order)]
    done = subprocess.run(["qemu-io", "-f", image, *words, path], capture_output=True, text=True, check=True)
    assert "fail" not in done.stdout + done.stderr, done.stdout


async def test_a_file_is_adopted_and_renamed_once(storage: file.FileStorage, tmp_path: Path) -> None:
    here = at(storage.logical_id("vm1", "d", index=0), size=2)
    there = at(storage.logical_id("vm2", "e", index=0), size=2)
    path = await storage.create(here, owner="vm1")
    write(path, b"precious")
    for _ in range(2):
        await storage.rename(here, there.logical_id)
    assert not (tmp_path / "fs/vm1").exists()
    for _ in range(2):
        assert await storage.adopt(here, there.logical_id[1], owner="vm1") == 2
    assert samples.read(path).startswith(b"precious")
    assert await storage.find(there) is None
    with pytest.raises(errors.NotFoundError, match="disk 0: there is no file"):
        await storage.adopt(there, there.logical_id[1], owner="vm2")


@pytest.mark.parametrize("link", [os.link, os.symlink], ids=["hard", "symbolic"])
async def test_a_link_is_another_name_of_a_disk_and_is_not_taken_for_a_new_one(
    storage: file.FileStorage, tmp_path: Path, link: Callable[[str, str], None]
) -> None:
    victim = at(storage.logical_id("victim", "d", index=0))
    path = await storage.create(victim, owner="victim")
    (tmp_path / "fs/thief").mkdir()
    thief = at(f"{tmp_path}/fs/thief/d")
    state = await storage.find(victim)
    assert state is not None
    assert state.aliases == ()
    link(path, thief.logical_id[1])
    state = await storage.find(thief)
    assert state is not None
    assert state.aliases == (path,)
    with pytest.raises(errors.ExistsError, match="exists already"):
        await storage.create(thief, owner="thief")
    state = await storage.find(victim)
    assert state is not None
    assert state.aliases == (thief.logical_id[1],) * (link is os.link)


async def test_a_symbolic_link_is_not_adopted(storage: file.FileStorage, tmp_path: Path) -> None:
    (tmp_path / "fs/old").mkdir(parents=True)
    (tmp_path / "elsewhere").write_bytes(bytes(1 << 20))
    (tmp_path / "fs/old/link").symlink_to(tmp_path / "elsewhere")
    disk = at(storage.logical_id("vm1", "d", index=0))
    with pytest.raises(errors.InvalidError, match=f"is a link to {tmp_path}/elsewhere"):
        await storage.adopt(disk, f"{tmp_path}/fs/old/link", owner="vm1")
    assert (tmp_path / "fs/old/link").is_symlink()


@pytest.mark.parametrize("is_repeated", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_a_renamed_file_stays_where_it_is_when_the_power_is_lost(seed: int, *, is_repeated: bool) -> None:
    with simulated.World(seed=seed) as world:
        machine = world.machine("node1")
        storage = file.FileStorage(machine, "/files", views=qcow2_export.Views(machine, "/views"))
        old, new = at("/files/vm1/d"), at("/files/vm2/d")
        world.run(storage.create(old, owner="vm1"))
        if is_repeated:
            # What an earlier call did that ended before its sync.
            world.run(machine.disk.make_directory("/files/vm2"))
            world.run(machine.disk.rename({storage.path(old): storage.path(new)}))
        world.run(storage.rename(old, new.logical_id))
        machine.disk.lose_power()
        assert [machine.disk.exists(storage.path(disk)) for disk in (old, new)] == [False, True]


async def test_a_snapshot_is_made_or_refused_with_a_reason(storage: file.FileStorage) -> None:
    disk = at(storage.logical_id("vm1", "d", index=0))
    path = await storage.create(disk, owner="vm1")
    write(path, b"before")
    try:
        kind, name = await storage.snapshot(disk, "kept")
    except errors.WrongStateError as error:
        assert "does not support snapshots" in str(error)  # noqa: PT017 - which of the two is the file system's choice
        assert [entry.name for entry in Path(path).parent.iterdir()] == [Path(path).name]
    else:
        write(path, b"after!")
        assert (kind, samples.read(name[1])[:6]) == ("file", b"before")
    assert await storage.find(disk) is not None


async def test_a_shared_folder_that_is_not_mounted_is_not_made(tmp_path: Path) -> None:
    shared = storages.file_storage(tmp_path, "shared", kind=file.SHARED)
    disk = at(shared.logical_id("vm1", "d", index=0))
    for ask in (shared.create(disk, owner="vm1"), shared.verify("")):
        with pytest.raises(errors.EnvironmentFaultError, match=r"no folder .*/shared on node node1; mount the shared"):
            await ask
    assert not (tmp_path / "shared").exists()


async def test_a_program_reads_and_writes_what_is_in_a_qcow2_file(storage: file.FileStorage, tmp_path: Path) -> None:
    disk = at(storage.logical_id("vm1", "d", index=0), image="qcow2", size=4)
    path = await storage.create(disk, owner="vm1")
    registry = drivers.Registry(storages.runtime(), storage={"file": storage})
    async with registry.exposed([disk]) as where:
        assert os.stat(where["d"]).st_size == 4 << 20
        write(where["d"], b"an operating system")
        assert await storage.expose(disk) == where["d"]
        with pytest.raises(errors.WrongStateError, match="is in use; stop its instance"):
            await storage.grow(disk, 8, backing=False, dry_run=False)
    assert list((tmp_path / "views").iterdir()) == []
    async with registry.exposed([disk]) as where:
        assert samples.read(where["d"]).startswith(b"an operating system")
    assert samples.read(path).startswith(b"QFI")


async def test_a_raw_file_is_shown_as_it_is(storage: file.FileStorage) -> None:
    disk = at(storage.logical_id("vm1", "d", index=0))
    path = await storage.create(disk, owner="vm1")
    async with drivers.Registry(storages.runtime(), storage={"file": storage}).exposed([disk]) as where:
        assert where == {"d": path}

"""The calls about disks as they come off the wire: decoded, sent to the right driver, one at a time for each disk."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.node.storage import storages

from gantry import errors
from gantry.node import call_table, drivers
from gantry.node.daemon import disk_calls
from gantry.node.storage import external, file, lvm, programs, qcow2_export
from gantry.rpc import calls
from gantry.runtime import paths
from gantry.runtime.real import RealRuntime


class Slow(file.FileStorage):
    """Files whose making takes a while, and counts how many are made at once."""

    def __init__(self, runtime: RealRuntime, folders: paths.Paths) -> None:
        views = qcow2_export.Views(runtime, f"{folders.run}/views")
        super().__init__(runtime, folders.file_storage, views=views)
        self.busy: dict[str, int] = {}
        self.most = 0
        self.begun = asyncio.Event()
        self.proceed = asyncio.Event()

    async def create(self, disk: calls.Disk, *, owner: str, on: Sequence[str] = ()) -> str:
        self.busy[disk.uuid] = self.busy.get(disk.uuid, 0) + 1
        self.most = max(self.most, *self.busy.values())
        self.begun.set()
        await self.proceed.wait()
        try:
            return await super().create(disk, owner=owner, on=on)
        finally:
            self.busy[disk.uuid] -= 1


class DiskDaemon:
    def __init__(self, folder: Path) -> None:
        runtime, folders = storages.runtime(), paths.Paths.below(str(folder))
        self.files = Slow(runtime, folders)
        self.table = call_table.Table()
        registry = drivers.Registry(RealRuntime("node1"), storage={"file": self.files})
        providers = external.Providers(runtime, [str(folder / "extstorage")])
        volumes = lvm.Lvm(programs.Programs(runtime))
        disk_calls.Disks(registry, disk=runtime.disk, folders=folders, volumes=volumes, providers=providers).add_to(
            self.table
        )
        self.disk = storages.Storage("file", self.files, "file").disk()

    async def call(self, call: calls.Call[object]) -> object:
        return await self.table.answer(call.procedure(), msgspec.json.encode(call))


@pytest.fixture
async def node(tmp_path: Path) -> DiskDaemon:
    return DiskDaemon(tmp_path)


async def test_a_call_that_is_repeated_waits_for_the_first_and_other_disks_do_not(node: DiskDaemon) -> None:
    create = calls.BlockdevCreate(disk=node.disk, owner=storages.OWNER)
    other = msgspec.structs.replace(create, disk=storages.Storage("file", node.files, "file").disk(uuid="d1"))
    running = [asyncio.create_task(node.call(each)) for each in (create, create)]
    await node.files.begun.wait()
    node.files.begun.clear()
    running.append(asyncio.create_task(node.call(other)))
    await node.files.begun.wait()
    assert (node.files.most, len(node.files.busy)) == (1, 2)
    node.files.proceed.set()
    first, again, another = await asyncio.gather(*running)
    assert first == again != another
    assert node.files.most == 1


async def test_a_disk_is_looked_at_while_it_is_worked_on(node: DiskDaemon) -> None:
    making = asyncio.create_task(node.call(calls.BlockdevCreate(disk=node.disk, owner=storages.OWNER)))
    await node.files.begun.wait()
    assert await node.call(calls.BlockdevStatus(disks=(node.disk, node.disk))) == (None, None)
    node.files.proceed.set()
    await making
    disk_state = await node.call(calls.BlockdevFind(disk=node.disk))
    assert isinstance(disk_state, calls.DiskState)
    assert disk_state.size == node.disk.size


async def test_the_life_of_a_disk_by_its_calls(node: DiskDaemon) -> None:
    node.files.proceed.set()
    names = await node.call(calls.BlockdevPath(dev_type="file", instance=storages.OWNER, uuids=("d0", "d1"), first=3))
    assert names == (node.disk.logical_id[1], node.disk.logical_id[1].replace("d0", "d1"))
    assert await node.call(calls.BlockdevPlace(dev_type="file", disks=(node.disk,))) == ((),)
    path = await node.call(calls.BlockdevCreate(disk=node.disk, owner=storages.OWNER))
    assert await node.call(calls.BlockdevAssemble(disk=node.disk, primary=True)) == path
    for each in (
        calls.BlockdevOpen(disk=node.disk),
        calls.BlockdevSetMode(disk=node.disk),
        calls.BlockdevSetinfo(disk=node.disk, owner="vm2"),
        calls.BlockdevGrow(disk=node.disk, size=8),
        calls.BlockdevWipe(disk=node.disk, offset=0, size=8),
        calls.BlockdevClose(disk=node.disk),
        calls.BlockdevShutdown(disk=node.disk),
    ):
        assert await node.call(each) is None
    moved = node.disk.logical_id[1].replace("d0", "d9")
    await node.call(calls.BlockdevRename(disk=node.disk, to=("file", moved)))
    assert await node.call(calls.BlockdevAdopt(disk=node.disk, source=moved, owner=storages.OWNER)) == 8
    await node.call(calls.BlockdevRemove(disk=node.disk, owner=storages.OWNER))
    assert await node.call(calls.BlockdevFind(disk=node.disk)) is None
    assert await node.call(calls.ExtstorageDiagnose()) == ()


async def test_files_where_disks_lie_are_listed_disks_or_not(node: DiskDaemon) -> None:
    assert await node.call(calls.FileList(kind="file")) == ()
    node.files.proceed.set()
    await node.call(calls.BlockdevCreate(disk=node.disk, owner=storages.OWNER))
    disk = Path(node.disk.logical_id[-1])
    disk.with_name("d0.snap").write_bytes(b"a")
    disk.with_name("nowhere").symlink_to("missing")
    disk.with_name("folder").mkdir()
    disk.parent.with_name("beside").write_bytes(b"a")
    assert await node.call(calls.FileList(kind="file")) == (
        calls.DiskFile(str(disk), node.disk.size),
        calls.DiskFile(f"{disk}.snap", 1),
    )
    assert await node.call(calls.FileList(kind="sharedfile")) == ()


def _mirrored(disk: calls.Disk) -> Iterator[calls.Call[object]]:
    yield calls.DrbdAttachNet(disk=disk)
    yield calls.DrbdDisconnectNet(disk=disk)
    yield calls.BlockdevAddchildren(disk=disk)
    yield calls.BlockdevRemovechildren(disk=disk)
    yield calls.BlockdevPauseResumeSync(disk=disk, pause=True)


async def test_what_only_mirrored_disks_can_do_is_refused_for_others(node: DiskDaemon) -> None:
    for call in _mirrored(node.disk):
        with pytest.raises(errors.InvalidError, match="node node1 has no mirrored disk type file"):
            await node.call(call)


def test_a_disk_with_parts_survives_the_wire() -> None:
    part = calls.Disk(index=0, uuid="p", dev_type="plain", size=4, logical_id=("xenvg", "p"), params={"stripes": 1})
    whole = calls.Disk(
        index=0,
        uuid="d",
        dev_type="drbd",
        size=4,
        children=(part, part),
        mirror=calls.Mirror(minor=3, local="192.0.2.1", remote="192.0.2.2", port=11000, secret="s"),
    )
    call = calls.BlockdevAssemble(disk=whole, primary=True)
    assert msgspec.json.decode(msgspec.json.encode(call), type=calls.BlockdevAssemble) == call

"""The calls about disks: finds the driver of each disk, and runs the calls for the same disk one after another.

``handlers`` adds them to its table. A master that has lost an answer repeats the call, perhaps while the first attempt
still runs; with the disk's lock, the second attempt begins after the first has ended and sees its effect.
"""

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator

from gantry.node import call_table, drivers
from gantry.node.storage import external, file, lvm
from gantry.rpc import calls
from gantry.runtime import interface, paths


class Disks:
    """The disk calls of a node."""

    def __init__(
        self,
        registry: drivers.Registry,
        *,
        disk: interface.Disk,
        folders: paths.Paths,
        volumes: lvm.Lvm,
        providers: external.Providers,
    ) -> None:
        self._registry = registry
        self._disk = disk
        self._file_folders = {file.OWN: folders.file_storage, file.SHARED: folders.shared_file_storage}
        self._lvm = volumes
        self._providers = providers
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def add_to(self, table: call_table.Table) -> None:
        """Add all calls to a table."""
        table.add(calls.BlockdevPath, self._path)
        table.add(calls.BlockdevPlace, self._choose_volumes)
        table.add(calls.BlockdevCreate, self._create)
        table.add(calls.BlockdevAdopt, self._adopt)
        table.add(calls.BlockdevRemove, self._remove)
        table.add(calls.BlockdevFind, lambda call: self._find(call.disk))
        table.add(calls.BlockdevStatus, self._status)
        table.add(calls.BlockdevAssemble, self._assemble)
        table.add(calls.BlockdevShutdown, self._shutdown)
        table.add(calls.BlockdevOpen, self._open)
        table.add(calls.BlockdevClose, self._close)
        table.add(calls.BlockdevSetMode, self._set_mode)
        table.add(calls.BlockdevGrow, self._grow)
        table.add(calls.BlockdevSnapshot, self._snapshot)
        table.add(calls.BlockdevRename, self._rename)
        table.add(calls.BlockdevSetinfo, self._set_info)
        table.add(calls.BlockdevWipe, self._wipe)
        table.add(calls.DrbdAttachNet, self._connect)
        table.add(calls.DrbdDisconnectNet, self._disconnect)
        table.add(calls.BlockdevAddchildren, self._attach)
        table.add(calls.BlockdevRemovechildren, self._detach)
        table.add(calls.BlockdevPauseResumeSync, self._pause)
        table.add(calls.FileList, self._list_files)
        table.add(calls.LvList, lambda call: self._lvm.volumes(call.group))
        table.add(calls.VgList, lambda call: self._lvm.groups())
        table.add(calls.VgReduce, lambda call: self._lvm.reduce(call.group, force=call.force))
        table.add(calls.PvChange, lambda call: self._lvm.allocate(call.device, allocatable=call.allocatable))
        table.add(calls.ExtstorageDiagnose, self._diagnose)

    @contextlib.asynccontextmanager
    async def _locked_driver(self, disk: calls.Disk) -> AsyncIterator[drivers.BlockDevice]:
        driver = self._registry.block_device(disk.dev_type)
        lock = self._locks.setdefault(disk.uuid, asyncio.Lock())
        async with lock:
            yield driver

    async def _path(self, call: calls.BlockdevPath) -> tuple[str, ...]:
        driver = self._registry.block_device(call.dev_type)
        return tuple(
            driver.logical_id(call.instance, uuid, index=index) for index, uuid in enumerate(call.uuids, call.first)
        )

    async def _choose_volumes(self, call: calls.BlockdevPlace) -> tuple[tuple[str, ...], ...]:
        return await self._registry.block_device(call.dev_type).choose_volumes(call.disks)

    async def _list_files(self, call: calls.FileList) -> tuple[calls.DiskFile, ...]:
        return file.files(self._disk, self._file_folders[call.kind])

    async def _create(self, call: calls.BlockdevCreate) -> str:
        async with self._locked_driver(call.disk) as driver:
            return await driver.create(call.disk, owner=call.owner, on=call.on)

    async def _adopt(self, call: calls.BlockdevAdopt) -> int:
        async with self._locked_driver(call.disk) as driver:
            return await driver.adopt(call.disk, call.source, owner=call.owner)

    async def _remove(self, call: calls.BlockdevRemove) -> None:
        async with self._locked_driver(call.disk) as driver:
            await driver.remove(call.disk)

    async def _find(self, disk: calls.Disk) -> calls.DiskState | None:
        return await self._registry.block_device(disk.dev_type).find(disk)

    async def _status(self, call: calls.BlockdevStatus) -> tuple[calls.DiskState | None, ...]:
        return tuple(await asyncio.gather(*(self._find(disk) for disk in call.disks)))

    async def _assemble(self, call: calls.BlockdevAssemble) -> str:
        async with self._locked_driver(call.disk) as driver:
            return await driver.activate(call.disk, primary=call.primary)

    async def _shutdown(self, call: calls.BlockdevShutdown) -> None:
        async with self._locked_driver(call.disk) as driver:
            await driver.deactivate(call.disk)

    async def _open(self, call: calls.BlockdevOpen) -> None:
        async with self._locked_driver(call.disk) as driver:
            await driver.open(call.disk, force=call.force)

    async def _close(self, call: calls.BlockdevClose) -> None:
        async with self._locked_driver(call.disk) as driver:
            await driver.close(call.disk)

    async def _set_mode(self, call: calls.BlockdevSetMode) -> None:
        async with self._locked_driver(call.disk) as driver:
            await driver.set_mode(call.disk)

    async def _grow(self, call: calls.BlockdevGrow) -> None:
        async with self._locked_driver(call.disk) as driver:
            await driver.grow(call.disk, call.size, backing=call.backing, dry_run=call.dry_run)

    async def _snapshot(self, call: calls.BlockdevSnapshot) -> tuple[str, tuple[str, ...]]:
        async with self._locked_driver(call.disk) as driver:
            return await driver.snapshot(call.disk, call.name)

    async def _rename(self, call: calls.BlockdevRename) -> None:
        async with self._locked_driver(call.disk) as driver:
            await driver.rename(call.disk, call.to)

    async def _set_info(self, call: calls.BlockdevSetinfo) -> None:
        async with self._locked_driver(call.disk) as driver:
            await driver.set_info(call.disk, call.owner)

    async def _wipe(self, call: calls.BlockdevWipe) -> None:
        async with self._locked_driver(call.disk) as driver:
            await driver.wipe(call.disk, offset=call.offset, size=call.size)

    async def _connect(self, call: calls.DrbdAttachNet) -> None:
        async with self._locked_driver(call.disk):
            mirror = self._registry.mirror(call.disk.dev_type)
            await mirror.connect(call.disk, multimaster=call.multimaster, discard=call.discard)

    async def _disconnect(self, call: calls.DrbdDisconnectNet) -> None:
        async with self._locked_driver(call.disk):
            await self._registry.mirror(call.disk.dev_type).disconnect(call.disk)

    async def _attach(self, call: calls.BlockdevAddchildren) -> None:
        async with self._locked_driver(call.disk):
            await self._registry.mirror(call.disk.dev_type).attach(call.disk)

    async def _detach(self, call: calls.BlockdevRemovechildren) -> None:
        async with self._locked_driver(call.disk):
            await self._registry.mirror(call.disk.dev_type).detach(call.disk)

    async def _pause(self, call: calls.BlockdevPauseResumeSync) -> None:
        async with self._locked_driver(call.disk):
            await self._registry.mirror(call.disk.dev_type).pause(call.disk, pause=call.pause)

    async def _diagnose(self, call: calls.ExtstorageDiagnose) -> tuple[calls.Provider, ...]:
        return self._providers.diagnose()

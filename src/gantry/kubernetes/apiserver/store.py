r"""The store of the embedded server: all objects in memory, each change in a file before anybody is told of it.

    DATA/objects.log    frames of the journal's form (``state.frame``)
        {"version": V, "count": N}                  first record: the N that follow are all objects at version V
        {"title": ..., "object": {...}}             an object, made or changed
        {"title": ..., "object": {...}, "gone": true}   an object that went, as it was last

``open``, then writes, then ``close``. A write is decided over ``tip``, which has what is on its way to the disk, and
returns when it is there; changes that wait together share one frame and one sync. ``get`` and ``collection`` show
what has been stored and nothing else. When the file has grown to several times what it says, it is replaced as a
whole by one that begins with all objects; a kill leaves the old one or the new one.

Invariant: a resource version is given once, and versions are stored, and shown, in their order.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Iterable
from typing import cast

import msgspec

from gantry import errors
from gantry.kubernetes.api import schema
from gantry.kubernetes.apiserver import metadata, resources, status_errors, watch_cache
from gantry.runtime import interface
from gantry.state import frame, journal

log = logging.getLogger(__name__)

ROOM = 16 << 20
"""Bytes of changes that a file has before it is replaced by a shorter one, at least."""

OBJECT_LIMIT = 3 << 19
"""Bytes of an object, as in other stores that API servers have: clients do not reckon with more."""

GROWTH = 4
"""How many times as large as the objects it may become."""


class _Header(msgspec.Struct, frozen=True):
    version: int
    count: int


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    title: str
    object: msgspec.Raw
    gone: bool = False


_HEADER = msgspec.json.Decoder(_Header)
_RECORD = msgspec.json.Decoder(_Record)
_ENCODE = msgspec.json.Encoder().encode

Observer = Callable[[watch_cache.Event], None]
"""Is told of each change when it has been stored."""


class _Change(msgspec.Struct, frozen=True):
    item: watch_cache.Item
    gone: bool
    ticket: asyncio.Future[None]


def _item(title: str, said: schema.Json, body: bytes) -> watch_cache.Item:
    """Return an object by its metadata and its JSON."""
    name, namespace, version, uid = (
        cast("str", said.get(key, "")) for key in ("name", "namespace", "resourceVersion", "uid")
    )
    return watch_cache.Item(
        key=watch_cache.Key(title, namespace, name),
        version=int(version),
        uid=uid,
        labels=cast("dict[str, str]", said.get("labels", {})),
        owners=tuple(cast("str", one["uid"]) for one in metadata.owners(said)),
        is_deleting="deletionTimestamp" in said,
        finalizers=tuple(metadata.texts(said, "finalizers")),
        body=body,
    )


class Store:
    """The objects; ``observer`` may be set before ``open``."""

    def __init__(self, runtime: interface.Runtime, folder: str) -> None:
        self._disk = runtime.disk
        self._folder = folder
        self._path = f"{folder}/objects.log"
        self._collections = {status_errors.title(one): watch_cache.Collection() for one in resources.SERVED}
        self._tip: dict[watch_cache.Key, watch_cache.Item | None] = {}
        self._pending: list[_Change] = []
        self._wake = asyncio.Event()
        self._issued = 0
        self._size = 0
        self._digest = frame.GENESIS
        self._lock: interface.FileLock | None = None
        self._journal: journal.Journal | None = None
        self._writing: asyncio.Task[None] | None = None
        self.version = 0
        self.observer: Observer = lambda event: None

    async def open(self) -> None:
        """Read what is stored; BusyError when another server has it, ConfigurationError when it is damaged."""
        await self._disk.make_directory(self._folder, mode=0o700)
        try:
            self._lock = self._disk.lock(f"{self._folder}/lock")
        except BlockingIOError:
            raise errors.BusyError(f"another server uses the folder {self._folder}") from None
        if self._disk.exists(self._path):
            await self._recover()
        else:
            await self._rewrite()
        await self._file()
        self._writing = asyncio.create_task(self._write())
        self._writing.add_done_callback(self._ended)

    @property
    def is_writing(self) -> bool:
        """Tell whether changes are stored: not after ``close``, nor after a bug that ended it."""
        return self._writing is not None and not self._writing.done()

    async def close(self) -> None:
        """Store what is on its way, and end."""
        if self._writing:
            await asyncio.gather(*(one.ticket for one in self._pending), return_exceptions=True)
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        if self._journal:
            self._journal.close()
        if self._lock:
            self._lock.release()

    def collection(self, title: str) -> watch_cache.Collection:
        """Return the objects of a kind, by ``status_errors.title``."""
        return self._collections[title]

    def everything(self) -> Iterable[watch_cache.Item]:
        """Yield all objects."""
        for one in self._collections.values():
            yield from one.items()

    def get(self, key: watch_cache.Key) -> watch_cache.Item | None:
        """Return an object as it is stored."""
        return self._collections[key.title].get(key.namespace, key.name)

    def tip(self, key: watch_cache.Key) -> watch_cache.Item | None:
        """Return an object as it will be when all is stored that is on its way: what writes are decided over."""
        return self._tip[key] if key in self._tip else self.get(key)

    async def put(self, title: str, body: schema.Json) -> watch_cache.Item:
        """Store an object with the next version; StorageError when that fails, and then it is as before.

        StatusError 413 for one that is too large; the mark of its deletion always finds room. InternalError if nothing
        is stored any more; what was on its way then may be there or not.
        """
        return await self._enter(title, body, gone=False)

    async def remove(self, title: str, body: schema.Json) -> watch_cache.Item:
        """Store that an object has gone; it is shown to watches as given, with the next version; else as ``put``."""
        return await self._enter(title, body, gone=True)

    async def _enter(self, title: str, body: schema.Json, *, gone: bool) -> watch_cache.Item:
        if not self.is_writing:
            raise errors.InternalError(f"{self._path} is not written any more", hint="start the server again")
        self._issued += 1
        said = {**metadata.of(body), "resourceVersion": str(self._issued)}
        item = _item(title, said, _ENCODE({**body, "metadata": said}))
        if len(item.body) > OBJECT_LIMIT and not item.is_deleting:
            raise status_errors.too_large("the object", OBJECT_LIMIT)
        change = _Change(item, gone, asyncio.get_running_loop().create_future())
        self._tip[item.key] = None if gone else item
        self._pending.append(change)
        self._wake.set()
        # Who is cancelled here leaves the change where it is: it will be stored.
        await change.ticket
        return item

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            group = list(self._pending)
            records = [_ENCODE(_Record(one.item.key.title, msgspec.Raw(one.item.body), one.gone)) for one in group]
            try:
                file = await self._file()
                line = frame.pack(self._digest, records)
                await file.append(line)
            except OSError as error:
                self._fail(error)
                continue
            self._digest = frame.digest(line)
            for one in group:
                self._publish(one)
            del self._pending[: len(group)]
            # Watches come last: a controller beside us then knows its own changes from their answers.
            for title in {one.item.key.title: None for one in group}:
                self._collections[title].wake()
            if file.written > self._size * GROWTH + ROOM:
                await self._shorten()

    async def _file(self) -> journal.Journal:
        """Return the file, opened if it has just been replaced; whoever replaced it may have been interrupted."""
        if self._journal is None:
            # The replacement may be there and its name not synced: then what follows in it would go with the name.
            await self._disk.sync(self._folder)
            try:
                self._digest = list(frame.scan(self._disk.read(self._path)))[-1].digest
            except frame.DamageError as error:
                raise OSError(errno.EIO, f"byte offset {error.offset}: {error.what}", self._path) from None
            file = await self._disk.append_file(self._path, mode=0o600)
            self._journal = journal.Journal(self._disk, self._folder, path=self._path, file=file)
        return self._journal

    def _publish(self, change: _Change) -> None:
        item = change.item
        self.version = item.version
        event = self._collections[item.key.title].enter(item, gone=change.gone)
        if item.key in self._tip and self._tip[item.key] is (None if change.gone else item):
            del self._tip[item.key]
        self.observer(event)
        if not change.ticket.done():
            change.ticket.set_result(None)

    def _fail(self, error: OSError) -> None:
        """Take everything back that is on its way: what came later was decided over what came first."""
        log.error("%s: cannot be written: %s", self._path, error)
        failed, self._pending = self._pending, []
        self._tip.clear()
        for one in failed:
            if not one.ticket.done():
                one.ticket.set_exception(errors.StorageError(f"{self._path} cannot be written: {error.strerror}"))

    def _ended(self, writing: asyncio.Task[None]) -> None:
        """Let nobody wait for what will not be stored, after a bug."""
        error = None if writing.cancelled() else writing.exception()
        if error:
            log.critical("%s is not written any more", self._path, exc_info=error)
        for one in self._pending:
            if not one.ticket.done():
                one.ticket.set_exception(errors.InternalError(f"{self._path} is not written any more: {error!r}"))

    async def _shorten(self) -> None:
        try:
            await self._rewrite()
        except OSError as error:
            log.warning("%s: cannot be replaced by a shorter one: %s", self._path, error)
            self._size += ROOM

    async def _rewrite(self) -> None:
        """Replace the file by one that begins with all objects."""
        items = list(self.everything())
        header = _ENCODE(_Header(self.version, len(items)))
        records = (_ENCODE(_Record(one.key.title, msgspec.Raw(one.body))) for one in items)
        line = frame.pack(frame.GENESIS, [header, *records])
        if self._journal:
            self._journal.close()
            self._journal = None
        await self._disk.write(self._path, line, mode=0o600)
        self._size = len(line)

    async def _recover(self) -> None:
        """Read the file; what a crash left of its last frame was never acknowledged, and is cut off."""
        found, good = self._disk.read(self._path), 0
        try:
            for one in frame.scan(found):
                if one.previous != self._digest:
                    raise frame.DamageError(one.offset, "the frame does not follow the one before it (chain hash)")
                self._replay(one, is_first=good == 0)
                self._digest, good = one.digest, one.offset + len(one.line)
                self._size = self._size or good
        except frame.TornError as error:
            if not good:
                raise self._damaged(error) from None
            log.warning("%s: dropped the last %d bytes, which a crash interrupted", self._path, len(found) - good)
        except frame.DamageError as error:
            raise self._damaged(error) from None
        # A sync before may have failed, which the kernel tells once; a file written anew is on the disk.
        await self._disk.write(self._path, found[:good], mode=0o600)
        self._issued = self.version

    def _replay(self, one: frame.Frame, *, is_first: bool) -> None:
        records = list(one.records)
        count = 0
        try:
            if is_first:
                header = _HEADER.decode(records.pop(0))
                self.version, count = header.version, header.count
                for collection in self._collections.values():
                    collection.floor = header.version
            for place, raw in enumerate(records):
                record = _RECORD.decode(raw)
                body = bytes(record.object)
                item = _item(record.title, metadata.of(resources.value(body)), body)
                collection = self._collections[record.title]
                if place < count:
                    collection.load(item)
                else:
                    collection.enter(item, gone=record.gone)
                    self.version = item.version
        except (*frame.UNREADABLE, KeyError, IndexError, ValueError) as error:
            raise frame.DamageError(one.offset, f"a record cannot be read: {error}") from None

    def _damaged(self, error: frame.DamageError) -> errors.ConfigurationError:
        return errors.ConfigurationError(
            f"the stored objects are damaged: {self._path}, byte offset {error.offset}: {error.what}",
            hint="keep a copy of the file and put a backup of it in its place",
        )

r"""Store of the embedded API server: all objects in memory, each change in a file before it is visible.

    DATA/objects.log    frames, in the format of the journal (``lib_files.frame``)
        {"version": V, "count": N}                      first record: the next N records are all objects at version V
        {"title": ..., "object": {...}}                 a created or changed object
        {"title": ..., "object": {...}, "gone": true}   the last version of a deleted object

``open``, then writes, then ``close``. A write is based on ``current``, which includes pending changes, and returns when
it is durable; changes that are pending together share one frame and one fsync. ``get`` and ``collection`` return
durable objects only. When the file is several times larger than its objects, it is atomically replaced by one that
begins with all objects; a crash leaves the old one or the new one.

Invariant: a resource version is used once, and versions are stored, and become visible, in order.
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
from gantry.lib_files import frame
from gantry.runtime import file_interface, interface
from gantry.state.journal import journal

log = logging.getLogger(__name__)

COMPACT_BYTES = 16 << 20
"""Minimum bytes of changes before the file is compacted."""

MAX_OBJECT_BYTES = 3 << 19
"""Maximum bytes of an object, as in etcd."""

COMPACT_FACTOR = 4
"""Size of the file, as a multiple of the objects' size, before it is compacted."""


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
"""Called with each durable change."""


class _Change(msgspec.Struct, frozen=True):
    item: watch_cache.Item
    gone: bool
    ticket: asyncio.Future[None]


def _to_item(title: str, metadata_fields: schema.Json, body: bytes) -> watch_cache.Item:
    """Build an item from the metadata and the JSON of an object."""
    name, namespace, version, uid = (
        cast("str", metadata_fields.get(key, "")) for key in ("name", "namespace", "resourceVersion", "uid")
    )
    return watch_cache.Item(
        key=watch_cache.Key(title, namespace, name),
        version=int(version),
        uid=uid,
        labels=cast("dict[str, str]", metadata_fields.get("labels", {})),
        owners=tuple(cast("str", owner["uid"]) for owner in metadata.owners(metadata_fields)),
        is_deleting="deletionTimestamp" in metadata_fields,
        finalizers=tuple(metadata.string_list(metadata_fields, "finalizers")),
        body=body,
    )


class Store:
    """The objects; ``observer`` is called with each durable change."""

    def __init__(self, runtime: interface.Runtime, folder: str) -> None:
        self._disk = runtime.disk
        self._folder = folder
        self._path = f"{folder}/objects.log"
        self._collections = {
            status_errors.title(definition): watch_cache.Collection() for definition in resources.SERVED
        }
        self._current: dict[watch_cache.Key, watch_cache.Item | None] = {}
        self._pending: list[_Change] = []
        self._wake = asyncio.Event()
        self._last_version = 0
        self._size = 0
        self._digest = frame.GENESIS
        self._lock: file_interface.FileLock | None = None
        self._journal: journal.Journal | None = None
        self._writer: asyncio.Task[None] | None = None
        self.version = 0
        self.observer: Observer = lambda event: None

    async def open(self) -> None:
        """Load the objects; BusyError if another server uses the directory, ConfigurationError for a damaged file."""
        await self._disk.make_directory(self._folder, mode=0o700)
        try:
            self._lock = self._disk.lock(f"{self._folder}/lock")
        except BlockingIOError:
            raise errors.BusyError(f"another server is using the directory {self._folder}") from None
        if self._disk.exists(self._path):
            await self._recover()
        else:
            await self._rewrite()
        await self._file()
        self._writer = asyncio.create_task(self._write())
        self._writer.add_done_callback(self._writer_ended)

    @property
    def is_writable(self) -> bool:
        """Whether changes can be stored: not after ``close``, nor after the writer has failed."""
        return self._writer is not None and not self._writer.done()

    async def close(self) -> None:
        """Store pending changes and stop."""
        if self._writer:
            await asyncio.gather(*(change.ticket for change in self._pending), return_exceptions=True)
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        if self._journal:
            self._journal.close()
        if self._lock:
            self._lock.release()

    def collection(self, title: str) -> watch_cache.Collection:
        """Return the collection with a title."""
        return self._collections[title]

    def all_items(self) -> Iterable[watch_cache.Item]:
        """Yield all objects."""
        for collection in self._collections.values():
            yield from collection.items()

    def get(self, key: watch_cache.Key) -> watch_cache.Item | None:
        """Return the durable version of an object."""
        return self._collections[key.title].get(key.namespace, key.name)

    def current(self, key: watch_cache.Key) -> watch_cache.Item | None:
        """Return an object with pending changes, on which writes are based."""
        return self._current[key] if key in self._current else self.get(key)

    async def put(self, title: str, body: schema.Json) -> watch_cache.Item:
        """Store an object with the next version; StorageError if that fails, and then nothing has changed.

        StatusError 413 if it is too large, except when it is being deleted. InternalError if the writer has failed; the
        outcome of pending changes is unknown then.
        """
        return await self._queue_change(title, body, gone=False)

    async def remove(self, title: str, body: schema.Json) -> watch_cache.Item:
        """Remove an object; watches get ``body`` with the next version. Errors as for ``put``."""
        return await self._queue_change(title, body, gone=True)

    async def _queue_change(self, title: str, body: schema.Json, *, gone: bool) -> watch_cache.Item:
        if not self.is_writable:
            raise errors.InternalError(f"{self._path} is no longer written", hint="restart the server")
        self._last_version += 1
        versioned = {**metadata.of(body), "resourceVersion": str(self._last_version)}
        item = _to_item(title, versioned, _ENCODE({**body, "metadata": versioned}))
        if len(item.body) > MAX_OBJECT_BYTES and not item.is_deleting:
            raise status_errors.too_large("the object", MAX_OBJECT_BYTES)
        change = _Change(item, gone, asyncio.get_running_loop().create_future())
        self._current[item.key] = None if gone else item
        self._pending.append(change)
        self._wake.set()
        # If the caller is cancelled here, the change is stored all the same.
        await change.ticket
        return item

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch = list(self._pending)
            records = [
                _ENCODE(_Record(change.item.key.title, msgspec.Raw(change.item.body), change.gone)) for change in batch
            ]
            try:
                file = await self._file()
                line = frame.pack(self._digest, records)
                await file.append(line)
            except OSError as error:
                self._fail(error)
                continue
            self._digest = frame.digest(line)
            for change in batch:
                self._publish(change)
            del self._pending[: len(batch)]
            # Wake watches last: a controller of ours then knows its own changes from the answers.
            for title in {change.item.key.title: None for change in batch}:
                self._collections[title].wake()
            if file.written > self._size * COMPACT_FACTOR + COMPACT_BYTES:
                await self._compact()

    async def _file(self) -> journal.Journal:
        """Return the file, and reopen it after it was replaced, even if that was interrupted."""
        if self._journal is None:
            # After an interrupted replacement its name may not be durable; appended changes would be lost with it.
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
        event = self._collections[item.key.title].add_event(item, gone=change.gone)
        if item.key in self._current and self._current[item.key] is (None if change.gone else item):
            del self._current[item.key]
        self.observer(event)
        if not change.ticket.done():
            change.ticket.set_result(None)

    def _fail(self, error: OSError) -> None:
        """Fail all pending changes: later ones are based on earlier ones."""
        log.error("%s cannot be written: %s", self._path, error)
        failed, self._pending = self._pending, []
        self._current.clear()
        for change in failed:
            if not change.ticket.done():
                change.ticket.set_exception(errors.StorageError(f"{self._path} cannot be written: {error.strerror}"))

    def _writer_ended(self, writing: asyncio.Task[None]) -> None:
        """Fail all pending changes after a bug has ended the writer."""
        error = None if writing.cancelled() else writing.exception()
        if error:
            log.critical("%s is no longer written", self._path, exc_info=error)
        for change in self._pending:
            if not change.ticket.done():
                change.ticket.set_exception(errors.InternalError(f"{self._path} is no longer written: {error!r}"))

    async def _compact(self) -> None:
        try:
            await self._rewrite()
        except OSError as error:
            log.warning("%s cannot be compacted: %s", self._path, error)
            self._size += COMPACT_BYTES

    async def _rewrite(self) -> None:
        """Compact: replace the file by one that begins with all objects."""
        items = list(self.all_items())
        header = _ENCODE(_Header(self.version, len(items)))
        records = (_ENCODE(_Record(item.key.title, msgspec.Raw(item.body))) for item in items)
        line = frame.pack(frame.GENESIS, [header, *records])
        if self._journal:
            self._journal.close()
            self._journal = None
        await self._disk.write(self._path, line, mode=0o600)
        self._size = len(line)

    async def _recover(self) -> None:
        """Replay the file; an incomplete last frame was never acknowledged and is dropped."""
        content, valid_bytes = self._disk.read(self._path), 0
        try:
            for stored_frame in frame.scan(content):
                if stored_frame.previous != self._digest:
                    raise frame.DamageError(
                        stored_frame.offset, "the frame does not follow the one before it (chain hash)"
                    )
                self._replay(stored_frame, is_first=valid_bytes == 0)
                self._digest, valid_bytes = stored_frame.digest, stored_frame.offset + len(stored_frame.line)
                self._size = self._size or valid_bytes
        except frame.TornError as error:
            if not valid_bytes:
                raise self._damaged(error) from None
            log.warning(
                "%s: dropped an incomplete frame of %d bytes after a crash", self._path, len(content) - valid_bytes
            )
        except frame.DamageError as error:
            raise self._damaged(error) from None
        # A previous fsync may have failed, and the kernel reports that only once, so rewrite the file.
        await self._disk.write(self._path, content[:valid_bytes], mode=0o600)
        self._last_version = self.version

    def _replay(self, stored_frame: frame.Frame, *, is_first: bool) -> None:
        records = list(stored_frame.records)
        count = 0
        try:
            if is_first:
                header = _HEADER.decode(records.pop(0))
                self.version, count = header.version, header.count
                for collection in self._collections.values():
                    collection.floor = header.version
            for index, raw in enumerate(records):
                record = _RECORD.decode(raw)
                body = bytes(record.object)
                item = _to_item(record.title, metadata.of(resources.value(body)), body)
                collection = self._collections[record.title]
                if index < count:
                    collection.load(item)
                else:
                    collection.add_event(item, gone=record.gone)
                    self.version = item.version
        except (*frame.UNREADABLE, KeyError, IndexError, ValueError) as error:
            raise frame.DamageError(stored_frame.offset, f"a record cannot be read: {error}") from None

    def _damaged(self, error: frame.DamageError) -> errors.ConfigurationError:
        return errors.ConfigurationError(
            f"the object store {self._path} is damaged at byte offset {error.offset}: {error.what}",
            hint="keep a copy of the file, then restore it from a backup",
        )

"""The real file system. Operations that may wait for the device run in a thread, all others do not.

``write`` leaves a file ``.new-*`` behind if the process dies during the write; readers of a folder ignore such files,
because they select files by name. A rename and a removal are not synced: a power loss before the next ``sync`` may undo
them.
"""

import asyncio
import concurrent.futures
import contextlib
import ctypes
import fcntl
import hashlib
import io
import os
import secrets
import shutil
import stat
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from gantry.runtime import file_interface

MODE = 0o640

_LIBC = ctypes.CDLL(None, use_errno=True)


def _write_all(descriptor: int, data: bytes) -> None:
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[os.write(descriptor, unwritten) :]


def _folder(path: str) -> str:
    """Return the folder of a path; the working directory for a bare name."""
    return os.path.dirname(path.rstrip("/")) or "."


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: str, data: bytes, mode: int, sync: bool) -> None:
    folder = _folder(path)
    temporary = f"{folder}/.new-{secrets.token_hex(8)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            _write_all(descriptor, data)
            os.fchmod(descriptor, mode)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    if sync:
        _sync_directory(folder)


def _replace_all(files: Mapping[str, bytes]) -> dict[str, OSError]:
    failures: dict[str, OSError] = {}
    for path, data in files.items():
        try:
            _replace(path, data, MODE, sync=False)
        except OSError as error:
            failures[path] = error
    return failures


def _rename_all(moves: Mapping[str, str]) -> None:
    for old, new in moves.items():
        os.rename(old, new)


def _sync_file_system(descriptor: int, path: str) -> None:
    # The standard library lacks syncfs(2). Unlike sync(2) it syncs one file system only, and reports errors.
    if _LIBC.syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


def _sync_path(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _sync_file_system(descriptor, path)
    finally:
        os.close(descriptor)


def open_log(path: str, flags: int) -> int:
    """Open a log file that only its owner and group may read, whatever its mode was; the ``opener`` of ``open``."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, MODE)
    with contextlib.suppress(PermissionError):  # another user's file keeps its mode
        os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & MODE)
    return descriptor


def open_log_text(path: str, mode: str, *, encoding: str | None, errors: str | None) -> io.TextIOWrapper:
    """Open a log file as text, with the permissions of ``open_log``."""
    stream = open(path, mode, encoding=encoding, errors=errors, opener=open_log)  # noqa: SIM115
    assert isinstance(stream, io.TextIOWrapper)
    return stream


def _open_append(path: str, mode: int) -> int:
    # O_DSYNC writes and syncs in one call; between two calls the thread would wait for the interpreter lock.
    flags = os.O_RDWR | os.O_APPEND | os.O_DSYNC | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, flags)
    descriptor = os.open(path, flags | os.O_CREAT, mode)
    os.fchmod(descriptor, mode)
    _sync_directory(_folder(path))
    return descriptor


def _make_directory(path: str, mode: int) -> None:
    if os.path.isdir(path):
        return
    parent = _folder(path)
    _make_directory(parent, mode)
    try:
        os.mkdir(path)
    except FileExistsError:
        if os.path.isdir(path):
            return
        raise
    os.chmod(path, mode)
    _sync_directory(parent)


def _make_sparse(path: str, size: int, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        os.fchmod(descriptor, mode)
        os.ftruncate(descriptor, size)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)


def _remove_all(paths: Sequence[str]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _remove_tree(path: str) -> None:
    if os.path.lexists(path):
        shutil.rmtree(path)


class AppendFile:
    """A growing file with a thread of its own, so that a slow removal elsewhere never delays the journal.

    A single thread also keeps the order: the operation of a cancelled caller ends before the next call starts. A closed
    file leaves its thread to the next one: a node opens a file for each frame, and a new thread costs more than a sync.
    """

    _idle_threads: ClassVar[list[concurrent.futures.ThreadPoolExecutor]] = []

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # A write syncs only its own data, not data that a former process may have left unsynced.
        self._has_unsynced_past = True
        self._last: concurrent.futures.Future[Any] | None = None
        if self._idle_threads:
            self._thread = self._idle_threads.pop()
        else:
            self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="append")

    @property
    def size(self) -> int:
        """Return the length in bytes, including data that is not synced yet."""
        return os.fstat(self._descriptor).st_size

    def is_at(self, path: str) -> bool:
        """Return whether ``path`` still leads to this file."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(path))
        except FileNotFoundError:
            return False

    async def append(self, data: bytes) -> None:
        """Write ``data`` at the end and sync it, in one call to the thread."""
        self._last = self._thread.submit(self.append_here, data)
        await asyncio.wrap_future(self._last)

    async def append_with(self, data: bytes, path: str, follow_up: file_interface.FollowUp) -> bool:
        """Append here, then to a second file if ``path`` leads to this one, in one call to the thread."""
        self._last = future = self._thread.submit(self._append_with, data, path, follow_up)
        return await asyncio.wrap_future(future)

    def _append_with(self, data: bytes, path: str, follow_up: file_interface.FollowUp) -> bool:
        self.append_here(data)
        return follow_up.append_after(self, path)

    def append_here(self, data: bytes) -> None:
        """Write ``data`` at the end and sync it, in the thread of the caller."""
        _write_all(self._descriptor, data)
        if self._has_unsynced_past:
            os.fdatasync(self._descriptor)
            self._has_unsynced_past = False

    async def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes and sync it."""
        self._last = self._thread.submit(self._truncate, size)
        await asyncio.wrap_future(self._last)

    def _truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Finish the current write and close the file; a second call does nothing."""
        if self._descriptor >= 0:
            if self._last is not None:
                concurrent.futures.wait([self._last])
            self._idle_threads.append(self._thread)
            os.close(self._descriptor)
            self._descriptor = -1


class FileSystem:
    """An open file system; the kernel reports each failure once to its descriptor (since Linux 5.8)."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    async def sync(self) -> None:
        """Flush all changes to stable storage."""
        await asyncio.to_thread(_sync_file_system, self._descriptor, self._path)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class FileLock:
    """A lock by flock(2): the kernel releases it when the process ends, however it ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock; the file stays. A second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Disk:
    """The file system of this machine (see ``interface.Disk``)."""

    def resolve(self, path: str) -> str:
        """Return the absolute path without symbolic links."""
        return os.path.realpath(path)

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory at ``path``."""
        return os.path.exists(path)

    def status(self, path: str) -> file_interface.FileStatus:
        """Return the status of the file at ``path``."""
        status = os.stat(path)
        return file_interface.FileStatus(
            size=status.st_size,
            mtime=status.st_mtime,
            mode=stat.S_IMODE(status.st_mode),
            is_directory=stat.S_ISDIR(status.st_mode),
            links=status.st_nlink,
            identity=(status.st_dev, status.st_ino),
        )

    def names(self, path: str) -> list[str]:
        """List a directory, sorted."""
        return sorted(os.listdir(path))

    def read_part(self, path: str, offset: int, size: int) -> bytes:
        """Return ``size`` bytes of a file from ``offset``, fewer at its end."""
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(size)

    def read(self, path: str) -> bytes:
        """Return the whole content of a file."""
        with open(path, "rb") as file:
            return file.read()

    async def write(self, path: str, data: bytes, *, mode: int = MODE, sync: bool = True) -> None:
        """Replace the file at ``path`` atomically."""
        await asyncio.to_thread(_replace, path, data, mode, sync)

    async def write_all(self, files: Mapping[str, bytes]) -> dict[str, OSError]:
        """Replace files without a sync; return the errors by path."""
        return await asyncio.to_thread(_replace_all, files)

    async def digest(self, path: str) -> str:
        """Return the SHA-256 of a file, in hex."""
        return await asyncio.to_thread(_digest, path)

    async def sync(self, path: str) -> None:
        """Flush all changes on the file system of ``path`` to stable storage."""
        await asyncio.to_thread(_sync_path, path)

    def file_system(self, path: str) -> FileSystem:
        """Open the file system of ``path``."""
        return FileSystem(path)

    async def append_file(self, path: str, *, mode: int = MODE) -> AppendFile:
        """Open a file for appending; create it if missing."""
        return AppendFile(await asyncio.to_thread(_open_append, path, mode))

    async def make_directory(self, path: str, *, mode: int = 0o750) -> None:
        """Create a directory and its missing parents, all with ``mode``, on stable storage."""
        await asyncio.to_thread(_make_directory, path, mode)

    async def rename(self, moves: Mapping[str, str]) -> None:
        """Rename files or directories, replacing files."""
        await asyncio.to_thread(_rename_all, moves)

    async def remove(self, path: str) -> None:
        """Remove a file."""
        await asyncio.to_thread(os.unlink, path)

    async def remove_all(self, paths: Sequence[str]) -> None:
        """Remove files in order, in one call to a thread."""
        await asyncio.to_thread(_remove_all, paths)

    async def remove_tree(self, path: str) -> None:
        """Remove a directory and everything below it."""
        await asyncio.to_thread(_remove_tree, path)

    async def make_sparse(self, path: str, size: int, *, mode: int = 0o600) -> None:
        """Create a sparse file of ``size`` bytes, without allocated blocks."""
        await asyncio.to_thread(_make_sparse, path, size, mode)

    def free_space(self, path: str) -> tuple[int, int]:
        """Return the bytes available to this process and the total of the file system that holds ``path``."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize

    def lock(self, path: str) -> FileLock:
        """Lock a file, and write our process id into it for people to read."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            holder = b"%d\n" % os.getpid()
            # A file system may begin to write a truncated file to the disk when it is closed (ext4: auto_da_alloc).
            if os.pread(descriptor, len(holder) + 1, 0) != holder:
                os.ftruncate(descriptor, 0)
                _write_all(descriptor, holder)
        except OSError:
            os.close(descriptor)
            raise
        return FileLock(descriptor)

"""What only the disk of a machine can show: descriptors, the umask, threads, and another process at the same place."""

import asyncio
import contextlib
import os
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from gantry.runtime.real import disk

Work = Callable[[disk.Disk, str], Awaitable[object]]


def _open_files(folder: str) -> list[str]:
    """Return the files at and below a folder that this process has open."""
    paths = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            paths.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in paths if path.startswith(folder)]


@pytest.fixture
def real() -> disk.Disk:
    return disk.Disk()


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


async def _open_and_close(own: disk.Disk, folder: str) -> None:
    file = await own.append_file(f"{folder}/log")
    await file.append(b"line")
    file.close()
    opened = own.file_system(folder)
    await opened.sync()
    opened.close()
    own.lock(f"{folder}/lock").release()


async def _lock_twice(own: disk.Disk, folder: str) -> None:
    lock = own.lock(f"{folder}/lock")
    try:
        own.lock(f"{folder}/lock")
    finally:
        lock.release()


@pytest.mark.parametrize(
    ("work", "error"),
    [
        (lambda own, folder: own.write(f"{folder}/new", b"data"), None),
        (lambda own, folder: own.write(f"{folder}/new", b"data", sync=False), None),
        (lambda own, folder: own.write(f"{folder}/taken", b"data"), IsADirectoryError),
        (lambda own, folder: own.write_all({f"{folder}/new": b"data", f"{folder}/taken": b"data"}), None),
        (lambda own, folder: own.digest(f"{folder}/file"), None),
        (lambda own, folder: own.sync(folder), None),
        (lambda own, folder: own.make_directory(f"{folder}/a/b"), None),
        (lambda own, folder: own.make_sparse(f"{folder}/new", 1 << 20), None),
        (lambda own, folder: own.make_sparse(f"{folder}/new", -1), OSError),
        (_open_and_close, None),
        (_lock_twice, BlockingIOError),
    ],
    ids=range(11),
)
async def test_no_work_leaves_a_file_open(
    real: disk.Disk, tmp_path: Path, work: Work, error: type[OSError] | None
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").write_text("content")
    if error:
        with pytest.raises(error):
            await work(real, str(tmp_path))
    else:
        await work(real, str(tmp_path))
    assert _open_files(str(tmp_path)) == []


@pytest.mark.usefixtures("strict_umask")
async def test_what_is_created_has_its_mode_whatever_the_umask_is(real: disk.Disk, tmp_path: Path) -> None:
    await real.make_directory(str(tmp_path / "folder"), mode=0o755)
    await real.make_sparse(str(tmp_path / "disk"), 1, mode=0o644)
    await real.write(str(tmp_path / "file"), b"", mode=0o664)
    (await real.append_file(str(tmp_path / "log"), mode=0o646)).close()
    await real.make_directory(str(tmp_path / "own"))
    await real.make_sparse(str(tmp_path / "own/disk"), 1)
    assert [real.status(str(tmp_path / name)).mode for name in ("own", "own/disk")] == [0o750, 0o600]
    names = ("folder", "disk", "file", "log")
    assert [real.status(str(tmp_path / name)).mode for name in names] == [0o755, 0o644, 0o664, 0o646]


@pytest.mark.parametrize(("before", "after"), [(0o666, 0o640), (0o604, 0o600), (0o600, 0o600), (0o640, 0o640)])
def test_a_log_is_closed_to_others_whatever_its_mode_was(tmp_path: Path, before: int, after: int) -> None:
    path = tmp_path / "log"
    path.write_text("first\n")
    path.chmod(before)
    with disk.open_log_text(str(path), "a", encoding="utf-8", errors="backslashreplace") as log:
        log.write("größer \udc80\n")
    assert path.read_bytes() == "first\ngrößer \\udc80\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == after


@pytest.mark.parametrize("kind", ["directory", "file"])
async def test_a_directory_that_another_process_creates_meanwhile_is_as_good(
    real: disk.Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path, make = tmp_path / "folder", os.mkdir

    def late(name: str) -> None:
        path.write_text("") if kind == "file" else make(name, 0o700)
        make(name)

    monkeypatch.setattr(os, "mkdir", late)
    if kind == "file":
        with pytest.raises(FileExistsError):
            await real.make_directory(str(path))
    else:
        await real.make_directory(str(path), mode=0o755)
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


async def test_a_closed_file_leaves_its_thread_to_the_next(
    real: disk.Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    sync = os.fdatasync

    def noted(descriptor: int) -> None:
        threads.append(threading.current_thread())
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", noted)
    for _ in range(3):
        file = await real.append_file(str(tmp_path / "log"))
        await file.append(b"line\n")
        file.close()
    assert threads == [threads[0]] * 3


async def test_a_file_that_is_closed_finishes_its_write(
    real: disk.Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = tmp_path / "log", os.write
    begun, may_write = threading.Event(), threading.Event()

    def slow(descriptor: int, data: bytes) -> int:
        begun.set()
        may_write.wait(60)
        return write(descriptor, data)

    file = await real.append_file(str(path))
    monkeypatch.setattr(os, "write", slow)
    appending = asyncio.create_task(file.append(b"whole"))
    assert await asyncio.to_thread(begun.wait, 60)
    appending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await appending
    threading.Timer(0.05, may_write.set).start()
    file.close()
    assert path.read_bytes() == b"whole"


async def test_an_append_is_not_begun_before_the_one_ahead_is_written(
    real: disk.Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write, overtaken = tmp_path / "log", os.write, threading.Event()

    def slow(descriptor: int, data: bytes) -> int:
        if data == b"first ":
            overtaken.wait(0.05)
        size = write(descriptor, data)
        overtaken.set()
        return size

    file = await real.append_file(str(path))
    monkeypatch.setattr(os, "write", slow)
    await asyncio.gather(file.append(b"first "), file.append(b"second"))
    file.close()
    assert path.read_bytes() == b"first second"


def test_free_space_is_what_a_user_may_use_of_all_blocks(real: disk.Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    status = os.statvfs_result((4096, 1024, 1000, 500, 300, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", {"/srv": status}.__getitem__)
    assert real.free_space("/srv") == (300 << 10, 1000 << 10)

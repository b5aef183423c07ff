"""What the real disk keeps over a loss of power: a stand-in for the kernel's page cache, which forgets.

``Cache`` watches the system calls of the disk. After each of them it knows what a file may hold if the power failed
then: the entries of a folder may be those that were synced last or those of this moment, and a file that was never
synced, or was changed since, may hold anything. Checkpoint, epoch, promise and certificates rest on that.
"""

import fcntl
import os
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from gantry.runtime.real import RealRuntime, disk

ANYTHING = (b"anything", 0)
"""Content and mode of a file whose data or mode has not been synced."""

State = tuple[bytes, int] | None
"""Content and mode of a file; None if it does not exist."""

WATCHED = ("open", "write", "fsync", "fdatasync", "rename", "mkdir", "chmod", "fchmod", "ftruncate", "unlink")


def _state(path: Path) -> State:
    return path.read_bytes(), stat.S_IMODE(path.stat().st_mode)


class Cache:
    """Files of a folder as they are now, and what of them is on stable storage."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.entries: dict[int, dict[str, int]] = {}
        self.files: dict[int, State] = {}
        self.moments: list[Callable[[], None]] = []
        """What is called after each system call."""
        self.settle()
        for name in WATCHED:
            monkeypatch.setattr(os, name, self._watched(name, getattr(os, name)))
        monkeypatch.setattr(disk, "_LIBC", self)

    def syncfs(self, _: int) -> int:
        """Take the place of the C library's call, which Python lacks."""
        self.settle()
        return 0

    def settle(self) -> None:
        """Make everything stable."""
        for folder, _, names in os.walk(self.root):
            self.sync_folder(Path(folder))
            for path in (Path(folder, name) for name in names):
                self.files[path.stat().st_ino] = _state(path)

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder stable."""
        self.entries[folder.stat().st_ino] = {path.name: path.stat().st_ino for path in folder.iterdir()}

    def _watched(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def observed(*arguments: object, **more: object) -> object:
            result = call(*arguments, **more)
            subject = result if name == "open" else arguments[0]
            path = Path(os.readlink(f"/proc/self/fd/{subject}") if isinstance(subject, int) else str(subject))
            if path.is_relative_to(self.root):
                self._follow(name, path, arguments)
                for moment in self.moments:
                    moment()
            return result

        return observed

    def _follow(self, name: str, path: Path, arguments: tuple[object, ...]) -> None:
        if name in ("fsync", "fdatasync"):
            self._sync(path)
        elif name == "open":
            if isinstance(arguments[1], int) and arguments[1] & os.O_EXCL:
                self.files.pop(path.stat().st_ino, None)  # the number of a file that was removed
        elif name == "write" and isinstance(arguments[0], int):
            synced, number = self.files.get(path.stat().st_ino), path.stat().st_ino
            self.files[number] = ANYTHING
            if fcntl.fcntl(arguments[0], fcntl.F_GETFL) & os.O_DSYNC:
                self.files[number] = self._appended(path, synced, arguments[1])
        elif name in ("ftruncate", "fchmod"):
            self.files[path.stat().st_ino] = ANYTHING

    def _appended(self, path: Path, synced: State, data: object) -> State:
        """Return what a synced append makes of a file: it syncs its own data only."""
        content, mode = path.read_bytes(), stat.S_IMODE(path.stat().st_mode)
        assert isinstance(data, bytes | memoryview)
        before = content[: len(content) - len(data)]
        return (content, mode) if before == (synced[0] if synced else b"") else ANYTHING

    def _sync(self, path: Path) -> None:
        if path.is_dir():
            self.sync_folder(path)
        else:
            self.files[path.stat().st_ino] = _state(path)

    def after_power_loss(self, path: Path) -> set[State]:
        """Return what a file may be if the power fails now."""
        now = path.stat().st_ino if path.exists() else None
        synced = self.entries.get(path.parent.stat().st_ino, {}).get(path.name)
        return {None if number is None else self.files.get(number, ANYTHING) for number in (now, synced)}

    def keeps_folder(self, path: Path) -> bool:
        """Return whether a folder survives, with all folders that it is in."""
        while path != self.root:
            if self.entries.get(path.parent.stat().st_ino, {}).get(path.name) != path.stat().st_ino:
                return False
            path = path.parent
        return True


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    return Cache(tmp_path, monkeypatch)


@pytest.fixture
def real() -> disk.Disk:
    return RealRuntime().disk


@pytest.mark.parametrize("old", [None, (b"old", 0o600)])
async def test_a_written_file_is_the_old_or_the_new_one_at_any_moment_and_the_new_one_at_the_end(
    tmp_path: Path, cache: Cache, real: disk.Disk, old: State
) -> None:
    path, new = tmp_path / "file", (b"new" * 100, 0o640)
    if old:
        path.write_bytes(old[0])
        path.chmod(old[1])
    cache.settle()
    moments: list[set[State]] = []
    cache.moments.append(lambda: moments.append(cache.after_power_loss(path)))
    await real.write(str(path), new[0], mode=new[1])
    assert set().union(*moments) == {old, new}
    assert cache.after_power_loss(path) == {new}


async def test_files_that_are_written_without_a_sync_are_safe_after_that_of_the_file_system(
    tmp_path: Path, cache: Cache, real: disk.Disk
) -> None:
    files: Mapping[str, bytes] = {str(tmp_path / name): name.encode() for name in ("one", "two")}
    opened = real.file_system(str(tmp_path))
    syncs: list[Callable[[], Awaitable[None]]] = [lambda: real.sync(str(tmp_path)), opened.sync]
    for sync in syncs:
        await real.write_all(files)
        await real.write(str(tmp_path / "three"), b"three", sync=False)
        paths = [tmp_path / name for name in ("one", "two", "three")]
        assert all(ANYTHING in cache.after_power_loss(path) for path in paths)
        await sync()
        assert [cache.after_power_loss(path) for path in paths] == [{_state(path)} for path in paths]
    opened.close()


async def test_each_append_is_safe_when_it_returns_with_the_name_of_the_file(
    tmp_path: Path, cache: Cache, real: disk.Disk
) -> None:
    path = tmp_path / "new"
    file = await real.append_file(str(path))
    assert None not in cache.after_power_loss(path)
    for data in (b"one", b" two"):
        await file.append(data)
        assert cache.after_power_loss(path) == {_state(path)}
    file.close()


async def test_the_first_append_makes_safe_what_a_former_process_wrote(
    tmp_path: Path, cache: Cache, real: disk.Disk
) -> None:
    path = tmp_path / "old"
    path.write_bytes(b"by a former process,")
    cache.sync_folder(tmp_path)
    file = await real.append_file(str(path))
    assert cache.after_power_loss(path) == {ANYTHING}
    for data in (b" by us,", b" again"):
        await file.append(data)
        assert cache.after_power_loss(path) == {_state(path)}
    await file.truncate(2)
    assert cache.after_power_loss(path) == {_state(path)}
    file.close()


async def test_a_folder_is_safe_with_its_parents(tmp_path: Path, cache: Cache, real: disk.Disk) -> None:
    await real.make_directory(str(tmp_path / "a/b/c"))
    assert cache.keeps_folder(tmp_path / "a/b/c")
    os.mkdir(tmp_path / "unsynced")
    assert not cache.keeps_folder(tmp_path / "unsynced")

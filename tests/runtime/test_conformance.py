"""What both runtimes promise of clock, randomness, computation and disk."""

import asyncio
import functools
import hashlib
import operator
import uuid
from collections.abc import Awaitable, Callable

import pytest

from gantry.runtime import file_interface, interface

Drive = Callable[[Callable[[interface.Runtime, str], Awaitable[None]]], None]


def test_clock_does_not_go_backwards_and_sleep_takes_its_time(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        clock = runtime.clock
        before, calendar = clock.monotonic(), clock.now()
        await clock.sleep(0.02)
        assert clock.monotonic() - before >= 0.019
        assert clock.now() >= calendar
        assert clock.now() > 1_600_000_000

    drive(check)


def test_sleepers_wake_in_the_order_of_their_times(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        woken: list[int] = []

        async def sleeper(number: int, seconds: float) -> None:
            await runtime.clock.sleep(seconds)
            woken.append(number)

        # The last one is far behind, because its time begins first.
        await asyncio.gather(sleeper(3, 1.0), sleeper(1, 0.01), sleeper(2, 0.02))
        assert woken == [1, 2, 3]

    drive(check)


def test_random_source_keeps_its_ranges(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        source = runtime.random
        assert {source.below(3) for _ in range(200)} == {0, 1, 2}
        drawn = [uuid.UUID(source.uuid()) for _ in range(100)]
        assert {(each.version, each.variant) for each in drawn} == {(4, uuid.RFC_4122)}
        # All other bits are random: each is 0 in some and 1 in others.
        some, all_of_them = (
            functools.reduce(how, (each.int for each in drawn)) for how in (operator.or_, operator.and_)
        )
        assert (some ^ all_of_them).bit_count() == 128 - 4 - 2
        assert len(source.token(16)) == 16
        assert source.token(16) != source.token(16)

    drive(check)


def test_the_digest_of_a_file_is_its_sha_256(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        await runtime.disk.write(f"{folder}/file", b"content" * 100_000)
        assert await runtime.disk.digest(f"{folder}/file") == hashlib.sha256(b"content" * 100_000).hexdigest()

    drive(check)


def test_compute_returns_the_result_and_passes_errors_on(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        def fail() -> bytes:
            raise ValueError("no")

        assert await runtime.compute(lambda: b"x" * 3) == b"xxx"
        with pytest.raises(ValueError, match="no"):
            await runtime.compute(fail)

    drive(check)


def test_block_returns_the_result_and_passes_errors_on(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        def fail() -> list[int]:
            raise LookupError("no")

        assert await runtime.block(lambda: [1, 2]) == [1, 2]
        with pytest.raises(LookupError, match="no"):
            await runtime.block(fail)

    drive(check)


@pytest.mark.parametrize("sync", [True, False])
def test_write_replaces_the_whole_file_with_its_mode(drive: Drive, sync: bool) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        path = f"{folder}/file"
        await runtime.disk.write(path, b"first, long", mode=0o600, sync=sync)
        await runtime.disk.write(path, b"second", mode=0o644, sync=sync)
        assert runtime.disk.read(path) == b"second"
        status = runtime.disk.status(path)
        assert (status.size, status.mode, status.is_directory) == (6, 0o644, False)
        assert abs(status.mtime - runtime.clock.now()) < 60
        assert runtime.disk.names(folder) == ["file"]

    drive(check)


@pytest.mark.parametrize(
    ("offset", "size", "part"), [(0, 3, b"012"), (3, 4, b"3456"), (8, 10, b"89"), (10, 5, b""), (12, 1, b"")]
)
def test_a_part_of_a_file_begins_at_its_offset_and_ends_with_the_file(
    drive: Drive, offset: int, size: int, part: bytes
) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        await runtime.disk.write(f"{folder}/file", b"0123456789")
        assert runtime.disk.read_part(f"{folder}/file", offset, size) == part

    drive(check)


def test_write_all_replaces_the_files_it_can_and_returns_the_errors_by_path(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        disk = runtime.disk
        await disk.write(f"{folder}/old", b"first, long", mode=0o600)
        await disk.make_directory(f"{folder}/taken")
        files = {f"{folder}/{name}": name.encode() for name in ("missing/file", "old", "taken", "new")}
        failures = await disk.write_all(files)
        kinds = {path.removeprefix(f"{folder}/"): type(error) for path, error in failures.items()}
        assert kinds == {"missing/file": FileNotFoundError, "taken": IsADirectoryError}
        assert disk.names(folder) == ["new", "old", "taken"]
        assert [disk.read(f"{folder}/{name}") for name in ("old", "new")] == [b"old", b"new"]
        assert {disk.status(f"{folder}/{name}").mode for name in ("old", "new")} == {0o640}

    drive(check)


def test_new_files_and_directories_have_the_documented_modes(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        disk = runtime.disk
        await disk.write(f"{folder}/file", b"")
        (await disk.append_file(f"{folder}/journal")).close()
        await disk.make_sparse(f"{folder}/disk", 1)
        await disk.make_directory(f"{folder}/directory")
        disk.lock(f"{folder}/lock").release()
        modes = {name: disk.status(f"{folder}/{name}").mode for name in disk.names(folder)}
        assert modes == {"file": 0o640, "journal": 0o640, "disk": 0o600, "directory": 0o750, "lock": 0o640}

    drive(check)


def test_a_path_is_resolved_whether_its_parts_exist_or_not(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        real_folder = runtime.disk.resolve(folder)
        await runtime.disk.make_directory(f"{folder}/directory")
        for path in ("directory/../file", "missing/../file", "./file", "file"):
            assert runtime.disk.resolve(f"{folder}/{path}") == f"{real_folder}/file"

    drive(check)


def test_sync_accepts_any_path_and_does_not_change_files(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        await runtime.disk.write(f"{folder}/file", b"data", sync=False)
        await runtime.disk.sync(folder)
        await runtime.disk.sync(f"{folder}/file")
        assert runtime.disk.read(f"{folder}/file") == b"data"
        with pytest.raises(FileNotFoundError):
            await runtime.disk.sync(f"{folder}/missing")

    drive(check)


def test_an_open_file_system_can_be_synced_repeatedly(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        file_system = runtime.disk.file_system(folder)
        await runtime.disk.write(f"{folder}/file", b"data", sync=False)
        await file_system.sync()
        await file_system.sync()
        file_system.close()
        file_system.close()
        assert runtime.disk.read(f"{folder}/file") == b"data"

    drive(check)


def test_missing_files_and_folders_raise_file_not_found(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        disk, missing = runtime.disk, f"{folder}/missing"
        await disk.write(f"{folder}/file", b"")
        assert not disk.exists(missing)
        looks: list[Callable[[], object]] = [
            lambda: disk.read(missing),
            lambda: disk.status(missing),
            lambda: disk.names(missing),
            lambda: disk.free_space(missing),
            lambda: disk.lock(f"{missing}/lock"),
        ]
        for look in looks:
            with pytest.raises(FileNotFoundError):
                look()
        changes: list[Callable[[], Awaitable[object]]] = [
            lambda: disk.write(f"{missing}/file", b""),
            lambda: disk.append_file(f"{missing}/file"),
            lambda: disk.rename({missing: f"{folder}/new"}),
            lambda: disk.rename({f"{folder}/file": f"{missing}/file"}),
            lambda: disk.remove(missing),
            lambda: disk.make_sparse(f"{missing}/file", 1),
        ]
        for change in changes:
            with pytest.raises(FileNotFoundError):
                await change()
        await disk.remove_tree(missing)
        assert disk.names(folder) == ["file"]

    drive(check)


def test_files_are_removed_in_order_and_missing_ones_are_skipped(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        disk = runtime.disk
        for name in ("one", "two", "four"):
            await disk.write(f"{folder}/{name}", b"1")
        await disk.make_directory(f"{folder}/three")
        paths = [f"{folder}/{name}" for name in ("one", "zero", "two", "three", "four")]
        with pytest.raises(OSError):
            await disk.remove_all(paths)
        # It stops at the first failure: a directory is not a file.
        assert disk.names(folder) == ["four", "three"]
        await disk.remove_all(paths[4:])
        assert disk.names(folder) == ["three"]

    drive(check)


def test_a_directory_has_the_time_of_the_last_change_of_its_names(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        disk = runtime.disk
        times = [disk.status(folder).mtime]
        changes: list[Callable[[], Awaitable[None]]] = [
            lambda: disk.write(f"{folder}/one", b"1"),
            lambda: disk.rename({f"{folder}/one": f"{folder}/two"}),
            lambda: disk.remove_all([f"{folder}/two"]),
        ]
        for change in changes:
            await runtime.clock.sleep(0.02)
            await change()
            times.append(disk.status(folder).mtime)
        assert times == sorted(set(times))

    drive(check)


def test_directories_are_created_with_parents_and_removed_with_content(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        disk = runtime.disk
        await disk.make_directory(f"{folder}/a/b/c", mode=0o700)
        await disk.make_directory(f"{folder}/a/b/c")
        assert disk.status(f"{folder}/a/b").mode == 0o700
        assert disk.status(f"{folder}/a/b/c").is_directory
        await disk.write(f"{folder}/a/b/file", b"1")
        assert disk.names(f"{folder}/a/b") == ["c", "file"]
        await disk.write(f"{folder}/ab", b"2")
        await disk.remove_tree(f"{folder}/a")
        assert disk.names(folder) == ["ab"]
        with pytest.raises(NotADirectoryError):
            await disk.remove_tree(f"{folder}/ab")
        for path in ("ab", "ab/c"):
            with pytest.raises(OSError):
                await disk.make_directory(f"{folder}/{path}")
        assert disk.names(folder) == ["ab"]

    drive(check)


def test_rename_replaces_and_moves_whole_directories(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        disk = runtime.disk
        await disk.write(f"{folder}/one", b"1")
        await disk.write(f"{folder}/two", b"2")
        await disk.rename({f"{folder}/one": f"{folder}/two"})
        assert disk.names(folder) == ["two"]
        assert disk.read(f"{folder}/two") == b"1"
        await disk.make_directory(f"{folder}/folder/sub")
        await disk.rename({f"{folder}/folder": f"{folder}/moved"})
        assert disk.exists(f"{folder}/moved/sub")
        assert not disk.exists(f"{folder}/folder")
        with pytest.raises(IsADirectoryError):
            await disk.rename({f"{folder}/two": f"{folder}/moved"})

    drive(check)


def test_rename_moves_in_order_up_to_the_first_failure(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        disk = runtime.disk
        for name in ("one", "two", "four"):
            await disk.write(f"{folder}/{name}", name.encode())
        await disk.rename({})
        await disk.make_directory(f"{folder}/to")
        with pytest.raises(FileNotFoundError):
            await disk.rename({f"{folder}/{name}": f"{folder}/to/{name}" for name in ("one", "two", "three", "four")})
        assert (disk.names(f"{folder}/to"), disk.names(folder)) == (["one", "two"], ["four", "to"])

    drive(check)


def test_append_file_grows_is_truncated_and_can_be_opened_again(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        path = f"{folder}/journal"
        file = await runtime.disk.append_file(path, mode=0o600)
        assert runtime.disk.status(path).mode == 0o600
        await file.append(b"first\n")
        await file.append(b"second\n")
        assert file.size == 13
        await file.truncate(6)
        await file.append(b"third\n")
        file.close()
        file.close()
        again = await runtime.disk.append_file(path)
        assert again.size == 12
        await again.append(b"fourth\n")
        again.close()
        assert runtime.disk.read(path) == b"first\nthird\nfourth\n"
        with pytest.raises((OSError, RuntimeError)):
            await again.append(b"late")

    drive(check)


def test_an_append_file_knows_whether_its_path_leads_to_it(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        path = f"{folder}/journal"
        file = await runtime.disk.append_file(path)
        await file.append(b"line\n")
        assert file.is_at(path)
        await runtime.disk.write(path, b"line\n")
        assert not file.is_at(path)
        await runtime.disk.remove(path)
        assert not file.is_at(path)
        file.close()

    drive(check)


def test_what_follows_an_append_is_written_after_it_and_only_if_that_is_in_place(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        disk, (first, second) = runtime.disk, (f"{folder}/first", f"{folder}/second")
        file, follower = await disk.append_file(first), await disk.append_file(second)
        follow_up = file_interface.FollowUp(follower, b"b")
        assert await file.append_with(b"a", first, follow_up)
        assert await file.append_with(b"a", first, follow_up)
        assert (disk.read(first), disk.read(second)) == (b"aa", b"bb")
        await disk.rename({first: f"{folder}/moved"})
        assert not await file.append_with(b"a", first, follow_up)
        await disk.write(first, b"")
        assert not await file.append_with(b"a", first, follow_up)
        assert (disk.read(f"{folder}/moved"), disk.read(second)) == (b"aaaa", b"bb")
        follower.close()
        assert not await file.append_with(b"a", f"{folder}/moved", follow_up)
        assert (disk.read(f"{folder}/moved"), disk.read(second)) == (b"aaaaa", b"bb")
        follower = await disk.append_file(second)
        file.close()
        with pytest.raises((OSError, RuntimeError)):
            await file.append_with(b"a", f"{folder}/moved", file_interface.FollowUp(follower, b"b"))
        follower.close()
        assert (disk.read(f"{folder}/moved"), disk.read(second)) == (b"aaaaa", b"bb")

    drive(check)


def test_appends_at_the_same_time_keep_their_order(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        file = await runtime.disk.append_file(f"{folder}/journal")
        await asyncio.gather(*(file.append(b"%d " % number) for number in range(20)))
        file.close()
        assert runtime.disk.read(f"{folder}/journal").split() == [b"%d" % number for number in range(20)]

    drive(check)


def test_sparse_file_has_its_size_and_uses_no_space(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        path = f"{folder}/disk0"
        before = runtime.disk.free_space(folder)[0]
        await runtime.disk.make_sparse(path, 1 << 35)
        assert runtime.disk.status(path).size == 1 << 35
        assert before - runtime.disk.free_space(folder)[0] < 1 << 34
        with pytest.raises(FileExistsError):
            await runtime.disk.make_sparse(path, 1)
        await runtime.disk.make_sparse(f"{folder}/disk1", 10)
        assert runtime.disk.read(f"{folder}/disk1") == bytes(10)
        await runtime.disk.remove(path)
        assert not runtime.disk.exists(path)

    drive(check)


def test_free_space_is_within_the_total(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        free, total = runtime.disk.free_space(folder)
        assert 0 < free <= total

    drive(check)


def test_lock_is_refused_while_it_is_held(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        path = f"{folder}/lock"
        lock = runtime.disk.lock(path)
        assert int(runtime.disk.read(path)) > 0
        with pytest.raises(BlockingIOError):
            runtime.disk.lock(path)
        lock.release()
        lock.release()
        runtime.disk.lock(path).release()

    drive(check)

"""Which files of a series go, and which folder stays small."""

import dataclasses
from collections.abc import Coroutine, Iterator

import pytest

from gantry.runtime import file_interface, retention, simulated

FILES = [retention.File(f"/{number}", 10, 100.0 * number) for number in range(6)]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (retention.Retention(), 0),
        (retention.Retention(size=60), 0),
        (retention.Retention(size=59), 1),
        (retention.Retention(size=0), 6),
        (retention.Retention(seconds=600), 1),
        (retention.Retention(seconds=599), 1),
        (retention.Retention(seconds=601), 0),
        (retention.Retention(seconds=350, size=20), 4),
        (retention.Retention(seconds=150, size=60), 5),
    ],
)
def test_what_is_beyond_a_limit_goes_the_oldest_first(keep: retention.Retention, expected: int) -> None:
    assert list(retention.surplus(FILES, keep, size=60, now=600.0)) == FILES[:expected]


def test_a_file_that_stays_keeps_all_after_it() -> None:
    files = [FILES[5], *FILES[:5]]
    assert list(retention.surplus(files, retention.Retention(seconds=200), size=60, now=600.0)) == []


def test_a_folder_keeps_its_newest_files_and_removes_several_at_once() -> None:
    with simulated.World(seed=1) as world:
        disk = world.machine("one").disk

        async def write() -> None:
            await disk.make_directory("/logs")
            for number in range(10):
                await disk.write(f"/logs/{9 - number}", b"", sync=False)
                await world.clock.sleep(1)
                await retention.keep_newest(disk, "/logs", most=9)

        world.run(write())
        # The tenth was too many: then there were seven, the newest.
        assert disk.names("/logs") == ["0", "1", "2", "3", "4", "5", "6"]


ARCHIVE = "/archive"
BLOCKS = 2
"""Blocks that each job of these tests uses."""


class JobArchive:
    """An archive of jobs, ten in each folder."""

    def __init__(self, world: simulated.World) -> None:
        self._world = world
        self.runtime = world.machine("one")
        self.archive = retention.ArchiveFolder(self.runtime, ARCHIVE, folder_size=10)

    async def add(self, number: int) -> None:
        disk, folder = self.runtime.disk, f"{ARCHIVE}/{number // 10}"
        await disk.make_directory(folder)
        await disk.write(f"{folder}/job-{number}", b"x" * (BLOCKS * retention.BLOCK - 1), sync=False)

    def jobs(self) -> list[int]:
        disk = self.runtime.disk
        names = [name for folder in disk.names(ARCHIVE) for name in disk.names(f"{ARCHIVE}/{folder}")]
        return sorted(int(name.removeprefix("job-")) for name in names if name[4:].isdigit())

    async def trim(self, jobs: int, *, most: int = 1000, ends: int | None = None) -> int:
        """Keep the size of that many jobs."""
        keep = retention.Retention(size=jobs * BLOCKS * retention.BLOCK)
        return await self.archive.trim(keep, most=most, ends=ends)

    async def exchange_two(self) -> None:
        """Add jobs 25 and 26 to the first 25, and see that the two oldest go when only 25 may stay."""
        for number in (25, 26):
            await self.add(number)
        assert await self.trim(25) == 2
        assert self.jobs() == [*range(2, 27)]

    async def settle(self) -> None:
        await self._world.clock.sleep(10 * retention.SETTLED_SECONDS)


@pytest.fixture
def job_archive() -> Iterator[JobArchive]:
    with simulated.World(seed=1) as world:
        job_archive = JobArchive(world)

        async def fill() -> None:
            for number in range(25):
                await job_archive.add(number)

        world.run(fill())
        yield job_archive


def run(job_archive: JobArchive, work: Coroutine[object, object, None]) -> None:
    job_archive._world.run(work)


def test_an_archive_beyond_its_size_loses_its_first_jobs_and_their_folders(job_archive: JobArchive) -> None:
    async def scenario() -> None:
        assert await job_archive.trim(25) == 0
        assert await job_archive.trim(13) == 12
        assert job_archive.jobs() == [*range(12, 25)]
        assert job_archive.runtime.disk.names(ARCHIVE) == ["1", "2"]
        assert await job_archive.trim(13) == 0

    run(job_archive, scenario())


def test_a_trim_removes_a_few_jobs_at_a_time_if_it_has_to(job_archive: JobArchive) -> None:
    async def scenario() -> None:
        assert [await job_archive.trim(13, most=7) for _ in range(3)] == [7, 5, 0]
        assert job_archive.jobs() == [*range(12, 25)]

    run(job_archive, scenario())


@pytest.mark.parametrize(("ends", "folders"), [(None, []), (25, ["2"]), (20, ["2"]), (19, ["1", "2"])])
def test_an_empty_folder_to_which_jobs_may_be_added_stays(
    job_archive: JobArchive, ends: int | None, folders: list[str]
) -> None:
    async def scenario() -> None:
        assert await job_archive.trim(0, ends=ends) == 25
        assert job_archive.runtime.disk.names(ARCHIVE) == folders

    run(job_archive, scenario())


def test_files_that_are_no_jobs_neither_count_nor_go(job_archive: JobArchive) -> None:
    async def scenario() -> None:
        disk, foreign_names = job_archive.runtime.disk, ["job-2.new", "note", "job-"]
        for name in foreign_names:
            await disk.write(f"{ARCHIVE}/0/{name}", b"x" * 10 * retention.BLOCK, sync=False)
        assert await job_archive.trim(25) == 0
        assert await job_archive.trim(15) == 10
        assert disk.names(f"{ARCHIVE}/0") == sorted(foreign_names)

    run(job_archive, scenario())


def test_jobs_that_are_added_to_a_folder_whose_size_is_known_count(job_archive: JobArchive) -> None:
    async def scenario() -> None:
        await job_archive.settle()
        assert await job_archive.trim(25) == 0
        assert await job_archive.trim(25) == 0
        await job_archive.exchange_two()

    run(job_archive, scenario())


def test_jobs_that_are_added_after_a_folder_was_read_count_though_its_time_is_the_same(
    job_archive: JobArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = job_archive.runtime.disk
    status = disk.status

    def coarse(path: str) -> file_interface.FileStatus:
        """Return a status with the time in whole seconds, as some file systems have it."""
        exact = status(path)
        return dataclasses.replace(exact, mtime=exact.mtime // 1)

    monkeypatch.setattr(disk, "status", coarse)

    async def scenario() -> None:
        assert await job_archive.trim(25) == 0
        await job_archive.exchange_two()

    run(job_archive, scenario())


def test_without_limits_or_without_an_archive_nothing_is_removed(job_archive: JobArchive) -> None:
    async def scenario() -> None:
        assert await job_archive.archive.trim(retention.Retention(), most=1000) == 0
        assert job_archive.jobs() == [*range(25)]
        elsewhere = retention.ArchiveFolder(job_archive.runtime, "/elsewhere", folder_size=10)
        assert await elsewhere.trim(retention.Retention(size=0), most=1000) == 0
        assert not job_archive.runtime.disk.exists("/elsewhere")

    run(job_archive, scenario())


def test_nothing_remains_in_memory_of_a_folder_that_was_removed(job_archive: JobArchive) -> None:
    async def scenario() -> None:
        await job_archive.settle()
        assert await job_archive.trim(25) == 0
        assert sorted(vars(job_archive.archive)["_sizes"]) == [0, 1, 2]
        assert await job_archive.trim(15) == 10
        await job_archive.settle()
        assert await job_archive.trim(15) == 0
        assert sorted(vars(job_archive.archive)["_sizes"]) == [1, 2]

    run(job_archive, scenario())


def test_jobs_are_removed_in_the_order_of_their_numbers_and_folders() -> None:
    with simulated.World(seed=1) as world:
        job_archive = JobArchive(world)

        async def scenario() -> None:
            for number in (8, 9, 10, 98, 99, 100, 101):
                await job_archive.add(number)
            assert [await job_archive.trim(jobs) for jobs in (6, 4, 2)] == [1, 2, 2]
            assert job_archive.jobs() == [100, 101]

        world.run(scenario())


def test_a_trim_over_several_folders_removes_no_more_jobs_than_it_may(job_archive: JobArchive) -> None:
    async def scenario() -> None:
        assert await job_archive.trim(0, most=12) == 12
        assert job_archive.jobs() == [*range(12, 25)]

    run(job_archive, scenario())


def test_a_job_that_stays_keeps_older_ones_in_later_folders() -> None:
    with simulated.World(seed=1) as world:
        job_archive = JobArchive(world)

        async def scenario() -> None:
            for number in (11, 12, 4, 5, 3):
                await job_archive.add(number)
                await world.clock.sleep(100)
            keep = retention.Retention(seconds=250)
            assert [await job_archive.archive.trim(keep, most=1000) for _ in range(2)] == [0, 0]
            await world.clock.sleep(51)
            assert await job_archive.archive.trim(keep, most=1000) == 0
            await world.clock.sleep(100)
            assert await job_archive.archive.trim(keep, most=1000) == 5
            assert world.machine("one").disk.names(ARCHIVE) == []

        world.run(scenario())


def test_only_folders_that_have_changed_are_read_for_the_size(
    job_archive: JobArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    disk = job_archive.runtime.disk
    status = disk.status

    def look(path: str) -> file_interface.FileStatus:
        looked.append(path.removeprefix(f"{ARCHIVE}/"))
        return status(path)

    async def scenario() -> None:
        await job_archive.settle()
        assert await job_archive.trim(25) == 0
        await job_archive.add(25)
        monkeypatch.setattr(disk, "status", look)
        assert await job_archive.trim(26) == 0

    run(job_archive, scenario())
    assert {path for path in looked if "/" not in path} == {"0", "1", "2"}
    assert {path for path in looked if "/" in path} == {"0/job-0", *(f"2/job-{number}" for number in range(20, 26))}


@pytest.mark.parametrize(
    ("keep", "before", "remaining"),
    [
        (retention.Retention(size=0), 100, ["c"]),
        (retention.Retention(size=0), 9, ["c"]),
        (retention.Retention(size=0), 8, ["b", "c"]),
        (retention.Retention(size=0), 4, ["a", "b", "c"]),
        (retention.Retention(size=60), 100, ["a", "b", "c"]),
        (retention.Retention(size=59), 100, ["b", "c"]),
        (retention.Retention(seconds=150), 100, ["b", "c"]),
        (retention.Retention(), 100, ["a", "b", "c"]),
    ],
)
def test_sections_of_a_journal_go_that_end_before_a_serial_and_never_the_last(
    keep: retention.Retention, before: int, remaining: list[str]
) -> None:
    with simulated.World(seed=1) as world:
        disk = world.machine("one").disk

        async def scenario() -> None:
            await disk.make_directory("/journal")
            for name, size in (("a", 10), ("b", 20), ("c", 30)):
                await disk.write(f"/journal/{name}", b"x" * size)
                await world.clock.sleep(100)
            paths = {1: "/journal/a", 5: "/journal/b", 9: "/journal/c"}
            now = disk.status("/journal/b").mtime + 149
            removed = await retention.prune_sections(disk, paths, keep, before=before, now=now)
            assert (disk.names("/journal"), removed) == (remaining, 3 - len(remaining))

        world.run(scenario())

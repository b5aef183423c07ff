"""Archived jobs, read by their numbers and from the newest on."""

import pytest
from tests.state import build

from gantry.lib_files import queue
from gantry.model import job
from gantry.runtime import simulated
from gantry.state.files import archive, jobfiles

FOLDER = f"{build.WHERE.queue}/archive"
SIZE = queue.ARCHIVE_SIZE
ARCHIVED = (1, 2, 3, SIZE + 1, SIZE + 2, 10 * SIZE + 5)
LEAVING = 10 * SIZE + 7


class FilledArchive:
    """Jobs in three folders, and a job whose file has not been moved yet."""

    def __init__(self, world: simulated.World) -> None:
        self.disk = world.machine("one").disk
        self.leaving: dict[int, job.Job] = {LEAVING: build.ended(build.queued(LEAVING))}
        self.archive = archive.Archive(self.disk, build.WHERE.queue, self.leaving)
        world.run(self._fill())

    async def _fill(self) -> None:
        for number in ARCHIVED:
            folder = queue.archive_folder(FOLDER, number)
            await self.disk.make_directory(folder)
            await self.disk.write(queue.path(folder, number), jobfiles.encode(build.ended(build.queued(number))))
        await self.disk.write(f"{FOLDER}/note", b"no folder of jobs")

    def newest(self, count: int) -> list[int]:
        return [archived_job.id for archived_job in self.archive.newest(count)]


@pytest.mark.parametrize("count", range(9))
def test_the_newest_jobs_are_those_of_the_highest_numbers_in_all_folders(count: int) -> None:
    with simulated.World(seed=1) as world:
        assert FilledArchive(world).newest(count) == [LEAVING, *reversed(ARCHIVED)][:count]


def test_folders_of_older_jobs_are_not_listed_for_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated.World(seed=1) as world:
        filled_archive = FilledArchive(world)
        listed = list[str]()
        names = filled_archive.disk.names

        def noted(path: str) -> list[str]:
            listed.append(path)
            return names(path)

        monkeypatch.setattr(filled_archive.disk, "names", noted)
        filled_archive.newest(2)
        assert listed == [FOLDER, f"{FOLDER}/10"]
        listed.clear()
        filled_archive.newest(3)
        assert listed == [FOLDER, f"{FOLDER}/10", f"{FOLDER}/1"]


def test_a_job_whose_file_cannot_be_read_is_left_out() -> None:
    with simulated.World(seed=1) as world:
        filled_archive = FilledArchive(world)
        path = queue.path(queue.archive_folder(FOLDER, SIZE + 2), SIZE + 2)
        world.run(filled_archive.disk.write(path, b"no job"))
        assert filled_archive.archive.job(SIZE + 2) is None
        assert filled_archive.newest(4) == [LEAVING, 10 * SIZE + 5, SIZE + 1]


def test_an_archive_without_a_folder_has_the_jobs_that_are_leaving_alone() -> None:
    with simulated.World(seed=1) as world:
        disk = world.machine("one").disk
        empty = archive.Archive(disk, build.WHERE.queue, {7: build.queued(7)})
        assert list(empty.newest(5)) == [build.queued(7)]
        assert empty.numbers() == {7}
        assert empty.job(8) is None

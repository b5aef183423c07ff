"""The files of the job queue in a master candidate's replica (``replica``, ``arrival``).

    lib/queue/job-N, serial, version    as a checkpoint has them
    lib/queue/archive/K/job-N           archived jobs

Frames archive jobs too. Their files move to the archive before these frames become history or are deleted.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from gantry.lib_files import queue
from gantry.node.membership import frames
from gantry.runtime import interface

T = TypeVar("T")

BATCH = 256
"""The number of files that are written or renamed at a time."""


class QueueFiles:
    """The queue's folder of a replica."""

    def __init__(self, runtime: interface.Runtime, folder: str) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._folder = folder

    async def write_archived(self, sections: Mapping[str, int]) -> tuple[int, ...]:
        """Write the last contents of the jobs that frames archived, unsynced; return their numbers.

        ``sections`` maps the paths of sections, in order, to the number of bytes that count.
        """
        archived = await self._runtime.block(lambda: _archived(self._disk, sections))
        files = {self.path(number): content for number, content in archived.items() if content is not None}
        for batch in batches(list(files)):
            for error in (await self._disk.write_all({path: files[path] for path in batch})).values():
                raise error
        return tuple(archived)

    async def move_archived(self, numbers: Collection[int]) -> None:
        """Move the files of archived jobs to the archive; they must be on stable storage."""
        folders = {number: queue.archive_folder(f"{self._folder}/archive", number) for number in numbers}
        for folder in sorted(set(folders.values())):
            await self._disk.make_directory(folder)
        for batch in batches([number for number in numbers if self._disk.exists(self.path(number))]):
            await self._disk.rename({self.path(number): queue.path(folders[number], number) for number in batch})

    async def clear(self) -> None:
        """Remove the files of the queue, except the archive."""
        for name in self._disk.names(self._folder):
            if queue.FILE.fullmatch(name):
                await self._disk.remove(f"{self._folder}/{name}")

    async def limit_serial(self, last_job: int) -> None:
        """Lower ``serial`` to a job number if it is above, unsynced."""
        path = f"{self._folder}/serial"
        if self._disk.exists(path) and queue.decode_serial(self._disk.read(path)) > last_job:
            await self._disk.write(path, queue.encode_serial(last_job), sync=False)

    def path(self, number: int) -> str:
        """Return the path of a job's file in the queue."""
        return queue.path(self._folder, number)

    def archived_path(self, number: int) -> str:
        """Return the path of a job's file in the archive."""
        return queue.archived_path(f"{self._folder}/archive", number)


def _archived(disk: interface.Disk, sections: Mapping[str, int]) -> dict[int, bytes | None]:
    """Return the archived jobs with their last content, None for jobs that have not changed since the checkpoint."""
    archived: dict[int, bytes | None] = {}
    contents: dict[int, bytes] = {}
    for path, size in sections.items():
        for line in disk.read(path)[:size].splitlines(keepends=True):
            for number, content in frames.jobs(line):
                if content is None:
                    archived[number] = contents.pop(number, None)
                else:
                    contents[number] = content
    return archived


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in groups of at most ``BATCH``."""
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]

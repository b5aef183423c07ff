"""The files of a cluster of Ganeti, from which ``gnt-cluster import`` makes a cluster: ``config.data`` and the queue.

They are only read. The jobs of the queue do not run here; what counts of them is the last number, because a job number
is never given again.
"""

from dataclasses import dataclass

import msgspec

from gantry import errors
from gantry.lib_files import frame
from gantry.lib_files import queue as queue_file
from gantry.model import job
from gantry.runtime import interface
from gantry.state.files import jobfiles
from gantry.state.objects import snapshot
from gantry.state.upgrade import configuration


@dataclass(frozen=True)
class Old:
    """What the files say: the converted objects, remarks for the administrator, and the last job's number."""

    version: int
    objects: tuple[snapshot.Stored, ...]
    notes: tuple[str, ...]
    last_job: int


class _Step(msgspec.Struct, frozen=True):
    status: str = ""


class _Job(msgspec.Struct, frozen=True):
    ops: tuple[_Step, ...] = ()


def read(disk: interface.Disk, path: str, *, storage: str) -> Old:
    """Convert the configuration at ``path`` with the ``queue`` beside it; ``storage`` is the folder for files of disks.

    Raises InvalidError if Ganeti did not write the file, ConfigurationError with all that cannot be converted.
    """
    try:
        data = disk.read(path)
    except OSError as error:
        raise errors.InvalidError(f"cannot read {path}: {error.strerror}") from None
    if not configuration.version(data):
        raise errors.InvalidError(
            f"{path} is not a configuration of Ganeti 2.0 to 3.1",
            hint="name its config.data, by default in /var/lib/ganeti",
        )
    upgraded = configuration.upgrade(data, path=path, storage=storage)
    try:
        snapshot.Snapshot().apply([snapshot.Put(value) for value in upgraded.objects], serial=1)
    except (errors.GantryError, ValueError) as error:
        raise configuration.refused(data, path=path, why=str(error)) from None
    folder = f"{path.rpartition('/')[0]}/queue"
    return Old(
        upgraded.version, upgraded.objects, (*upgraded.notes, *_unfinished(disk, folder)), _last_job(disk, folder)
    )


def _last_job(disk: interface.Disk, folder: str) -> int:
    """Return the highest job number that the files of a queue show."""
    archive = f"{folder}/archive"
    parts = [name for name in disk.names(archive) if name.isdigit()] if disk.exists(archive) else []
    folders = [folder, *(f"{archive}/{name}" for name in parts)]
    numbers = {number for path in folders if disk.exists(path) for number in jobfiles.numbers(disk, path)}
    serial = disk.read(f"{folder}/serial").strip() if disk.exists(f"{folder}/serial") else b""
    return max([0, *numbers, *([int(serial)] if serial.isdigit() else [])])


def _unfinished(disk: interface.Disk, folder: str) -> list[str]:
    """Return a remark about the jobs of a queue that had not ended."""
    numbers = sorted(jobfiles.numbers(disk, folder)) if disk.exists(folder) else []
    unfinished = [number for number in numbers if not _ended(disk.read(queue_file.path(folder, number)))]
    return [f"jobs that had not ended, and do not run here: {', '.join(map(str, unfinished))}"] if unfinished else []


def _ended(data: bytes) -> bool:
    try:
        old_job = msgspec.json.decode(data, type=_Job)
    except frame.UNREADABLE:
        return False
    return all(step.status in job.FINAL for step in old_job.ops)

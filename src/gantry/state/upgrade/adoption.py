"""The upgrade of an old cluster's files: ``recovery`` calls ``adopt`` before it reads anything else.

    config.data                  the upgraded configuration
    config.data.VERSION.bak      the old file
    journal/                     one record with all objects, the beginning of the history
    queue/archive/K/job-N        all jobs of the old queue, unchanged; jobs queued for other software do not run

Everything is checked before anything is written, and ``config.data`` is written last; only jobs are moved after that.
An upgrade that a crash interrupts is repeated by the next start, with the same outcome; ``recovery`` moves remaining
jobs, like any that the checkpoint does not list.
"""

import logging

import msgspec

from gantry import errors
from gantry.model import job
from gantry.runtime import interface, paths
from gantry.state import checkpoint, frame, jobfiles, journal, record, snapshot
from gantry.state.upgrade import configuration

logger = logging.getLogger(__name__)


class _Step(msgspec.Struct, frozen=True):
    status: str = ""


class _Job(msgspec.Struct, frozen=True):
    ops: tuple[_Step, ...] = ()


async def adopt(runtime: interface.Runtime, where: paths.Paths) -> None:
    """Upgrade the configuration if Ganeti wrote it, and log the changes.

    Raises ConfigurationError that lists everything that cannot be converted; then nothing was changed.
    """
    disk = runtime.disk
    data = disk.read(where.config) if disk.exists(where.config) else b""
    old = configuration.version(data)
    if not old:
        return
    upgraded = configuration.upgrade(data, path=where.config, storage=where.file_storage)
    serial = upgraded.serial + 1
    changes = [snapshot.Put(value) for value in upgraded.objects]
    try:
        state = snapshot.Snapshot(last_job=_last_job(disk, where.queue)).apply(changes, serial=serial)
    except (errors.GantryError, ValueError) as error:
        raise configuration.refused(data, path=where.config, why=str(error)) from None
    first = journal.segments(disk, where.journal)
    if first not in ([], [serial]):
        why = f"{where.journal} has a journal, which belongs to another configuration"
        raise configuration.refused(data, path=where.config, why=why)
    now = runtime.clock.now()
    cause = record.Cause(reason=f"upgraded from version {old}")
    journal_record = record.Record(serial=serial, time=now, epoch=0, cause=cause, changes=tuple(changes))
    line = frame.pack(frame.GENESIS, [record.encode(journal_record)])
    position = journal.Position(serial, frame.digest(line), 0)
    await disk.write(f"{where.config}.{old}.bak", data)
    await disk.make_directory(where.journal)
    await disk.write(journal.segment_path(where.journal, serial), line)
    await disk.write(where.config, checkpoint.encode(state, position, now=now))
    _log(where.config, upgraded)
    await _archive(disk, where.queue)


def _log(path: str, upgraded: configuration.Upgraded) -> None:
    logger.warning(
        "%s: upgraded from version %d to %d, %d objects; the old file is %s.%d.bak",
        path, upgraded.version, checkpoint.VERSION, len(upgraded.objects), path, upgraded.version,
    )  # fmt: skip
    for note in upgraded.notes:
        logger.warning("upgrade: %s", note)


def _last_job(disk: interface.Disk, folder: str) -> int:
    """Return the highest job number that the files of the old queue show."""
    archive = f"{folder}/archive"
    parts = [name for name in disk.names(archive) if name.isdigit()] if disk.exists(archive) else []
    folders = [folder, *(f"{archive}/{name}" for name in parts)]
    numbers = {number for path in folders for number in jobfiles.numbers(disk, path)}
    serial = disk.read(f"{folder}/serial").strip() if disk.exists(f"{folder}/serial") else b""
    return max([0, *numbers, *([int(serial)] if serial.isdigit() else [])])


async def _archive(disk: interface.Disk, folder: str) -> None:
    numbers = sorted(jobfiles.numbers(disk, folder))
    unfinished = [number for number in numbers if not _ended(disk.read(jobfiles.job_path(folder, number)))]
    if numbers:
        await jobfiles.move_to_archive(disk, folder, numbers)
        logger.warning("upgrade: %d jobs of the old queue are in %s/archive, as they are", len(numbers), folder)
    if unfinished:
        logger.warning("upgrade: jobs that had not ended, and do not run here: %s", ", ".join(map(str, unfinished)))


def _ended(data: bytes) -> bool:
    try:
        old_job = msgspec.json.decode(data, type=_Job)
    except frame.UNREADABLE:
        return False
    return all(step.status in job.FINAL for step in old_job.ops)

"""Recovery: from the files of a stopped daemon to the state they hold.

``transaction`` calls it once, with the queue's lock held. ``config.data`` and the job files are the state at serial
S; the journal's records after S are applied on top. A job file may be newer than S, old, or lost with the power since
S, but then a record after S has the job; a job that S does not list and no later record puts is archived, whatever file
there is. A file that somebody edited, or that is gone, is replaced by what the older journal says of the job. Nothing
is guessed: what does not fit raises ConfigurationError with the file and what to do. A configuration of Ganeti is
brought into today's form first (``upgrade.adoption``).
"""

import logging
from dataclasses import dataclass

from gantry import errors
from gantry.model import job
from gantry.runtime import interface, paths
from gantry.state import checkpoint, history, jobfiles, journal, record, snapshot
from gantry.state.upgrade import adoption

logger = logging.getLogger(__name__)


@dataclass
class Recovered:
    """The state, where the journal goes on, the job files that are to be written anew, and the number of records read.

    ``due`` is what ``jobfiles.JobFiles.mark`` takes, ``filed`` what is in files as the checkpoint says; ``edited`` is
    set when somebody changed the configuration by hand.
    """

    state: snapshot.Snapshot
    replay: journal.Replay
    due: dict[int, job.Job | None]
    filed: dict[int, job.Job]
    replayed: int = 0
    edited: bool = False


async def recover(runtime: interface.Runtime, where: paths.Paths) -> Recovered:
    """Read the state; only files of jobs that are archived already are moved, and old configurations upgraded."""
    await adoption.adopt(runtime, where)
    loaded = _read_checkpoint(runtime.disk, where.config)
    filed = {
        number: jobfiles.read(runtime.disk, where.queue, number, expected=digest)
        for number, digest in loaded.jobs.items()
    }
    listed = {number: one for number, one in filed.items() if isinstance(one, job.Job)}
    unread = {number: one for number, one in filed.items() if isinstance(one, str)}
    old = {number for number, one in listed.items() if _is_old(one, loaded.jobs[number])}
    found = Recovered(
        state=_load(loaded, listed, path=where.config),
        replay=journal.Replay(runtime.disk, where.journal, loaded.position),
        # An older version may have written them in another way than the next checkpoint will expect.
        due=dict.fromkeys(old),
        filed={number: one for number, one in listed.items() if number not in old},
        edited=loaded.edited,
    )
    for one in found.replay:
        _apply(found, one, unread=unread)
    if unread:
        _restore(runtime.disk, where, found, unread=unread)
    await _archive_strays(runtime.disk, where.queue, found)
    return found


def _read_checkpoint(disk: interface.Disk, path: str) -> checkpoint.Loaded:
    try:
        return checkpoint.decode(disk.read(path), path=path)
    except FileNotFoundError:
        raise errors.ConfigurationError(
            f"there is no cluster here: {path} does not exist", hint="gnt-cluster init makes one"
        ) from None
    except OSError as error:
        raise journal.damaged(path, error.strerror or str(error)) from None


def _is_old(one: job.Job, digest: str) -> bool:
    return jobfiles.digest(jobfiles.encode(one)) != digest


def _restore(disk: interface.Disk, where: paths.Paths, found: Recovered, *, unread: dict[int, str]) -> None:
    """Take jobs whose files cannot be used, and that no record after the checkpoint has, from the older journal."""
    start = found.replay.start.serial
    for one in history.records(disk, where.journal, kinds={"jobs"}, newest_first=True):
        for change in one.changes if one.serial <= start else ():
            if isinstance(change, snapshot.Put) and (reason := unread.pop(int(change.key), "")):
                path = jobfiles.job_path(where.queue, int(change.key))
                logger.warning("%s: %s; written anew from record %d of the journal", path, reason, one.serial)
                found.state = found.state.apply([change], serial=found.state.serial)
                found.due[int(change.key)] = None
        if not unread:
            return
    for number, reason in unread.items():
        raise journal.damaged(jobfiles.job_path(where.queue, number), reason)


def _load(loaded: checkpoint.Loaded, jobs: dict[int, job.Job], *, path: str) -> snapshot.Snapshot:
    changes = [snapshot.Put(one) for one in (*loaded.objects, *jobs.values())]
    try:
        return snapshot.Snapshot(last_job=loaded.last_job).apply(changes, serial=loaded.position.serial)
    except (errors.GantryError, ValueError) as error:
        raise journal.damaged(path, str(error)) from None


def _apply(found: Recovered, one: record.Record, *, unread: dict[int, str]) -> None:
    changes = []
    for change in one.changes:
        if change.kind == "jobs":
            number = int(change.key) if change.key.isdecimal() else 0
            unread.pop(number, None)
            gone = isinstance(change, snapshot.Delete)
            known = found.state.jobs.get(change.key)
            # a job that the checkpoint lists, whose file had been archived before the crash
            if gone and known is None:
                continue
            found.due[number] = known if gone else None
        changes.append(change)
    try:
        found.state = found.state.apply(changes, serial=one.serial)
    except (errors.GantryError, ValueError) as error:
        raise journal.damaged(found.replay.segment, f"record {one.serial} does not apply: {error}") from None
    found.replayed += 1


async def _archive_strays(disk: interface.Disk, folder: str, found: Recovered) -> None:
    for number in sorted(jobfiles.numbers(disk, folder)):
        if str(number) not in found.state.jobs and found.due.get(number) is None:
            logger.warning("%s: the job is archived, its file goes there too", jobfiles.job_path(folder, number))
            await jobfiles.move_to_archive(disk, folder, [number])

"""Recovery: from the files of a stopped daemon to the state in them.

``store.transaction`` calls it once, with the queue's lock held. ``config.data`` and the job files are the state at
serial S; the journal's records after S are applied on top. A job file may be newer than S, old, or lost with the power
since S, but then a record after S has the job; a job that S does not list and no later record stores is archived, even
if its file is still in the queue. An edited or missing file is restored from older records of the journal. Nothing is
guessed: inconsistent files raise ConfigurationError with the file and what to do.
"""

import logging
from dataclasses import dataclass
from enum import Enum, auto

from gantry import errors
from gantry.lib_files import queue as queue_file
from gantry.model import job
from gantry.runtime import interface, paths
from gantry.state.files import checkpoint, jobfiles
from gantry.state.journal import history, journal, record
from gantry.state.objects import snapshot
from gantry.state.start import evidence, replacement
from gantry.state.upgrade import configuration

logger = logging.getLogger(__name__)


@dataclass
class Recovered:
    """The state, the end of the journal, the job files to rewrite, and the number of records read.

    ``due`` is for ``files.jobfiles.JobFiles.mark``, ``filed`` are the jobs whose files match the checkpoint; ``edited``
    means that the configuration was edited by hand, ``is_behind`` that the journal lacks records that ``evidence``
    tells of, ``is_unconfirmed`` that records after the checkpoint may be those of a former master, which nobody
    acknowledged.
    """

    state: snapshot.Snapshot
    replay: journal.Replay
    evidence: evidence.Evidence
    due: dict[int, job.Job | None]
    filed: dict[int, job.Job]
    replayed: int = 0
    edited: bool = False
    is_behind: bool = False
    is_unconfirmed: bool = False


class Behind(Enum):
    """What happens to a state that is behind the evidence.

    ``REFUSED``: it is not opened. ``COMPLETED``: frames of a candidate may complete it, but not below an edit of
    ``config.data``, which would be lost. ``ACCEPTED``: the loss may be accepted.
    """

    REFUSED = auto()
    COMPLETED = auto()
    ACCEPTED = auto()


async def recover(runtime: interface.Runtime, where: paths.Paths, *, behind: Behind = Behind.REFUSED) -> Recovered:
    """Read the state; moves the files of jobs that are archived already.

    An interrupted ``replacement`` of the whole state is completed first.

    Raises ConfigurationError for a state that is behind the evidence, unless ``behind`` says otherwise, and for a
    configuration of Ganeti.
    """
    await replacement.Replacement(runtime.disk, where).recover()
    loaded = _read_checkpoint(runtime.disk, where.config)
    filed = {
        number: jobfiles.read(runtime.disk, where.queue, number, expected=digest)
        for number, digest in loaded.jobs.items()
    }
    listed = {number: content for number, content in filed.items() if isinstance(content, job.Job)}
    unread = {number: content for number, content in filed.items() if isinstance(content, str)}
    old = {number for number, listed_job in listed.items() if _is_old(listed_job, loaded.jobs[number])}
    recovered = Recovered(
        state=_load(loaded, listed, path=where.config),
        replay=journal.Replay(runtime.disk, where.journal, loaded.position),
        evidence=evidence.read(runtime.disk, where),
        # An older version may have written them in another form than the next checkpoint will expect.
        due=dict.fromkeys(old),
        filed={number: listed_job for number, listed_job in listed.items() if number not in old},
        edited=loaded.edited,
    )
    for journal_record in recovered.replay:
        _apply(recovered, journal_record, unread=unread)
    if unread:
        _restore(runtime.disk, where, recovered, unread=unread)
    recovered.is_unconfirmed = behind is not Behind.REFUSED and recovered.replayed > 0
    recovered.is_behind = bool(recovered.evidence.losses(recovered.state, recovered.replay.end))
    if behind is Behind.REFUSED or (behind is Behind.COMPLETED and recovered.edited):
        recovered.evidence.check(recovered.state, recovered.replay.end)
    # The file of a job that the journal has lost is evidence.
    if not recovered.is_behind:
        await _archive_strays(runtime.disk, where.queue, recovered)
    return recovered


def _read_checkpoint(disk: interface.Disk, path: str) -> checkpoint.Loaded:
    try:
        data = disk.read(path)
        if old := configuration.version(data):
            raise errors.ConfigurationError(
                f"{path} is a configuration of Ganeti, version {old}",
                hint="move it elsewhere; gnt-cluster import FILE makes a cluster from it",
            )
        return checkpoint.decode(data, path=path)
    except FileNotFoundError:
        raise errors.ConfigurationError(
            f"there is no cluster here: {path} does not exist", hint="gnt-cluster init makes one"
        ) from None
    except OSError as error:
        raise journal.damaged(path, error.strerror or str(error)) from None


def _is_old(listed_job: job.Job, digest: str) -> bool:
    return queue_file.digest(jobfiles.encode(listed_job)) != digest


def _restore(disk: interface.Disk, where: paths.Paths, recovered: Recovered, *, unread: dict[int, str]) -> None:
    """Restore jobs from the older journal if their files are unusable and no record after the checkpoint has them."""
    start = recovered.replay.start.serial
    for journal_record in history.records(disk, where.journal, kinds={"jobs"}, newest_first=True):
        for change in journal_record.changes if journal_record.serial <= start else ():
            if isinstance(change, snapshot.Put) and (reason := unread.pop(int(change.key), "")):
                path = queue_file.path(where.queue, int(change.key))
                logger.warning("%s: %s; rewritten from record %d of the journal", path, reason, journal_record.serial)
                recovered.state = recovered.state.apply([change], serial=recovered.state.serial)
                recovered.due[int(change.key)] = None
        if not unread:
            return
    for number, reason in unread.items():
        raise journal.damaged(queue_file.path(where.queue, number), reason)


def _load(loaded: checkpoint.Loaded, jobs: dict[int, job.Job], *, path: str) -> snapshot.Snapshot:
    changes = [snapshot.Put(value) for value in (*loaded.objects, *jobs.values())]
    try:
        return snapshot.Snapshot(last_job=loaded.last_job).apply(changes, serial=loaded.position.serial)
    except (errors.GantryError, ValueError) as error:
        raise journal.damaged(path, str(error)) from None


def _apply(recovered: Recovered, journal_record: record.Record, *, unread: dict[int, str]) -> None:
    changes = []
    for change in journal_record.changes:
        if change.kind == "jobs":
            number = int(change.key) if change.key.isdecimal() else 0
            unread.pop(number, None)
            is_deleted = isinstance(change, snapshot.Delete)
            known = recovered.state.jobs.get(change.key)
            # The checkpoint lists the job, and its file had been archived before the crash.
            if is_deleted and known is None:
                continue
            recovered.due[number] = known if is_deleted else None
        changes.append(change)
    try:
        recovered.state = recovered.state.apply(changes, serial=journal_record.serial)
    except (errors.GantryError, ValueError) as error:
        raise journal.damaged(
            recovered.replay.section, f"record {journal_record.serial} does not apply: {error}"
        ) from None
    recovered.replayed += 1


async def _archive_strays(disk: interface.Disk, folder: str, recovered: Recovered) -> None:
    for number in sorted(jobfiles.numbers(disk, folder)):
        if str(number) not in recovered.state.jobs and recovered.due.get(number) is None:
            logger.warning("%s: the job is archived; moving its file to the archive", queue_file.path(folder, number))
            await jobfiles.move_to_archive(disk, folder, [number])

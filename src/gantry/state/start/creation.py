"""The first state of a new cluster: its first record and checkpoint. ``mastership.bootstrap`` calls it once."""

import contextlib
from collections.abc import Sequence

from gantry import errors
from gantry.lib_files import frame, journal_end
from gantry.runtime import interface, paths
from gantry.state.files import checkpoint, jobfiles, ownership
from gantry.state.journal import end_mark, journal, record
from gantry.state.objects import snapshot as states


async def create(
    runtime: interface.Runtime,
    where: paths.Paths,
    changes: Sequence[states.Change],
    *,
    reason: str = "cluster created",
    last_job: int = 0,
) -> None:
    """Write the first state of a new cluster, its first record and its first checkpoint, and close all files.

    The first job gets the number after ``last_job``.

    Raises ExistsError if there is a cluster already, and the errors of ``Store.open``.
    """
    disk = runtime.disk
    now = runtime.clock.now()
    state = states.Snapshot(last_job=last_job).apply(changes, serial=1)
    cause = record.Cause(opcode="OP_CLUSTER_INIT", reason=reason)
    first = record.Record(serial=1, time=now, epoch=0, cause=cause, changes=tuple(changes))
    line = frame.pack(frame.GENESIS, [record.encode(first)])
    with contextlib.ExitStack() as undo, ownership.disk_faults(where):
        await jobfiles.prepare(disk, where.queue)
        undo.callback((await ownership.take(runtime, where)).release)
        if disk.exists(where.config):
            raise errors.ExistsError(f"there is a cluster already: {where.config}")
        await disk.remove_tree(where.journal)
        log = await journal.Journal.open(
            disk, where.journal, replay=journal.Replay(disk, where.journal, journal.Position())
        )
        undo.callback(log.close)
        await log.append(line)
        position = journal.Position(1, frame.digest(line), 0)
        # A former cluster on this machine may have left one with a higher epoch.
        await disk.write(where.journal_end, journal_end.encode(end_mark.at(position, state.last_job)))
        await disk.write(where.config, checkpoint.encode(state, position, now=now))

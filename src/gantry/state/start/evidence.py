"""What a machine's other files say about the past, compared with what its journal gives.

``store.transaction`` reads the evidence before it changes a file, and refuses a state that is behind it. A journal
whose end was cut off, removed or replaced by an old backup is valid in itself, so only other files show the loss. These
are written after the frame that they follow from is durable, so they are never ahead of an intact journal:

    journal-end     the end of the journal, and the highest job number there (``journal.end_mark``)
    queue/serial    the highest job number of the durable state

Epoch and serial are compared in this order: records that a later epoch replaced are no loss. ``epoch`` and
``acknowledged`` may be ahead because another node is the master now, which the vote decides; they count if the state
knows no other node. Some files prove nothing alone, and an error that the others cause mentions them:
``ssconf`` follows changes before they are durable and lags behind removals, job files of a discarded history
stay until they are archived, and the node that got a ``promise`` may never have begun.
"""

from dataclasses import dataclass

from gantry import errors
from gantry.lib_files import epoch, journal_end
from gantry.lib_files import queue as queue_file
from gantry.lib_files import ssconf as ssconf_file
from gantry.rpc.calls import reach
from gantry.runtime import interface, paths
from gantry.state.files import jobfiles
from gantry.state.journal import end_mark, journal
from gantry.state.objects import snapshot

UNKNOWN_JOBS = 20_000
"""How many jobs the lost records may have if no file has the highest job number: as many as the queue holds."""


@dataclass(frozen=True)
class Evidence:
    """The evidence on one machine: ``mark`` is the end mark.

    ``job_serial`` is the number in ``queue/serial``, ``newest_job`` the highest number of a job file, ``epoch`` that of
    the newest master which called this machine; ``granted`` is the epoch that its node granted last, ``acknowledged``
    the furthest acknowledged record that it has heard of. ``nodes`` and ``candidates`` are the names in the ssconf
    files.
    """

    where: paths.Paths
    mark: journal_end.Mark | None = None
    job_serial: int = 0
    newest_job: int = 0
    epoch: int = 0
    granted: int = 0
    acknowledged: reach.Reach = reach.UNKNOWN
    nodes: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()

    @property
    def marked_job(self) -> int | None:
        """Return the highest job number in the end mark; None if it has none."""
        return self.mark.last_job if self.mark else None

    @property
    def highest_job(self) -> int:
        """Return the highest job number that was ever given, as far as it is known here."""
        return max(self.job_serial, self.newest_job, self.marked_job or 0)

    @property
    def unknown_jobs(self) -> int:
        """Return how many numbers above ``highest_job`` and the journal's may have been given.

        ``queue/serial`` and the job files are written after a change is acknowledged, and are not synced.
        """
        return 0 if self.marked_job is not None else UNKNOWN_JOBS

    def reaches(self, position: reach.Reach) -> bool:
        """Return whether the end mark, and so ``highest_job``, includes a record."""
        return self.mark is not None and (self.mark.epoch, self.mark.serial) >= position

    @property
    def highest_epoch(self) -> int:
        """Return the highest epoch of which anything tells here."""
        return max(self.epoch, self.granted, self.acknowledged[0], self.mark.epoch if self.mark else 0)

    def losses(self, state: snapshot.Snapshot, end: journal.Position) -> list[str]:
        """Return what shows that the journal, which gives ``state`` and ends at ``end``, has lost records."""
        return [*self._lost_records(end), *self._lost_jobs(state), *self._lost_epochs(state, end)]

    def _lost_records(self, end: journal.Position) -> list[str]:
        path = self.where.journal_end
        mark = self.mark
        if mark is None or (mark.epoch, mark.serial) < (end.epoch, end.serial):
            return []
        if (mark.epoch, mark.serial) > (end.epoch, end.serial):
            return [f"{path} says serial {mark.serial} epoch {mark.epoch}"]
        return [] if mark.digest == end.digest else [f"{path} has another chain hash for serial {mark.serial}"]

    def _lost_jobs(self, state: snapshot.Snapshot) -> list[str]:
        if self.job_serial <= state.last_job:
            return []
        return [
            f"{self.where.queue}/serial says {self.job_serial}, and the last job in the journal is {state.last_job}"
        ]

    def _lost_epochs(self, state: snapshot.Snapshot, end: journal.Position) -> list[str]:
        if len(state.nodes) > 1:
            return []
        lines = []
        if self.epoch > end.epoch:
            lines.append(f"{self.where.lib}/epoch says that a master of epoch {self.epoch} ran")
        if self.acknowledged > (end.epoch, end.serial):
            epoch, serial = self.acknowledged
            paths_ = " or ".join(reach.files(self.where))
            lines.append(f"{paths_} says that serial {serial} epoch {epoch} was acknowledged")
        return lines

    def checked_losses(self, state: snapshot.Snapshot, end: journal.Position) -> list[str]:
        """Return ``losses``; WrongStateError if there are none."""
        lines = self.losses(state, end)
        if not lines:
            raise errors.WrongStateError(
                f"no record is missing: the journal ends at serial {end.serial}, and nothing tells of more",
                hint="start gantry-masterd as usual",
            )
        return lines

    def check(self, state: snapshot.Snapshot, end: journal.Position) -> None:
        """Raise ConfigurationError with all that is missing if the journal is behind."""
        lines = self.losses(state, end)
        if lines:
            raise self._refusal(state, end, lines)

    def _refusal(self, state: snapshot.Snapshot, end: journal.Position, lines: list[str]) -> errors.ConfigurationError:
        known = {node.name for node in state.nodes.values()}
        unknown = [name for name in self.nodes if name not in known]
        if unknown:
            lines.append(f"ssconf names {', '.join(unknown)}, which the state does not have")
        if self.newest_job > state.last_job:
            lines.append(f"job {self.newest_job} has a file, {queue_file.path(self.where.queue, self.newest_job)}")
        if self.granted > end.epoch:
            lines.append(f"{self.where.lib}/promise says that epoch {self.granted} was granted")
        own = state.nodes.get(state.the_cluster.master_node)
        other_candidates = [name for name in self.candidates if own is None or name != own.name]
        return errors.ConfigurationError(
            f"the end of the journal is missing: {self.where.journal} ends at serial {end.serial} epoch {end.epoch}, "
            f"but {'; '.join(lines)}",
            hint=f"{_advice(other_candidates)}; to continue without the missing records: "
            "gnt-cluster recover --accept-loss",
        )


def _advice(candidates: list[str]) -> str:
    if not candidates:
        return "restore config.data, journal/ and queue/, all three, from the newest backup"
    return (
        "install the copy of the master candidate that holds the most: gnt-cluster recover --from NODE, with one of "
        f"{', '.join(candidates)}"
    )


def read(disk: interface.Disk, where: paths.Paths) -> Evidence:
    """Read the evidence; ConfigurationError if the end mark is damaged."""
    mark = end_mark.read(disk, where.journal_end)
    return Evidence(
        where,
        mark=mark,
        job_serial=_job_serial(disk, f"{where.queue}/serial"),
        newest_job=max(jobfiles.numbers(disk, where.queue), default=0) if disk.exists(where.queue) else 0,
        epoch=_epoch(disk, f"{where.lib}/epoch"),
        granted=_granted(disk, f"{where.lib}/promise"),
        acknowledged=reach.read(disk, where),
        nodes=_names(disk, ssconf_file.path(where.ssconf, "node_list")),
        candidates=_names(disk, ssconf_file.path(where.ssconf, "master_candidates")),
    )


def _job_serial(disk: interface.Disk, path: str) -> int:
    return queue_file.decode_serial(disk.read(path)) if disk.exists(path) else 0


def _epoch(disk: interface.Disk, path: str) -> int:
    """Return the epoch in the node's file; 0 without the file or for a damaged one, which the node daemon reports."""
    return max((line.epoch for line in epoch.decode(disk.read(path))), default=0) if disk.exists(path) else 0


def _granted(disk: interface.Disk, path: str) -> int:
    """Return the epoch of the node's last grant; 0 for a damaged file, which the node daemon reports."""
    if not disk.exists(path):
        return 0
    try:
        return epoch.decode_grant(disk.read(path)).epoch
    except ValueError:
        return 0


def _names(disk: interface.Disk, path: str) -> tuple[str, ...]:
    return tuple(disk.read(path).decode(errors="replace").split()) if disk.exists(path) else ()

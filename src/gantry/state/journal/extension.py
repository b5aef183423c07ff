"""Frames from a master candidate: what follows a position, and the state after it. Pure.

``store.transaction.Store.adopt`` calls ``extend``, ``mastership.role`` calls ``follow`` for records that it does not
adopt.
"""

from dataclasses import dataclass

from gantry import errors
from gantry.lib_files import frame
from gantry.model import job
from gantry.rpc import calls
from gantry.state.journal import journal, record
from gantry.state.objects import snapshot

SOURCE = "a frame of a master candidate"


@dataclass(frozen=True)
class Extended:
    """The new state, the end of its journal, the changed jobs for ``JobFiles.mark``, and the number of records."""

    state: snapshot.Snapshot
    end: journal.Position
    due: dict[int, job.Job | None]
    records: int


def extend(state: snapshot.Snapshot, end: journal.Position, line: bytes) -> Extended:
    """Return the state after a frame that follows it; ConfigurationError when the frame is damaged or does not fit.

    A partial record does not fit: only the whole state has what comes after it.
    """
    records, new_end = follow(end, line)
    due: dict[int, job.Job | None] = {}
    for journal_record in records:
        if journal_record.is_partial:
            raise journal.damaged(
                SOURCE, f"record {journal_record.serial} is not complete: {journal_record.cause.reason}"
            )
        for change in journal_record.changes:
            if change.kind == "jobs":
                due[int(change.key)] = state.jobs[change.key] if isinstance(change, snapshot.Delete) else None
        try:
            state = state.apply(journal_record.changes, serial=journal_record.serial)
        except (errors.GantryError, ValueError) as error:
            raise journal.damaged(SOURCE, f"record {journal_record.serial} does not apply: {error}") from None
    return Extended(state, new_end, due, len(records))


def follow(end: journal.Position, line: bytes) -> tuple[list[record.Record], journal.Position]:
    """Return the records of a frame that follows a position, and the position after it; errors as ``extend``."""
    new_frame = _frame(line)
    if new_frame.previous != end.digest:
        raise journal.damaged(SOURCE, "it does not follow the last frame here (chain hash)")
    records, serial, epoch = [], end.serial, end.epoch
    for raw in new_frame.records:
        journal_record = record.decode(raw)
        is_possible = epoch <= journal_record.epoch <= epoch + calls.EPOCH_STEP
        if journal_record.serial != serial + 1 or not is_possible:
            raise journal.damaged(
                SOURCE,
                f"record {journal_record.serial} (epoch {journal_record.epoch}) follows {serial} (epoch {epoch})",
            )
        records.append(journal_record)
        serial, epoch = journal_record.serial, journal_record.epoch
    return records, journal.Position(serial, new_frame.digest, epoch)


def _frame(line: bytes) -> frame.Frame:
    try:
        (only_frame,) = frame.scan(line)
    except frame.DamageError as error:
        raise journal.damaged(SOURCE, error.what) from None
    except ValueError:
        raise journal.damaged(SOURCE, "it is not exactly one frame") from None
    return only_frame

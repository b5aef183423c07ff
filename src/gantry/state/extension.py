"""A state with one frame more, that came from a master candidate: what ``transaction.Store.adopt`` takes in. Pure."""

from dataclasses import dataclass

from gantry import errors
from gantry.model import job
from gantry.state import frame, journal, record, snapshot

SOURCE = "a frame of a master candidate"


@dataclass(frozen=True)
class Extended:
    """The state, where the journal ends with it, the jobs that changed (as ``JobFiles.mark`` takes them), how many."""

    state: snapshot.Snapshot
    end: journal.Position
    due: dict[int, job.Job | None]
    records: int


def extend(state: snapshot.Snapshot, end: journal.Position, line: bytes) -> Extended:
    """Return the state after a frame that follows it; ConfigurationError when the frame is damaged or does not fit."""
    whole = _frame(line)
    if whole.previous != end.digest:
        raise journal.damaged(SOURCE, "it does not follow what is here (chain hash)")
    due: dict[int, job.Job | None] = {}
    epoch = end.epoch
    for raw in whole.records:
        one = record.decode(raw)
        if one.serial != state.serial + 1 or one.epoch < epoch:
            raise journal.damaged(SOURCE, f"record {one.serial} follows record {state.serial}")
        for change in one.changes:
            if change.kind == "jobs":
                due[int(change.key)] = state.jobs[change.key] if isinstance(change, snapshot.Delete) else None
        try:
            state = state.apply(one.changes, serial=one.serial)
        except (errors.GantryError, ValueError) as error:
            raise journal.damaged(SOURCE, f"record {one.serial} does not apply: {error}") from None
        epoch = one.epoch
    return Extended(state, journal.Position(state.serial, whole.digest, epoch), due, len(whole.records))


def _frame(line: bytes) -> frame.Frame:
    try:
        (whole,) = frame.scan(line)
    except frame.DamageError as error:
        raise journal.damaged(SOURCE, error.what) from None
    except ValueError:
        raise journal.damaged(SOURCE, "it is more or less than one") from None
    return whole

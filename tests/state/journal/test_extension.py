"""A frame of a master candidate is adopted only where it follows what is here."""

from collections.abc import Sequence

import pytest
from tests.state import build

from gantry import errors
from gantry.lib_files import frame
from gantry.rpc import calls
from gantry.state.journal import extension, journal, record
from gantry.state.objects import snapshot

STATE = snapshot.Snapshot().apply(build.FIRST, serial=7)
END = journal.Position(7, "d" * 64, 3)


def line(
    *serials: tuple[int, int],
    previous: str = END.digest,
    changes: Sequence[snapshot.Change] = (),
    cause: record.Cause = build.CAUSE,
) -> bytes:
    """Return a frame with records of these serials and epochs."""
    records = [
        record.Record(serial=serial, time=1.0, epoch=epoch, cause=cause, changes=tuple(changes))
        for serial, epoch in serials
    ]
    return frame.pack(previous, [record.encode(each) for each in records])


def test_records_follow_each_other_by_serial_and_no_epoch_goes_back() -> None:
    following = line((8, 3), (9, 4))
    records, end = extension.follow(END, following)
    assert [(each.serial, each.epoch) for each in records] == [(8, 3), (9, 4)]
    assert end == journal.Position(9, frame.digest(following), 4)
    assert extension.follow(END, line((8, 3 + calls.EPOCH_STEP)))[1].epoch == 3 + calls.EPOCH_STEP


@pytest.mark.parametrize(
    ("damaged", "what"),
    [
        (line((8, 3), previous="e" * 64), "it does not follow the last frame here"),
        (line((7, 3)), r"record 7 \(epoch 3\) follows 7 \(epoch 3\)"),
        (line((9, 3)), "record 9 "),
        (line((8, 2)), "record 8 "),
        (line((8, 4), (9, 3)), r"record 9 \(epoch 3\) follows 8 \(epoch 4\)"),
        (line((8, 3), (8, 3)), r"record 8 \(epoch 3\) follows 8"),
        (line((8, 3 + calls.EPOCH_STEP + 1)), "record 8 "),
        (line((8, 3)) + line((9, 3)), "it is not exactly one frame"),
        (b"", "it is not exactly one frame"),
        (line((8, 3))[:-2], extension.SOURCE),
    ],
)
def test_a_frame_that_does_not_follow_is_refused(damaged: bytes, what: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=what):
        extension.follow(END, damaged)


@pytest.mark.parametrize("reason", [record.HAND_EDIT, f"{record.ACCEPTED_LOSS}: queue/serial says 7"])
def test_a_record_that_does_not_have_all_that_changed_is_not_adopted(reason: str) -> None:
    partial = line((8, 3), cause=record.Cause(reason=reason))
    assert extension.follow(END, partial)[1].serial == 8
    with pytest.raises(errors.ConfigurationError, match="record 8 is not complete"):
        extension.extend(STATE, END, partial)
    of_job = line((8, 3), cause=record.Cause(reason=reason, job=4, opcode="OP_TAGS_SET", user="root"))
    assert extension.extend(STATE, END, of_job).records == 1


def test_an_adopted_frame_changes_the_state_and_names_the_changed_jobs() -> None:
    first = build.queued(1)
    added = extension.extend(STATE, END, line((8, 3), changes=build.put(first, build.vm(1))))
    assert (added.records, added.due, added.end.serial) == (1, {1: None}, 8)
    assert "i1" in added.state.instances
    removed = extension.extend(
        added.state, added.end, line((9, 3), previous=added.end.digest, changes=[snapshot.Delete("jobs", "1")])
    )
    assert removed.due == {1: first}
    assert "1" not in removed.state.jobs


def test_a_record_that_does_not_apply_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match="record 8 does not apply"):
        extension.extend(STATE, END, line((8, 3), changes=[snapshot.Delete("instances", "nobody")]))

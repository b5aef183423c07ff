"""What the log of a job says about disks that it may have left behind."""

import pytest

from gantry.sim import job_answers


def log(text: str) -> list[list[object]]:
    return [[[1, [0, 0], "message", text]]]


@pytest.mark.parametrize(
    "text",
    [
        "WARNING could not undo: create disk 0 of vm5 on node2: node node2 cannot be reached",
        "WARNING could not undo: take snapshots of the disks of vm5: node node2 cannot be reached",
        "WARNING a snapshot of vm5 remains on node2: node node2 cannot be reached",
    ],
)
def test_a_warning_of_a_disk_that_remains_is_heeded(text: str) -> None:
    assert job_answers.may_leave_disks(log(text), [])
    assert not job_answers.may_leave_disks(log(text.replace("WARNING ", "")), [])


def test_a_warning_about_something_else_leaves_no_disks() -> None:
    assert not job_answers.may_leave_disks(log("WARNING could not undo: stop vm5: node node2 cannot be reached"), [])

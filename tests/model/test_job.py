"""The status of a job against the table of contracts/jobs.md#status, restated literally."""

import itertools
from collections.abc import Sequence

import msgspec
import pytest
from tests.state import build

from gantry.model import access, job, opcodes

STATUSES = tuple(job.Status)


def restated(statuses: Sequence[job.Status]) -> str:
    """Scan in order, as the table says."""
    result = "queued"
    if all(status == "success" for status in statuses):
        return "success"
    for status in statuses:
        if status in ("queued", "success"):
            continue
        result = status.value
        if status in ("canceling", "error", "canceled"):
            break
    return result


def of(statuses: Sequence[job.Status]) -> job.Job:
    steps = (job.Step(input=opcodes.TestDelay(duration=0.0), status=status) for status in statuses)
    return job.Job(id=1, ops=tuple(steps))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_status_of_a_job_is_what_its_opcodes_add_up_to(count: int) -> None:
    for statuses in itertools.product(STATUSES, repeat=count):
        assert of(statuses).status == restated(statuses), statuses


def test_the_final_statuses_are_those_of_the_contract() -> None:
    assert {status.value for status in job.FINAL} == {"canceled", "success", "error"}
    names = {"queued", "waiting", "canceling", "running", "canceled", "success", "error"}
    assert {status.value for status in job.Status} == names


def test_the_priority_is_that_of_what_has_not_ended() -> None:
    steps = [
        job.Step(input=opcodes.TestDelay(duration=0.0), priority=priority, status=status)
        for priority, status in ((-20, job.Status.SUCCESS), (5, job.Status.QUEUED), (3, job.Status.QUEUED))
    ]
    assert job.Job(id=1, ops=tuple(steps)).priority == 3
    assert build.ended(build.queued(1)).priority == 0


def test_a_time_is_a_pair_of_seconds_and_microseconds() -> None:
    assert job.timestamp(12.25) == (12, 250_000)
    assert all(job.timestamp(1e9 + part / 7)[1] < 1_000_000 for part in range(100))


@pytest.mark.parametrize(
    "submitter",
    [
        None,
        access.Subject(user="root", is_admin=True),
        access.Subject(user="<b>&\n", door="rapi"),
        access.Subject(user="bob", groups=("ops", "staff")),
    ],
)
def test_a_job_comes_back_with_its_submitter(submitter: access.Subject | None) -> None:
    original = job.Job(id=1, ops=(job.Step(input=opcodes.TestDelay(duration=0.0)),), submitter=submitter)
    assert msgspec.json.decode(msgspec.json.encode(original), type=job.Job).submitter == submitter


def test_a_job_of_an_earlier_version_has_no_submitter() -> None:
    encoded = msgspec.json.decode(msgspec.json.encode(of([job.Status.QUEUED])), type=dict[str, object])
    del encoded["submitter"]
    assert msgspec.json.decode(msgspec.json.encode(encoded), type=job.Job).submitter is None

"""Where a worker looks for its next address."""

import pytest

from gantry.ipam.sql import allocation, availability

PARTS = availability.PARTS


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> allocation.Worker:
    monkeypatch.setattr(allocation, "MAX_POSITIONS", 3)
    return allocation.Worker(below=lambda count: count - 1)


def test_a_worker_continues_after_its_last_address_and_begins_at_random(worker: allocation.Worker) -> None:
    assert worker.position("s") == availability.Position(skip=PARTS - 1)
    worker.continue_from("s", "0a000005")
    assert worker.position("s") == availability.Position("0a000005")
    assert worker.position("t") == availability.Position(skip=PARTS - 1)


def test_a_worker_remembers_no_more_subnets_than_its_limit(worker: allocation.Worker) -> None:
    for number in range(3):
        worker.continue_from(f"s{number}", "0a000005")
    assert len(worker.positions) == 3
    worker.continue_from("s3", "0a000005")
    assert worker.positions == {"s3": "0a000005"}


def test_a_worker_that_lost_a_range_without_bounds_begins_at_random_again(worker: allocation.Worker) -> None:
    worker.continue_from("s", "0a000005")
    worker.jump("s", None)
    assert worker.lost == 1
    assert worker.position("s") == availability.Position(skip=PARTS - 1)

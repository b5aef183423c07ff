"""What the master daemon reports of its role."""

import asyncio
from types import SimpleNamespace
from typing import cast

from gantry import errors
from gantry.daemons import master_status
from gantry.runtime import simulated
from gantry.state.candidates import replication
from gantry.state.store import transaction

STORE = cast(
    "transaction.Store",
    SimpleNamespace(durable=SimpleNamespace(the_cluster=SimpleNamespace(name="c1")), epoch=7),
)


class Candidates:
    """The copies of the state: ``stalled``, ``doubt`` and ``lagging`` as a test sets them."""

    def __init__(self) -> None:
        self.stalled = asyncio.Event()
        self.doubt: errors.GantryError | None = None
        self.lagging = ""

    def missing(self) -> str:
        return "node2 and node3 do not answer"

    def notice(self) -> str:
        return self.lagging

    @property
    def typed(self) -> replication.Candidates:
        return cast("replication.Candidates", self)


def test_a_master_reports_its_cluster_and_epoch() -> None:
    assert master_status.line(STORE, Candidates().typed) == "master of cluster c1, epoch 7"


def test_a_master_without_a_majority_reports_whom_it_waits_for() -> None:
    candidates = Candidates()
    candidates.stalled.set()
    text = master_status.line(STORE, candidates.typed)
    assert text.endswith("waits for a majority of the master candidates: node2 and node3 do not answer")


def test_a_master_that_a_node_refuses_reports_that() -> None:
    candidates = Candidates()
    candidates.doubt = errors.FencedError("node2 obeys epoch 8")
    assert master_status.line(STORE, candidates.typed).endswith("because a node refused it: node2 obeys epoch 8")


def test_what_keeps_a_master_from_acknowledging_is_its_problem_and_too_few_copies_are_none() -> None:
    candidates = Candidates()
    candidates.lagging = "the newest changes are only on node1"
    assert master_status.problem(candidates.typed) == ""
    candidates.stalled.set()
    assert master_status.problem(candidates.typed).endswith("node2 and node3 do not answer")
    candidates.doubt = errors.FencedError("node2 obeys epoch 8")
    assert master_status.problem(candidates.typed).endswith("node2 obeys epoch 8")


def test_changes_with_too_few_copies_are_reported() -> None:
    candidates = Candidates()
    candidates.lagging = "the newest changes are only on node1"
    assert master_status.line(STORE, candidates.typed).endswith("; the newest changes are only on node1")


def test_only_a_new_status_is_reported() -> None:
    candidates, reports = Candidates(), list[str]()
    world = simulated.World(seed=1)

    async def watch() -> None:
        clock = world.machine("node1").clock
        following = asyncio.ensure_future(master_status.follow(clock, STORE, candidates.typed, report=reports.append))
        await clock.sleep(3 * master_status.INTERVAL_SECONDS)
        assert len(reports) == 1
        candidates.stalled.set()
        await clock.sleep(3 * master_status.INTERVAL_SECONDS)
        assert len(reports) == 2
        following.cancel()

    world.run(watch())

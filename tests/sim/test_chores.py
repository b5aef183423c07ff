"""Chores: several steps of an administrator, and what is looked up meanwhile."""

import random
from collections import Counter

import pytest

from gantry.sim import scenario
from gantry.sim.chores import table

DONE = {
    "lost-disks": 2,
    "exports": 3,
    "renames": 4,
    "attached-disks": 2,
    "stray-guests": 3,
    "rights": 0,
    "subnet-pools": 0,
    "ports": 0,
    "allocator-program": 0,
    "invitations": 0,
    "certificates": 0,
    "segment-defaults": 0,
    "webhooks": 0,
    "reading-rules": 0,
}
"""For each chore a seed with which all of its steps succeed, if it is the first one of the run."""


@pytest.mark.parametrize("name", table.CHORES)
@pytest.mark.slow
def test_a_chore_comes_to_its_end_and_no_promise_is_broken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "draw", lambda chance: [name])
    result = scenario.run(DONE[name])
    assert not result.broken, result.story
    assert f" chore {name} ends\n" in result.story


def test_a_share_of_the_runs_has_some_chores_and_the_other_runs_none() -> None:
    draws = [table.draw(random.Random(seed)) for seed in range(2000)]
    assert {len(names) for names in draws} == {0, table.COUNT}
    assert sum(map(bool, draws)) == pytest.approx(2000 * table.SHARE, rel=0.1)
    counts = Counter(name for names in draws for name in names)
    assert set(counts) == set(table.CHORES)


def test_a_run_for_a_schedule_has_no_chores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "draw", lambda chance: list(table.CHORES))
    assert " chore " not in scenario.run(2, schedule="small-node").story

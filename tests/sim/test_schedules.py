"""Schedules: faults of several acts in a set order."""

import random
from collections import Counter

import pytest

from gantry.mastership import vote
from gantry.node.membership import acknowledged as witness
from gantry.sim import acknowledged, invariants, scenario
from gantry.sim.schedules import restored_files, table

PLAYED = {
    "sleeping-node": 11,
    "forgotten-promise": 0,
    "forgotten-epoch": 218,
    "moved-meanwhile": 2,
    "small-node": 2,
    "candidates-offline": 5,
    "restored-files": 2,
    "forced-start": 0,
}
"""For each schedule a seed with which all of its acts succeed."""


@pytest.mark.parametrize("name", table.SHARES)
@pytest.mark.slow
def test_a_schedule_comes_to_its_end_and_no_promise_is_broken(name: str) -> None:
    result = scenario.run(PLAYED[name], schedule=name)
    assert not result.broken, result.story
    assert f" schedule {name} ends\n" in result.story


def test_a_run_draws_one_schedule_or_none() -> None:
    draws = Counter(table.draw(random.Random(seed)) for seed in range(2000))
    assert set(draws) == {"", *table.SHARES}
    for name, share in table.SHARES.items():
        assert draws[name] == pytest.approx(2000 * share, rel=0.3)


@pytest.mark.slow
def test_a_majority_with_restored_files_loses_changes_if_no_node_keeps_that_they_were_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(witness.Acknowledged, "note", lambda self, position: None)
    monkeypatch.setattr(restored_files, "_has_heard", lambda *arguments: True)
    result = scenario.run(PLAYED["restored-files"], schedule="restored-files")
    assert result.broken in {acknowledged.ONE_MASTER, acknowledged.KEPT}, result.story


@pytest.mark.slow
def test_candidates_that_were_given_up_become_the_master_without_the_word_of_the_forced_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vote, "has_replaced", lambda claim, answer: False)
    result = scenario.run(PLAYED["forced-start"], schedule="forced-start")
    assert result.broken in {acknowledged.ONE_MASTER, invariants.ONE_LEASE}, result.story

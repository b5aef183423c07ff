"""Schedules: faults of several acts in a set order."""

import random
from collections import Counter

import pytest

from gantry.sim import scenario
from gantry.sim.schedules import table

PLAYED = {"sleeping-node": 11, "forgotten-promise": 0, "forgotten-epoch": 11, "moved-meanwhile": 2, "small-node": 2}
"""For each schedule a seed with which all of its acts succeed."""


@pytest.mark.parametrize("name", table.SCHEDULES)
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

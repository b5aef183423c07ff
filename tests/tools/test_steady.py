"""Runs under changing conditions: which there are, and what a run's failures were."""

import itertools
from collections import Counter

from tools import steady


def test_of_eight_runs_three_are_quiet_three_busy_one_in_random_order_and_one_on_one_core() -> None:
    eight = list(itertools.islice(steady.conditions(), 8))
    assert Counter(condition.name.split()[0] for condition in eight) == {"quiet": 3, "busy": 3, "order": 1, "one": 1}
    assert {condition.loops for condition in eight if condition.name == "busy"} == {steady.BUSY_LOOPS}


def test_each_random_order_is_another_one() -> None:
    orders = [each.arguments for each in itertools.islice(steady.conditions(), 24) if each.arguments]
    assert len(orders) == len(set(orders)) == 3


def test_busy_loops_run_meanwhile_and_end_with_it() -> None:
    with steady.busy(2) as processes:
        assert [process.poll() for process in processes] == [None, None]
    assert None not in [process.poll() for process in processes]

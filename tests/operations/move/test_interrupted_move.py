import itertools

import pytest

from gantry import errors
from gantry.operations.move import interrupted_move

STATES = ("", "silent", "offline", *interrupted_move.RUNS, "migrated", *interrupted_move.HALF)


def judge(**seen: str) -> interrupted_move.Finding | errors.GantryError:
    try:
        return interrupted_move.judge("vm1", "a", seen)
    except errors.GantryError as error:
        return error


@pytest.mark.parametrize(("source", "target"), [*itertools.product(STATES, STATES)])
def test_nothing_is_left_waiting_beside_what_goes_on(source: str, target: str) -> None:
    seen = {"a": source, "b": target}
    verdict = judge(**seen)
    runs = [node for node, state in seen.items() if state in interrupted_move.RUNS]
    if len(runs) == 2:
        assert isinstance(verdict, errors.WrongStateError)
    elif "silent" in seen.values() and not runs:
        assert isinstance(verdict, errors.EnvironmentFaultError)
    else:
        assert isinstance(verdict, interrupted_move.Finding)
        assert not runs or verdict.node == runs[0]
        target_nodes = {node for node, state in seen.items() if state in ("incoming", "arrived", "migrated")}
        assert target_nodes - {verdict.node} == set(verdict.clear) - {verdict.node}


def test_what_has_arrived_goes_on_there_rather_than_where_it_left() -> None:
    verdict = judge(a="migrated", b="arrived")
    assert isinstance(verdict, interrupted_move.Finding)
    assert (verdict.node, verdict.clear) == ("b", {"a": "migrated"})


def test_what_has_left_goes_on_where_it_was_when_the_target_is_offline() -> None:
    verdict = judge(a="migrated", b="offline")
    assert isinstance(verdict, interrupted_move.Finding)
    assert (verdict.node, verdict.state) == ("a", "migrated")


def test_what_was_never_completed_is_cleared_and_it_says_that_nothing_runs() -> None:
    verdict = judge(a="", b="incoming")
    assert isinstance(verdict, interrupted_move.Finding)
    assert verdict.clear == {"b": "incoming"}
    assert "instance vm1 does not run anywhere" in verdict.lines[-1]


@pytest.mark.parametrize("primary", ["a", "b"])
@pytest.mark.parametrize(("state", "other"), [("migrated", ""), ("migrated", "offline"), ("arrived", "")])
def test_the_guest_that_a_stop_left_does_not_go_on(primary: str, state: str, other: str) -> None:
    verdict = interrupted_move.judge("vm1", primary, {"a": state, "b": other}, up=False)
    assert (verdict.node, verdict.state == state, verdict.clear) == (primary, False, {"a": state})
    assert "instance vm1 does not run anywhere" in verdict.lines[-1]


def test_a_guest_with_admin_state_down_goes_on_if_nothing_stopped_it() -> None:
    verdict = interrupted_move.judge("vm1", "b", {"a": "migrated", "b": "arrived"}, up=False)
    assert (verdict.node, verdict.state, verdict.clear) == ("b", "arrived", {"a": "migrated"})

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
    found = judge(**seen)
    runs = [node for node, state in seen.items() if state in interrupted_move.RUNS]
    if len(runs) == 2:
        assert isinstance(found, errors.WrongStateError)
    elif "silent" in seen.values() and not runs:
        assert isinstance(found, errors.EnvironmentFaultError)
    else:
        assert isinstance(found, interrupted_move.Finding)
        assert not runs or found.node == runs[0]
        others = {node for node, state in seen.items() if state in ("incoming", "arrived", "migrated")}
        assert others - {found.node} == set(found.clear) - {found.node}


def test_what_has_arrived_goes_on_there_rather_than_where_it_left() -> None:
    found = judge(a="migrated", b="arrived")
    assert isinstance(found, interrupted_move.Finding)
    assert (found.node, found.clear) == ("b", {"a": "migrated"})


def test_what_has_left_goes_on_where_it_was_when_the_target_is_offline() -> None:
    found = judge(a="migrated", b="offline")
    assert isinstance(found, interrupted_move.Finding)
    assert (found.node, found.state) == ("a", "migrated")


def test_what_was_never_completed_is_cleared_and_it_says_that_nothing_runs() -> None:
    found = judge(a="", b="incoming")
    assert isinstance(found, interrupted_move.Finding)
    assert found.clear == {"b": "incoming"}
    assert "instance vm1 does not run anywhere" in found.lines[-1]

import pytest

from gantry.model import repair
from gantry.model.repair import Action, Decision


@pytest.mark.parametrize(
    "whole_before, broken, decision",
    [
        (True, (), Decision(Action.NOTHING, whole=True)),
        (False, (), Decision(Action.RECOVERED, whole=True)),
        (False, ("node1",), Decision(Action.NOTHING)),
        (False, ("node1", "node2"), Decision(Action.NOTHING)),
        (True, ("node1", "node2"), Decision(Action.TOO_MANY)),
        (True, ("node2",), Decision(Action.REPAIR, node="node2")),
    ],
)
def test_one_disk_that_has_just_died_is_taken_out_and_nothing_else(
    whole_before: bool, broken: tuple[str, ...], decision: Decision
) -> None:
    assert repair.decide(whole_before=whole_before, broken=broken) == decision

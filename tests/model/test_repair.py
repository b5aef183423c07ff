import pytest

from gantry.model import repair
from gantry.model.repair import Decision, Deed


@pytest.mark.parametrize(
    "whole_before, broken, decision",
    [
        (True, (), Decision(Deed.NOTHING, whole=True)),
        (False, (), Decision(Deed.RECOVERED, whole=True)),
        (False, ("node1",), Decision(Deed.NOTHING)),
        (False, ("node1", "node2"), Decision(Deed.NOTHING)),
        (True, ("node1", "node2"), Decision(Deed.TOO_MANY)),
        (True, ("node2",), Decision(Deed.REPAIR, node="node2")),
    ],
)
def test_one_disk_that_has_just_died_is_taken_out_and_nothing_else(
    whole_before: bool, broken: tuple[str, ...], decision: Decision
) -> None:
    assert repair.decide(whole_before=whole_before, broken=broken) == decision

"""The grants that a confirmed node collects."""

from collections.abc import Sequence

import pytest
from tests.state import build

from gantry import errors
from gantry.mastership import grants, poll, vote
from gantry.rpc import calls, client
from gantry.runtime import simulated

END = calls.CandidateState(serial=1, digest="d", epoch=1, job=0, master="node0")


def refusal(
    verdict: vote.Verdict, answers: Sequence[vote.Answer], leases: Sequence[calls.LeaseState]
) -> errors.WrongStateError:
    return errors.WrongStateError("; ".join(verdict.reasons))


def test_a_node_that_was_removed_since_the_vote_counts_as_silent() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        collection = grants.Grants(
            machine,
            build.WHERE,
            own=("n0", "node0"),
            store=store,
            nodes=poll.Poll(store, client.Client(machine.network, None), own_uuid="n0"),
            claim=lambda: vote.Claim("node0", END, ["node0"], taking_over=True, by_majority=True),
            refusal=refusal,
            give_way=lambda answers: False,
            keep=lambda epoch, grants: None,
        )
        removed = vote.Answer("removed", master="node0", copy=END)
        with pytest.raises(errors.WrongStateError, match="1 of 2"):
            build.on(world, machine, collection.win([removed]))

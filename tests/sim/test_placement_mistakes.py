"""Plausible mistakes about nodes and node groups: each is found within 300 seeds, by the promise that it breaks.

Each test begins with a seed that is known to find its mistake; if that seed no longer does, because the program has
changed, the test tries 300 seeds.
"""

from collections.abc import Sequence

import pytest
from msgspec import structs
from tests.sim import first_seed
from tests.sim.first_seed import Patch

from gantry.model import cluster, instance
from gantry.operations import base
from gantry.operations.group import group as groups
from gantry.operations.move import multi_move, relocation
from gantry.operations.node import evacuate
from gantry.operations.placement import builtin_allocator
from gantry.sim import invariants, job_checks, placements
from gantry.state.objects import integrity
from gantry.state.objects import snapshot as states


def a_move_ignores_the_policy_of_the_target_group(patch: pytest.MonkeyPatch) -> None:
    def check(snapshot: states.Snapshot, vm: instance.Instance, node: cluster.Node) -> None:
        """Accept every node group."""

    patch.setattr(relocation, "check_policy", check)


def the_allocator_does_not_know_drained_and_offline_nodes(patch: pytest.MonkeyPatch) -> None:
    original = builtin_allocator.static_unfit

    def unfit(state: states.Snapshot, node: cluster.Node, need: builtin_allocator.Need) -> str:
        return original(state, structs.replace(node, offline=False, drained=False), need)

    patch.setattr(builtin_allocator, "static_unfit", unfit)


def an_evacuation_leaves_an_instance(patch: pytest.MonkeyPatch) -> None:
    original = multi_move.ordered

    def ordered(snapshot: states.Snapshot, uuids: Sequence[str]) -> list[instance.Instance]:
        return original(snapshot, uuids)[1:]

    patch.setattr(multi_move, "ordered", ordered)


def an_evacuation_leaves_the_copies(patch: pytest.MonkeyPatch) -> None:
    def target(snapshot: states.Snapshot, spread: multi_move.Spread, vm: instance.Instance) -> None:
        """Choose no node, and do not say so."""

    patch.setattr(evacuate, "_copy_target", target)


def a_group_is_removed_with_its_nodes(patch: pytest.MonkeyPatch) -> None:
    def plan(self: groups.GroupRemove, snapshot: states.Snapshot, facts: None) -> base.Plan:
        return base.Plan(lines=[], changes=[states.Delete("nodegroups", snapshot.group(self.op.group_name).uuid)])

    patch.setattr(groups.GroupRemove, "plan", plan)
    # The state refuses it too.
    patch.setattr(integrity, "check_unused", lambda before, after, change: None)


PLACEMENT_MISTAKES: dict[Patch, tuple[int, str]] = {
    a_move_ignores_the_policy_of_the_target_group: (2, placements.POLICY),
    the_allocator_does_not_know_drained_and_offline_nodes: (9, placements.TAKES),
    an_evacuation_leaves_an_instance: (1, job_checks.EMPTIED),
    an_evacuation_leaves_the_copies: (1, job_checks.EMPTIED),
    a_group_is_removed_with_its_nodes: (13, invariants.REFERENCES),
}
"""Each mistake, with the seed that is tried first, and the promise that it breaks."""


@pytest.mark.parametrize("mistake", PLACEMENT_MISTAKES, ids=lambda patch: patch.__name__)
@pytest.mark.slow
def test_a_mistake_is_found_by_the_promise_that_it_breaks(mistake: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    first, promise = PLACEMENT_MISTAKES[mistake]
    # Another promise may be broken too, and end a seed before this one is seen.
    assert promise in first_seed.broken_promises(mistake, first, monkeypatch)

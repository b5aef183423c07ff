from collections.abc import Callable

import pytest
from tests.jobs import lock_world
from tests.jobs.lock_world import ALL, BGL, A, B, LockSet, N, S, X

WHOLE_SETS: list[LockSet] = [{A: X}, {A: S}, {A: X, B: X}, {ALL: S}, {B: S, N: X}, {N: X, ALL: X}]
IN_TWO_STEPS: list[LockSet] = [{A: X}, {B: S}, {ALL: S}, {N: X}]
BIG_LOCK: list[LockSet] = [{BGL: X}, {A: X}, {A: S, N: X}, {}]


@pytest.mark.promise("cluster-38")
@pytest.mark.parametrize(
    ("menu", "steps", "pass_limit"),
    [
        pytest.param(WHOLE_SETS, 1, 0, id="whole sets"),
        pytest.param(WHOLE_SETS, 1, 1, id="whole sets, one pass"),
        pytest.param(BIG_LOCK, 1, 1, id="cluster lock"),
        pytest.param(IN_TWO_STEPS, 2, 0, id="in two steps"),
    ],
)
@pytest.mark.slow
def test_no_state_of_three_jobs_breaks_a_lock_or_locks_up(
    menu: list[LockSet], steps: int, pass_limit: int, figure: Callable[[str], None], request: pytest.FixtureRequest
) -> None:
    states = lock_world.explore(menu, steps=steps, pass_limit=pass_limit)
    figure(f"locks: {states} states explored, {request.node.callspec.id}")
    assert states > 100

"""A machine that joins and is then not heard of again."""

import asyncio

import pytest
from tests.operations import build

from gantry import errors
from gantry.operations.node import enroll
from gantry.rpc import calls, targets
from gantry.runtime import simulated

TARGET = targets.Target("u", "node4", "203.0.113.4", 1811)


class Silent(build.FakeNodes):
    """Joins, and then refuses or never answers."""

    def __init__(self, *, answers: bool) -> None:
        super().__init__()
        self.machines["203.0.113.4"] = build.Machine(joined=False, down=True)
        self.answers = answers

    async def call(self, target: targets.Target, call: calls.Call[build.Result]) -> build.Result:
        if not self.answers:
            await asyncio.Event().wait()
        return await super().call(target, call)


@pytest.mark.parametrize(
    ("answers", "message"), [(True, "node node4 cannot be reached"), (False, "node4 did not listen")]
)
def test_waiting_for_a_joined_node_times_out(answers: bool, message: str) -> None:
    with simulated.World(seed=1) as world:

        async def work() -> None:
            await enroll.join(
                Silent(answers=answers),
                build.Authority(),
                TARGET,
                token=build.TOKEN,
                cluster="c",
                now=build.NOW,
                masters=(),
                sleep=world.clock.sleep,
            )

        with pytest.raises(errors.RemoteError, match=message):
            world.run(work())
        assert enroll.JOIN_TIMEOUT_SECONDS <= world.clock.monotonic() < 2 * enroll.JOIN_TIMEOUT_SECONDS

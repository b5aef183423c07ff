"""A machine that joins: one that repeats it, and one that is not heard of again."""

import asyncio
from typing import cast

import pytest
from tests.operations import build

from gantry import errors, security
from gantry.operations.node import enroll
from gantry.rpc import calls, targets
from gantry.runtime import simulated

TARGET = targets.Target("u", "node4", "203.0.113.4", 1811)
REQUEST = enroll.Request(build.REQUEST, security.key_of_request(build.REQUEST.encode()))


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
                request=REQUEST,
                token=build.TOKEN,
                masters=(),
                sleep=world.clock.sleep,
            )

        with pytest.raises(errors.RemoteError, match=message):
            world.run(work())
        assert enroll.JOIN_TIMEOUT_SECONDS <= world.clock.monotonic() < 2 * enroll.JOIN_TIMEOUT_SECONDS


async def test_a_machine_that_has_joined_already_gets_another_certificate_for_the_same_key() -> None:
    nodes = build.FakeNodes()
    nodes.machines["203.0.113.4"] = build.Machine(joined=False)

    async def join() -> str:
        issued = await enroll.join(
            nodes,
            build.Authority(),
            TARGET,
            request=REQUEST,
            token=build.TOKEN,
            masters=(),
            sleep=asyncio.sleep,
        )
        assert issued.keys == (REQUEST.key,)
        return issued.serial

    serials = [await join(), await join()]
    assert len(set(serials)) == 2
    assert len(nodes.calls_of(calls.Enrol)) == 1
    assert nodes.machines["203.0.113.4"].key == REQUEST.key


async def test_a_request_that_is_none_is_refused() -> None:
    class Babbling(build.FakeNodes):
        async def join(self, target: targets.Target, token: str, call: calls.Call[build.Result]) -> build.Result:
            answer = await super().join(target, token, call)
            return cast("build.Result", "nonsense") if isinstance(call, calls.Join) else answer

    nodes = Babbling()
    nodes.machines["203.0.113.4"] = build.Machine(joined=False)
    with pytest.raises(errors.InvalidError, match="node node4 sent an invalid certificate request"):
        await enroll.certificate_request(nodes, TARGET, token=build.TOKEN, cluster="c", now=build.NOW)

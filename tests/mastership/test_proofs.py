"""The proofs of a master's epochs: when the master brings them to a node, and what it does if one is not enough."""

import asyncio

import msgspec
import pytest
from tests.rpc import test_client

from gantry import errors
from gantry.mastership import proofs
from gantry.rpc import calls, client
from gantry.runtime import http_interface, simulated

GRANT, RENEWED = (calls.Grant(certificate=text, signature="00") for text in ("first", "renewed"))
UNPROVEN = http_interface.Response(
    errors.UnprovenError.status, msgspec.json.encode((False, errors.UnprovenError("no proof").luxi_pair()))
)
SILENT = http_interface.Response(500, msgspec.json.encode((False, errors.RemoteError("no answer").luxi_pair())))
UNKNOWN_CALL = http_interface.Response(400, msgspec.json.encode((False, errors.ProtocolError("no call").luxi_pair())))


class Lab:
    """A master of epoch 7 that calls a node; ``replies`` are the node's answers, each the same from the last on."""

    def __init__(self, world: simulated.World, *replies: http_interface.Response) -> None:
        self.replies = list(replies)
        self.http = test_client.Http(self._answer)
        self.nodes = client.Client(test_client.Network(self.http), None)
        self.machine = world.machine("node1")
        self.renewals = 0
        self.proofs = proofs.Proofs(self.machine.clock, self.nodes, sign_again=self._sign_again)
        self.nodes.fence(lambda: 7, lambda _: None, permitted=test_client.permitted)

    def _answer(self, host: str) -> http_interface.Response:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    async def _sign_again(self, epoch: int) -> tuple[calls.Grant, ...]:
        self.renewals += 1
        return (RENEWED,)

    async def order(self) -> None:
        await self.nodes.call(test_client.TARGET, calls.TestDelay(duration=0))

    @property
    def brought(self) -> list[str]:
        """Return what was sent to the node: the certificates of proofs, and the names of other calls."""
        return [
            msgspec.json.decode(body, type=calls.ProveEpoch).grants[0].certificate if path == "/prove_epoch" else path
            for _, path, body in self.http.requests
        ]


def test_a_node_gets_the_proof_before_the_first_call_of_an_epoch_and_once_a_minute() -> None:
    with simulated.World(seed=1) as world:
        lab = Lab(world, test_client.ok(None))
        lab.proofs.keep(7, (GRANT,))

        async def scenario() -> None:
            await asyncio.gather(lab.order(), lab.order())
            await lab.nodes.call(test_client.TARGET, calls.ProveEpoch(epoch=7, grants=(GRANT,)))
            await lab.order()
            assert lab.brought.count("/test_delay") == 3
            assert lab.brought[0] == "first"
            assert lab.brought.count("first") == 2
            await lab.machine.clock.sleep(client.PROOF_SECONDS)
            await lab.order()
            assert lab.brought[-2:] == ["first", "/test_delay"]

        world.run(scenario())


def test_a_proof_that_is_not_enough_is_signed_again() -> None:
    with simulated.World(seed=1) as world:
        lab = Lab(world, UNPROVEN, test_client.ok(None))
        lab.proofs.keep(7, (GRANT,))
        world.run(lab.order())
        assert lab.brought == ["first", "renewed", "/test_delay"]
        assert lab.renewals == 1


def test_a_node_that_lost_the_proof_gets_it_again() -> None:
    with simulated.World(seed=1) as world:
        lab = Lab(world, test_client.ok(None), UNPROVEN, test_client.ok(None))
        lab.proofs.keep(7, (GRANT,))
        world.run(lab.order())
        assert lab.brought == ["first", "/test_delay", "first", "/test_delay"]


def test_a_node_that_does_not_answer_gets_no_call_before_the_proof() -> None:
    with simulated.World(seed=1) as world:
        lab = Lab(world, SILENT, SILENT, test_client.ok(None))
        lab.proofs.keep(7, (GRANT,))

        async def fails() -> None:
            for _ in range(2):
                with pytest.raises(errors.RemoteError):
                    await lab.order()
                await lab.machine.clock.sleep(0.1)

        world.run(fails())
        assert lab.brought == ["first", "first"]
        world.run(lab.order())
        assert lab.brought[2:] == ["first", "/test_delay"]


def test_calls_that_wait_for_the_answer_to_a_proof_share_its_failure() -> None:
    with simulated.World(seed=1) as world:
        lab = Lab(world, SILENT, test_client.ok(None))
        lab.proofs.keep(7, (GRANT,))

        async def fails() -> None:
            outcomes = await asyncio.gather(*(lab.order() for _ in range(3)), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [errors.RemoteError] * 3

        world.run(fails())
        assert lab.brought == ["first"]


def test_a_node_of_an_earlier_version_is_called_without_a_proof() -> None:
    with simulated.World(seed=1) as world:
        lab = Lab(world, UNKNOWN_CALL, test_client.ok(None))
        lab.proofs.keep(7, (GRANT,))
        world.run(lab.order())
        assert lab.brought == ["first", "/test_delay"]


def test_a_master_without_a_proof_waits_for_a_node_that_obeys_another_and_gives_up() -> None:
    with simulated.World(seed=1) as world:
        lab = Lab(world, *[UNPROVEN] * 4, test_client.ok(None))
        world.run(lab.order())
        assert lab.brought == ["/test_delay"] * 5

        async def refused() -> float:
            begin = lab.machine.clock.monotonic()
            lab.replies[:] = [UNPROVEN]
            try:
                await lab.order()
            except errors.UnprovenError:
                return lab.machine.clock.monotonic() - begin
            return 0.0

        assert calls.LEASE_SECONDS <= world.run(refused()) <= calls.LEASE_SECONDS + 2


def test_only_the_newest_proofs_are_kept() -> None:
    with simulated.World(seed=1) as world:
        lab = Lab(world, test_client.ok(None))
        for epoch in range(7, 8 + proofs.MOST_EPOCHS):
            lab.proofs.keep(epoch, (GRANT,))
        assert not world.run(lab.proofs.bring(test_client.TARGET, 7))
        assert world.run(lab.proofs.bring(test_client.TARGET, 8))

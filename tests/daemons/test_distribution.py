"""ssconf files on their way to the nodes."""

import asyncio
import logging
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from tests.operations import build
from tests.state import build as state_build

from gantry.daemons import distribution
from gantry.rpc import calls, client, targets
from gantry.runtime import simulated
from gantry.state import replication
from gantry.state import snapshot as states


class Nodes(client.Client):
    """Keeps what was sent; ``deaf`` nodes do not answer."""

    def __init__(self, machine: simulated.SimulatedRuntime) -> None:
        super().__init__(machine.network, None)
        self.sent: list[tuple[str, dict[str, str]]] = []
        self.deaf: set[str] = set()
        self.inner = build.FakeNodes()

    async def fan_out(
        self, where: Sequence[targets.Target], call: calls.Call[build.Result]
    ) -> list[targets.Answer[build.Result]]:
        values = call.values if isinstance(call, calls.WriteSsconf) else {}
        for target in where:
            self.inner.machine(target).down = target.name in self.deaf
            self.sent.append((target.name, values))
        return await self.inner.fan_out(where, call)


class Candidates(replication.Candidates):
    """Notes whom it is to keep copies on."""

    def set_targets(self, where: Sequence[targets.Target]) -> None:
        self.wanted = [target.name for target in where]


class House:
    def __init__(self, world: simulated.World) -> None:
        self.world = world
        machine = world.machine("node1")
        self.state = states.Snapshot().apply([states.Put(value) for value in build.FIRST], serial=1)
        self.nodes = Nodes(machine)
        self.candidates = Candidates(machine, replication.Nobody())
        self.last: list[tuple[str, dict[str, str]]] = []
        self.distribution = distribution.Distribution(self.nodes, self.candidates, lambda: self.state, epoch=lambda: 1)

    def start(self) -> list[str]:
        async def begin() -> None:
            self.distribution.start()

        self.world.run(begin())
        return self.settle()

    def settle(self, seconds: float = 1.0) -> list[str]:
        """Let time pass; return the names of the nodes that files were sent to since the last time."""
        self.world.run(asyncio.sleep(seconds))
        self.last, self.nodes.sent = self.nodes.sent, []
        return [name for name, _ in self.last]

    def put(self, *values: states.Stored) -> list[str]:
        changes = [states.Put(value) for value in values]
        before, self.state = self.state, self.state.apply(changes, serial=self.state.serial + 1)
        self.distribution.follow(before, self.state, changes)
        return self.settle()


@pytest.fixture
def house() -> Iterator[House]:
    with simulated.World(seed=1) as world:
        made = House(world)
        yield made
        world.run(made.distribution.close())


EVERYBODY = ["node1", "node2", "node3"]


def test_everybody_gets_the_files_at_the_start(house: House) -> None:
    assert house.start() == EVERYBODY
    assert house.settle(1000) == []


def test_files_are_sent_only_when_a_change_shows_in_them(house: House) -> None:
    house.start()
    assert house.put(state_build.queued(1)) == []
    assert house.put(msgspec.structs.replace(build.VM, tags=("blue",))) == []
    assert house.put(msgspec.structs.replace(build.NODES[1], accelerator="kvm")) == []
    assert house.put(msgspec.structs.replace(build.NODES[1], master_candidate=True)) == EVERYBODY
    assert house.put(msgspec.structs.replace(build.VM, uuid="i2", name="vm2", nics=())) == EVERYBODY
    house.put(msgspec.structs.replace(build.OWNER, tags=("red",)))
    assert {values["cluster_tags"] for _, values in house.last} == {"red\n"}


def test_changes_that_come_together_are_sent_together(house: House) -> None:
    house.start()
    for number in range(5):
        before = house.state
        changes = [states.Put(msgspec.structs.replace(build.SPARE, uuid=f"u{number}", name=f"net-{number}"))]
        house.state = before.apply(changes, serial=before.serial + 1)
        house.distribution.follow(before, house.state, changes)
    assert house.settle() == EVERYBODY
    assert all("net-4" in values["networks"] for _, values in house.last)


def test_nodes_that_are_offline_are_left_alone(house: House) -> None:
    house.start()
    assert house.put(msgspec.structs.replace(build.NODES[2], offline=True)) == ["node1", "node2"]


def test_a_node_that_did_not_answer_is_tried_again_until_it_does(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.nodes.deaf = {"node2"}
    with caplog.at_level(logging.WARNING):
        assert house.start() == EVERYBODY
        assert house.settle(2.5 * distribution.PAUSE) == ["node2", "node2"]
        assert len([record for record in caplog.records if "ssconf files were not written" in record.message]) == 1
    house.nodes.deaf.clear()
    assert house.settle(distribution.PAUSE) == ["node2"]
    assert house.settle(10 * distribution.PAUSE) == []


def test_a_change_reaches_everybody_while_somebody_lags(house: House) -> None:
    house.nodes.deaf = {"node2"}
    house.start()
    assert house.put(msgspec.structs.replace(build.NODES[2], master_candidate=True)) == EVERYBODY


@pytest.mark.promise("cluster-81")
def test_only_candidates_keep_copies_and_the_master_is_none_of_them(house: House) -> None:
    house.start()
    assert house.candidates.wanted == []
    house.put(*(msgspec.structs.replace(node, master_candidate=True) for node in build.NODES))
    assert house.candidates.wanted == ["node2", "node3"]
    house.put(msgspec.structs.replace(build.NODES[1], master_candidate=True, offline=True))
    assert house.candidates.wanted == ["node3"]
    before, house.state = house.state, states.Snapshot().apply([states.Put(one) for one in build.FIRST], serial=1)
    house.distribution.follow(before, house.state, ())
    assert house.candidates.wanted == []

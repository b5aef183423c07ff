"""ssconf files on their way to the nodes."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import msgspec
import pytest
from tests.operations import build
from tests.state import build as state_build

from gantry import errors
from gantry.mastership import distribution
from gantry.model import cluster_settings, network
from gantry.node.membership import ssconf as files
from gantry.rpc import calls, client, targets
from gantry.runtime import simulated
from gantry.state.candidates import candidate, replication
from gantry.state.journal import record
from gantry.state.objects import snapshot as states


class Nodes(client.Client):
    """Nodes that keep their files; ``sent`` and ``whole`` name the receivers.

    ``deaf`` nodes are unreachable, ``frozen`` nodes never answer.
    """

    def __init__(self, world: simulated.World) -> None:
        super().__init__(world.machine("node1").network, None)
        self.sent: list[str] = []
        self.whole: list[tuple[str, list[str]]] = []
        self.bytes = 0
        self.deaf: set[str] = set()
        self.frozen: set[str] = set()
        self.world = world

    def files(self, name: str) -> files.Files:
        return files.Files(self.world.machine(name).disk, state_build.WHERE)

    async def call(self, target: targets.Target, call: calls.Call[build.Result]) -> build.Result:
        self.bytes += len(msgspec.json.encode(call))
        result: object = None
        if isinstance(call, calls.UpdateSsconf):
            self.sent.append(target.name)
        if target.name in self.frozen:
            await asyncio.sleep(call.LIMIT)
            raise errors.RemoteError(f"node {target.name} did not answer")
        if target.name in self.deaf:
            raise errors.RemoteError(f"node {target.name} cannot be reached")
        match call:
            case calls.UpdateSsconf():
                result = await self.files(target.name).update(call)
            case calls.WriteSsconf():
                self.whole.append((target.name, sorted(call.values)))
                await self.files(target.name).write(call.values)
        return cast("build.Result", result)


class Candidates(replication.Candidates):
    """Records the nodes that are to keep copies."""

    def set_targets(
        self, candidates: Sequence[targets.Target], *, policy: cluster_settings.Replication, serial: int = 0
    ) -> None:
        self.wanted = [target.name for target in candidates]


class DistributingMaster:
    def __init__(self, world: simulated.World) -> None:
        self.world = world
        machine = world.machine("node1")
        self.state = states.Snapshot().apply([states.Put(value) for value in build.FIRST], serial=1)
        self.nodes = Nodes(world)
        self.candidates = Candidates(machine, candidate.NoCaller())
        self.distribution = distribution.Distribution(self.nodes, self.candidates, lambda: self.state)

    def start(self) -> list[str]:
        async def begin() -> None:
            self.distribution.start(self.state)

        self.world.run(begin())
        return self.settle()

    def settle(self, seconds: float = 1.0) -> list[str]:
        """Let time pass; return the names of the nodes that files were sent to since the last time."""
        self.world.run(asyncio.sleep(seconds))
        sent, self.nodes.sent, self.nodes.whole = self.nodes.sent, [], []
        return sent

    def read(self, key: str) -> set[str]:
        return {self.nodes.files(name).read(key) for name in EVERYBODY}

    def put(self, *values: states.Stored) -> list[str]:
        changes = [states.Put(value) for value in values]
        before, self.state = self.state, self.state.apply(changes, serial=self.state.serial + 1)
        self.acknowledge(before, changes)
        return self.settle()

    def acknowledge(self, before: states.Snapshot, changes: Sequence[states.Change]) -> None:
        self.distribution.observe(before, self.state, changes)
        cause = record.Cause(reason="test")
        self.distribution.follow(
            record.Record(serial=self.state.serial, time=0.0, epoch=1, cause=cause, changes=tuple(changes)), before
        )


@pytest.fixture
def master() -> Iterator[DistributingMaster]:
    with simulated.World(seed=1) as world:
        master = DistributingMaster(world)
        yield master
        world.run(master.distribution.close())


EVERYBODY = ["node1", "node2", "node3"]


def test_everybody_gets_the_files_at_the_start(master: DistributingMaster) -> None:
    assert master.start() == EVERYBODY
    assert master.settle(1000) == []


def test_files_are_sent_only_when_a_change_shows_in_them(master: DistributingMaster) -> None:
    master.start()
    assert master.put(state_build.queued(1)) == []
    assert master.put(msgspec.structs.replace(build.VM, tags=("blue",))) == []
    assert master.put(msgspec.structs.replace(build.NODES[1], accelerator="kvm")) == []
    assert master.put(msgspec.structs.replace(build.NODES[1], master_candidate=True)) == EVERYBODY
    assert master.put(msgspec.structs.replace(build.VM, uuid="i2", name="vm2", nics=())) == EVERYBODY
    master.put(msgspec.structs.replace(build.OWNER, tags=("red",)))
    assert master.read("cluster_tags") == {"red"}


def test_changes_that_come_together_are_sent_together(master: DistributingMaster) -> None:
    master.start()
    for number in range(5):
        before = master.state
        changes = [states.Put(msgspec.structs.replace(build.SPARE, uuid=f"u{number}", name=f"net-{number}"))]
        master.state = before.apply(changes, serial=before.serial + 1)
        master.acknowledge(before, changes)
    assert master.settle() == EVERYBODY
    assert all("net-4" in text for text in master.read("networks"))


def test_nodes_that_are_offline_are_left_alone(master: DistributingMaster) -> None:
    master.start()
    assert master.put(msgspec.structs.replace(build.NODES[2], offline=True)) == ["node1", "node2"]


def test_a_node_that_joins_gets_the_files_when_it_has_joined(master: DistributingMaster) -> None:
    master.start()
    node3 = msgspec.structs.replace(master.state.node("node3"), joining=True)
    assert master.put(node3) == ["node1", "node2"]
    assert master.put(msgspec.structs.replace(node3, joining=False)) == EVERYBODY


def test_a_node_that_did_not_answer_is_tried_again_until_it_does(
    master: DistributingMaster, caplog: pytest.LogCaptureFixture
) -> None:
    master.nodes.deaf = {"node2"}
    with caplog.at_level(logging.WARNING):
        assert master.start() == EVERYBODY
        assert master.settle(2.5 * distribution.RETRY_SECONDS) == ["node2", "node2"]
        assert len([record for record in caplog.records if "could not write ssconf files" in record.message]) == 1
    master.nodes.deaf.clear()
    assert master.settle(distribution.RETRY_SECONDS) == ["node2"]
    assert master.settle(10 * distribution.RETRY_SECONDS) == []


def test_a_change_reaches_everybody_while_somebody_lags(master: DistributingMaster) -> None:
    master.nodes.deaf = {"node2"}
    master.start()
    assert sorted(master.put(msgspec.structs.replace(build.NODES[2], master_candidate=True))) == EVERYBODY


@pytest.mark.promise("cluster-81")
def test_only_candidates_keep_copies_and_the_master_is_none_of_them(master: DistributingMaster) -> None:
    master.start()
    assert master.candidates.wanted == []
    master.put(*(msgspec.structs.replace(node, master_candidate=True) for node in build.NODES))
    assert master.candidates.wanted == ["node2", "node3"]
    master.put(msgspec.structs.replace(build.NODES[1], master_candidate=True, offline=True))
    assert master.candidates.wanted == ["node3"]
    before, master.state = (
        master.state,
        states.Snapshot().apply([states.Put(change) for change in build.FIRST], serial=1),
    )
    master.distribution.observe(before, master.state, ())
    assert master.candidates.wanted == []


def test_a_change_reaches_its_candidates_at_once_and_the_nodes_when_it_is_acknowledged(
    master: DistributingMaster,
) -> None:
    master.start()
    change = states.Put(msgspec.structs.replace(build.NODES[1], master_candidate=True))
    current = master.state.apply([change], serial=master.state.serial + 1)
    master.distribution.observe(master.state, current, [change])
    assert master.settle(10) == []
    assert master.candidates.wanted == ["node2"]
    master.distribution.observe(current, master.state, ())
    assert master.settle(10 * distribution.RETRY_SECONDS) == []
    assert master.candidates.wanted == []
    assert master.read("master_candidates") == {"node1"}
    assert master.put(change.value) == EVERYBODY
    assert master.read("master_candidates") == {"node1\nnode2"}


def names(count: int) -> list[states.Stored]:
    return [
        msgspec.structs.replace(build.VM, uuid=f"m{number}", name=f"many-{number:05}.example.com", nics=(), disks=())
        for number in range(count)
    ]


def test_a_new_instance_costs_each_node_one_short_message_however_many_there_are(master: DistributingMaster) -> None:
    costs = []
    master.start()
    for count in (10, 5000):
        master.put(*names(count))
        master.settle(10)
        master.nodes.bytes = 0
        assert master.put(msgspec.structs.replace(build.VM, uuid="new", name=f"new-{count}", nics=())) == EVERYBODY
        assert all(f"new-{count}" in text for text in master.read("instance_list"))
        costs.append(master.nodes.bytes)
    assert costs[1] < costs[0] * 1.1


def _networks(count: int) -> list[network.Network]:
    return [network.Network(uuid=f"many-{number:05}", name=f"many-{number:05}") for number in range(count)]


@pytest.mark.parametrize(("key", "many"), [("instance_list", names), ("networks", _networks)])
def test_names_wait_for_others_to_go_with_them_and_for_nothing_else(
    master: DistributingMaster, key: str, many: Callable[[int], Sequence[states.Stored]]
) -> None:
    master.start()
    receivers = []
    for number, value in enumerate(many(40)):
        master.state, before = master.state.apply([states.Put(value)], serial=master.state.serial + 1), master.state
        master.acknowledge(before, [states.Put(value)])
        receivers += master.settle(0.01)
        if number == 20:
            receivers += master.put(msgspec.structs.replace(build.OWNER, tags=("red",)))
    receivers += master.settle(10)
    rounds = 40 * 0.01 / (distribution.DELAY_SECONDS_PER_NODE * 3) + 3
    assert len(receivers) <= 3 * rounds
    assert all("many-00039" in text for text in master.read(key))


def test_a_node_whose_files_are_others_gets_those_whole(master: DistributingMaster) -> None:
    master.start()
    master.world.run(master.nodes.files("node2").write({"node_list": "nonsense"}))
    master.put(msgspec.structs.replace(build.NODES[2], drained=True))
    assert master.read("node_list") == {"node1\nnode2\nnode3"}


def test_a_frozen_node_delays_the_others_once_and_then_no_more(master: DistributingMaster) -> None:
    master.start()
    master.nodes.frozen = {"node2"}
    master.put(msgspec.structs.replace(build.NODES[2], master_candidate=True))
    master.settle(6)
    for candidate_flag in (False, True):
        sent = master.put(msgspec.structs.replace(build.NODES[2], master_candidate=candidate_flag))
        assert {"node1", "node3"} <= set(sent)
        files = [master.nodes.files(name).read("master_candidates") for name in EVERYBODY]
        assert files[0] == files[2]
        assert ("node3" in files[0]) is candidate_flag
        assert "node3" not in files[1]
    master.nodes.frozen.clear()
    master.settle(100)
    assert len(master.read("master_candidates")) == 1

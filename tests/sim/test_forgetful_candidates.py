"""Candidates that forget what they acknowledged, and clocks that are wrong: nothing acknowledged is lost."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.sim import broken_nodes
from tests.sim.broken_nodes import isolate, tag

from gantry import errors
from gantry.sim import cluster

FILES = ("epoch", "promise", "lease", "given-up", "journal-end")
CONTENTS = {"empty": b"", "bytes": bytes(range(256)), "digits": b"9" * 4002, "folder": None}
"""What a broken disk or a person leaves in place of a file."""


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=5) as simulated:
        simulated.run(simulated.build())
        simulated.run(simulated.world.clock.sleep(10))
        yield simulated


async def forget(lab: cluster.SimulatedCluster, name: str, how: str) -> None:
    """Let a machine lose the end of its copy, its sections or the whole copy, and start it again."""
    disk, folder = lab.world.machine(name).disk, cluster.FOLDERS.journal
    if how == "tail":
        lab.crash(name)
        paths = [f"{folder}/{file}" for file in disk.stable_names(folder)]
        for path in sorted(path for path in paths if disk.stable(path))[-1:]:
            data = disk.stable(path) or b""
            disk.lose_tail(path, data[:-1].rfind(b"\n") + 1)
    else:
        lab.kill(name)
        for path in [cluster.FOLDERS.config, *(f"{folder}/{file}" for file in disk.names(folder))]:
            if how == "copy" or path != cluster.FOLDERS.config:
                await disk.remove(path)
    await lab.start_node(name)


@pytest.mark.parametrize("how", ["tail", "sections", "copy"])
def test_a_candidate_that_forgot_confirms_no_master_that_lacks_what_it_acknowledged(
    lab: cluster.SimulatedCluster, how: str
) -> None:
    """Node 3 lacks the change that nodes 1 and 2 acknowledged; node 2 forgets it, and node 1 is down."""

    async def scenario() -> None:
        isolate(lab, "node3")
        await lab.done(tag("acknowledged"))
        await lab.world.clock.sleep(1)
        lab.crash("node1")
        await forget(lab, "node2", how)
        isolate(lab, "node3", cut=False)
        with pytest.raises(errors.WrongStateError, match=r"node2 gave up a newer copy, epoch 1 serial \d+, here it is"):
            await lab.failover("node3")
        await lab.restart("node1")
        assert lab.masters() == ["node1"]
        assert await broken_nodes.tags(lab) == ["acknowledged"]
        await lab.done(tag("later"))
        await lab.world.clock.sleep(60)
        lab.crash("node1")
        await lab.failover("node3")
        assert await broken_nodes.tags(lab) == ["acknowledged", "later"]

    lab.run(scenario())


def test_a_candidate_that_forgets_at_each_start_costs_nothing_that_the_others_hold(
    lab: cluster.SimulatedCluster,
) -> None:
    async def scenario() -> None:
        expected = []
        for number, leader in enumerate(["node2", "node1", "node2", "node1"]):
            expected.append(f"change-{number}")
            await lab.done(tag(expected[-1]))
            await forget(lab, "node3", "copy" if number % 2 else "tail")
            await lab.done(tag(f"forgotten-{number}"))
            expected.append(f"forgotten-{number}")
            await lab.failover(leader)
            assert await broken_nodes.tags(lab) == sorted(expected)

    lab.run(scenario())


def test_a_candidate_that_forgot_does_not_become_the_master_itself(lab: cluster.SimulatedCluster) -> None:
    async def scenario() -> None:
        isolate(lab, "node3")
        await lab.done(tag("acknowledged"))
        await lab.world.clock.sleep(1)
        lab.crash("node1")
        await forget(lab, "node2", "tail")
        isolate(lab, "node3", cut=False)
        with pytest.raises((errors.ConfigurationError, errors.WrongStateError)):
            await lab.failover("node2")
        await lab.restart("node1")
        assert await broken_nodes.tags(lab) == ["acknowledged"]

    lab.run(scenario())


@pytest.mark.parametrize("name", ["node1", "node2", "node3"])
@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_no_two_masters_have_the_lease_when_one_clock_runs_at_another_speed(
    lab: cluster.SimulatedCluster, name: str, speed: float
) -> None:
    async def scenario() -> None:
        lab.world.machine(name).clock.set_speed(speed)
        await lab.world.clock.sleep(20)
        old = lab.daemons["node1"]
        isolate(lab, "node1")
        claim = asyncio.ensure_future(lab.failover("node2"))
        while not claim.done():
            assert not old.lease.is_held() or "node2" not in lab.masters()
            await lab.world.clock.sleep(0.01)
        await claim
        assert not old.lease.is_held()
        await lab.done(tag("of-node2"))
        isolate(lab, "node1", cut=False)
        await lab.world.clock.sleep(60)
        assert lab.masters() == ["node2"]

    lab.run(scenario())


@pytest.mark.parametrize("name", ["node1", "node2", "node3"])
@pytest.mark.parametrize("seconds", [-86400.0, 86400.0])
def test_a_date_that_is_set_by_a_day_changes_nothing(lab: cluster.SimulatedCluster, name: str, seconds: float) -> None:
    async def scenario() -> None:
        await lab.done(tag("before"))
        lab.world.machine(name).clock.offset = seconds
        await lab.done(tag("after"))
        old = lab.daemons["node1"]
        assert old.lease.is_held()
        isolate(lab, "node1")
        began = lab.world.clock.monotonic()
        await lab.failover("node2")
        assert 5 < lab.world.clock.monotonic() - began < 20
        assert not old.lease.is_held()
        assert await broken_nodes.tags(lab) == ["after", "before"]
        await lab.done(tag("last"))

    lab.run(scenario())


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_file_of_one_node_keeps_neither_the_master_nor_its_successor_from_their_work(
    lab: cluster.SimulatedCluster, file: str, content: bytes | None
) -> None:
    async def scenario() -> None:
        disk, path = lab.world.machine("node3").disk, f"{cluster.FOLDERS.lib}/{file}"
        lab.kill("node3")
        if disk.exists(path):
            await disk.remove(path)
        await (disk.make_directory(path) if content is None else disk.write(path, content))
        await lab.start_node("node3")
        await lab.done(tag("before"))
        await lab.stop_master("node1")
        await lab.start_master("node1")
        await lab.failover("node2")
        await lab.done(tag("after"))
        assert lab.masters() == ["node2"]

    lab.run(scenario())


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("file", FILES)
def test_a_master_with_a_damaged_file_starts_or_says_which_file_it_is(
    lab: cluster.SimulatedCluster, file: str, content: bytes | None
) -> None:
    async def scenario() -> None:
        disk, path = lab.world.machine("node1").disk, f"{cluster.FOLDERS.lib}/{file}"
        await lab.done(tag("before"))
        lab.kill("node1")
        if disk.exists(path):
            await disk.remove(path)
        await (disk.make_directory(path) if content is None else disk.write(path, content))
        await lab.start_node("node1")
        refusal = ""
        try:
            await lab.start_master("node1")
        except errors.GantryError as error:
            refusal = str(error)
            await lab.failover("node2")
        assert not refusal or path in refusal
        await lab.done(tag("after"))
        assert await broken_nodes.tags(lab) == ["after", "before"]

    lab.run(scenario())

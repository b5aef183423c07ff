"""The refresh of candidates while changes are committed, and what a candidate then knows of the past."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from tests.state import build
from tests.state.candidates import test_replication

from gantry.runtime import simulated
from gantry.state.candidates import candidate, copies
from gantry.state.files import checkpoint
from gantry.state.journal import backlog, history, owners
from gantry.state.objects import snapshot as states
from gantry.state.store import events, transaction

Cables, Master, wait = test_replication.Cables, test_replication.Master, test_replication.wait


def position(machine: simulated.SimulatedRuntime) -> int:
    """Return the serial of a candidate's checkpoint."""
    return checkpoint.decode(machine.disk.read(build.WHERE.config), path="").position.serial


def test_changes_are_acknowledged_by_candidates_while_they_are_refreshed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "PART", 500)
    with simulated.World(seed=1) as world:
        cables = Cables(world, 3)
        cables.part_seconds = 3.0
        master = Master(world, cables, limits=transaction.Limits(records=30))
        master.put(1)
        wait(world, 1)
        before = {uuid: position(machine) for uuid, machine in cables.machines.items()}
        ends: dict[str, str] = {}
        honest = master.candidates.moved

        def moved(member: candidate.Candidate) -> None:
            ends[member.target.uuid] = member.digest or ""
            honest(member)

        monkeypatch.setattr(master.candidates, "moved", moved)
        during = 0
        for number in range(2, 500):
            seconds = master.put(number)
            during += bool(cables.refreshing)
            # A commit waits for appends, not for parts, and never for the timeout that counts the master alone.
            assert seconds < 0.2
            assert list(ends.values()).count(master.store.position.digest) >= 2
            assert master.candidates.lagging() == []
            wait(world, 0.5)
        assert during > 200
        assert cables.most_refreshing == 1
        assert all(position(machine) > before[uuid] for uuid, machine in cables.machines.items())


def test_a_candidate_that_is_behind_is_replaced_before_others_are_refreshed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate, "BACKLOG", 1)
    monkeypatch.setattr(backlog, "LIMIT", 0)
    with simulated.World(seed=1) as world:
        cables = Cables(world, 3)
        master = Master(world, cables, limits=transaction.Limits(records=10))
        master.put(1)
        wait(world, 1)
        cables.down.add("n3")
        cables.part_seconds = 10.0
        for number in range(2, 13):
            master.put(number)
        cables.down.clear()
        # One refresh is running and one is due: the candidate that is behind does not wait for either.
        assert cables.refreshing
        wait(world, 8)
        assert master.candidates.lagging() == []
        wait(world, 60)
        assert all(position(machine) > 2 for machine in cables.machines.values())


def test_a_candidate_gets_what_it_lacks_though_a_section_vanished_while_it_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts: list[float] = []

    def vanish(*_: object, **__: object) -> Iterator[backlog.Lines]:
        attempts.append(world.clock.monotonic())
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(candidate, "BACKLOG", 1)
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        master = Master(world, cables)
        master.put(1)
        wait(world, 1)
        cables.down.add("n1")
        for number in range(2, 6):
            master.put(number)
        cables.down.clear()
        with monkeypatch.context() as patch:
            patch.setattr(backlog, "read", vanish)
            wait(world, 60)
        assert len(attempts) > 1
        wait(world, 60)
        assert master.candidates.lagging() == []


def test_a_candidate_whose_copy_was_replaced_is_not_sent_an_older_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate, "BACKLOG", 1)
    monkeypatch.setattr(backlog, "LIMIT", 0)
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        cables.down.add("n1")
        master = Master(world, cables, limits=transaction.Limits(records=10))
        for number in range(1, 14):
            master.put(number)
        assert master.candidates.checkpoint is not None
        cables.down.clear()
        wait(world, 60)
        assert master.candidates.lagging() == []
        assert cables.count("CheckpointStore") == 1


def test_a_failed_refresh_leaves_the_candidate_as_it_was(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables, limits=transaction.Limits(records=10))
        master.put(1)
        wait(world, 1)
        broken = cables.machines["n1"].disk
        broken.broken = {build.WHERE.incoming: 1.0}
        before = position(cables.machines["n1"])
        for number in range(2, 16):
            assert master.put(number) < 0.2
        wait(world, 1)
        assert "node1 keeps its old checkpoint" in caplog.text
        assert master.candidates.lagging() == []
        assert position(cables.machines["n1"]) == before
        broken.broken = {}
        for number in range(16, 30):
            master.put(number)
        wait(world, 1)
        assert position(cables.machines["n1"]) > before
        world.crash("node0")
        assert len(cables.copy_of("n1").instances) == 29


def test_after_a_change_of_master_the_past_goes_back_as_far_as_before() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables, limits=transaction.Limits(records=12))
        wait(world, 1)

        async def live() -> None:
            store = master.store
            for number in range(1, 60):
                await store.commit(
                    build.put(build.vm(number, ip=f"10.0.0.{number}"), build.queued(number)), build.CAUSE
                )
                if number > 3:
                    await store.commit([states.Delete("instances", f"i{number - 3}")], build.CAUSE)
                    await store.commit(build.put(build.ended(build.queued(number - 3))), build.CAUSE)
                    await store.commit([states.Delete("jobs", str(number - 3))], build.CAUSE)
                await master.machine.clock.sleep(0.2)
            await master.machine.clock.sleep(3)

        build.on(world, master.machine, live())
        machine = cables.machines["n1"]
        assert cables.count("CheckpointStore", of="n1") > 10
        assert build.on(world, machine, cables.replicas["n1"].status()).given_up == (0, 0)

        before = build.on(world, master.machine, past(master.machine, master.store))
        world.crash("node0")
        successor = build.opened(world, machine)
        assert build.on(world, machine, past(machine, successor)) == before
        assert len(before.holdings) == 59
        assert len(before.stream) > 200
        assert before.archived == list(range(1, 57))


class Past(NamedTuple):
    holdings: tuple[owners.Holding, ...]
    stream: list[events.Event]
    archived: list[int]
    problem: str


async def past(machine: simulated.SimulatedRuntime, store: transaction.Store) -> Past:
    """Return what users can ask about the past after the first record."""
    book = history.History(machine, build.WHERE, lambda: store.durable)
    stream = await events.Events(store, book).after(1, limit=1000, timeout=0)
    holdings = (await book.addresses("net1", limit=1000)).holdings
    return Past(holdings, stream, sorted(store.archive.numbers()), (await book.check()).problem)


def test_a_candidate_that_missed_an_edit_of_the_configuration_gets_the_whole_state() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        first = Master(world, cables)
        for number in (1, 2):
            first.put(number)
        cables.down.add("n1")
        first.put(3)
        build.on(world, first.machine, first.store.close())
        written = first.machine.disk.read(build.WHERE.config)
        lines = [line for line in build.marked(written).splitlines(keepends=True) if not line.startswith(b'"i1"')]
        build.on(world, first.machine, first.machine.disk.write(build.WHERE.config, b"".join(lines)))
        second = Master(world, cables)
        second.put(4)
        build.on(world, second.machine, second.store.close())
        third = Master(world, cables)
        cables.down.clear()
        third.put(5)
        wait(world, 60)
        world.crash("node0")
        assert set(cables.copy_of("n1").instances) == {"i2", "i3", "i4", "i5"}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_candidate_that_was_away_keeps_its_history(monkeypatch: pytest.MonkeyPatch, *, restarted: bool) -> None:
    monkeypatch.setattr(candidate, "BACKLOG", 1)
    monkeypatch.setattr(backlog, "BATCH", 2000)
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        limits = transaction.Limits(records=7)
        master = Master(world, cables, limits=limits)
        master.put(1)
        wait(world, 1)
        cables.down.add("n1")
        for number in range(2, 40):
            master.put(number)
        if restarted:
            build.on(world, master.machine, master.store.close())
            master = Master(world, cables, limits=limits)
        cables.down.clear()
        wait(world, 60)
        master.put(40)
        assert cables.count("CheckpointStore", of="n1") <= 2
        machine = cables.machines["n1"]
        assert [entry.serial for entry in history.records(machine.disk, build.WHERE.journal)] == list(range(2, 42))
        assert set(build.sections(machine)) <= set(build.sections(master.machine))
        assert len(build.sections(machine)) > 4
        world.crash("node0")
        assert len(cables.copy_of("n1").instances) == 40

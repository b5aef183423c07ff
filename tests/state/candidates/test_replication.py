import asyncio
import logging
from typing import cast

import msgspec
import pytest
from tests.state import build

from gantry import errors
from gantry.model import cluster_settings
from gantry.node.membership import fence, replica, ssconf
from gantry.rpc import calls, targets
from gantry.runtime import simulated
from gantry.state.candidates import candidate, copies, needed_copies, replication
from gantry.state.files import checkpoint
from gantry.state.journal import backlog, history
from gantry.state.objects import snapshot as states
from gantry.state.start import creation
from gantry.state.store import transaction

SEED, MAJORITY, ALL = (
    cluster_settings.Replication.SEED,
    cluster_settings.Replication.MAJORITY,
    cluster_settings.Replication.ALL,
)


class Cables:
    """Carries calls to the replicas of simulated machines; each may be down, or slow by some seconds."""

    def __init__(self, world: simulated.World, count: int) -> None:
        self.world = world
        self.machines = {f"n{number}": world.machine(f"node{number}") for number in range(1, count + 1)}
        self.replicas = {uuid: self.fresh(uuid) for uuid in self.machines}
        self.down: set[str] = set()
        self.slow: dict[str, float] = {}
        # How long the part of a refresh takes, and which candidates are receiving one.
        self.part_seconds = 0.001
        self.refreshing: set[str] = set()
        self.most_refreshing = 0
        self.calls: list[tuple[str, str]] = []
        self.addresses: list[str] = []
        self.longest_frame = 0

    def fresh(self, uuid: str) -> replica.Replica:
        """Return a replica that knows nothing, as after a restart of its daemon."""
        machine = self.machines[uuid]
        files = ssconf.Files(machine.disk, build.WHERE)
        barrier = fence.Fence(machine, build.WHERE, files=files)
        return replica.Replica(machine, build.WHERE, files=files, barrier=barrier)

    @property
    def where(self) -> list[targets.Target]:
        return [targets.Target(uuid, machine.host, machine.host, 1811) for uuid, machine in self.machines.items()]

    async def call(self, target: targets.Target, call: calls.Call[candidate.Result]) -> candidate.Result:
        self.calls.append((target.uuid, type(call).__name__))
        self.addresses.append(target.address)
        if isinstance(call, calls.JournalAppend):
            self.longest_frame = max(self.longest_frame, len(call.frame))
        if target.uuid in self.down:
            raise errors.RemoteError(f"node {target.name} cannot be reached")
        await asyncio.sleep(self.slow.get(target.uuid, 0.001))
        if isinstance(call, calls.CheckpointStore) and not call.replace:
            await self._delay_part(target.uuid, call)
        copy = self.replicas[target.uuid]
        if isinstance(call, calls.ReplicaPrune):
            return cast("candidate.Result", await copy.prune(call))
        match call:
            case calls.JournalAppend():
                state = await copy.append(call)
            case calls.CheckpointStore():
                state = await copy.store(call)
            case calls.JournalFetch():
                return cast("candidate.Result", await copy.following(call))
            case _:
                state = await copy.status()
        return cast("candidate.Result", state)

    async def _delay_part(self, uuid: str, call: calls.CheckpointStore) -> None:
        self.refreshing.add(uuid)
        self.most_refreshing = max(self.most_refreshing, len(self.refreshing))
        await asyncio.sleep(self.part_seconds)
        if call.last:
            self.refreshing.discard(uuid)

    def count(self, name: str, *, of: str = "") -> int:
        return sum(call == name and of in ("", uuid) for uuid, call in self.calls)

    def copy_of(self, uuid: str) -> states.Snapshot:
        """Open a candidate's folder as it is."""
        return build.opened(self.world, self.machines[uuid]).snapshot


class Master:
    """A store on ``node0`` with candidates behind cables."""

    def __init__(
        self,
        world: simulated.World,
        cables: Cables,
        policy: cluster_settings.Replication = SEED,
        *,
        limits: transaction.Limits | None = None,
    ) -> None:
        self.world = world
        self.policy = policy
        self.machine = world.machine("node0")
        self._limits = limits
        if not self.machine.disk.exists(build.WHERE.config):
            build.on(world, self.machine, creation.create(self.machine, build.WHERE, build.FIRST))
        self.candidates = replication.Candidates(self.machine, cables)
        self.store = build.on(world, self.machine, self._open(cables))

    async def _open(self, cables: Cables) -> transaction.Store:
        store = await transaction.Store.open(self.machine, build.WHERE, candidates=self.candidates, limits=self._limits)
        self.candidates.set_targets(cables.where, policy=self.policy)
        return store

    def put(self, number: int) -> float:
        """Commit an instance; return how many seconds it took."""
        begin = self.world.clock.monotonic()
        build.on(self.world, self.machine, self.store.commit(build.put(build.vm(number)), build.CAUSE))
        return self.world.clock.monotonic() - begin


def wait(world: simulated.World, seconds: float) -> None:
    world.run(asyncio.sleep(seconds))


def problems(caplog: pytest.LogCaptureFixture) -> list[int]:
    """Return the levels of what the product itself reported; asyncio may report the task of an earlier test."""
    return [
        entry.levelno
        for entry in caplog.records
        if entry.levelno >= logging.WARNING and entry.name.startswith("gantry.")
    ]


def test_a_commit_is_answered_when_a_majority_has_it_and_each_copy_opens_as_it_is() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables)
        build.on(world, master.machine, master.store.commit(build.put(build.queued(1)), build.CAUSE))
        for number in range(1, 6):
            master.put(number)
        wait(world, 1)
        world.crash("node0")
        for uuid in ("n1", "n2"):
            assert build.content(cables.copy_of(uuid)) == build.content(master.store.snapshot)
        assert cables.count("CheckpointStore") == 2


def test_what_was_acknowledged_is_on_a_candidate_at_that_moment() -> None:
    for seed in range(10):
        with simulated.World(seed=seed) as world:
            cables = Cables(world, 2)
            master = Master(world, cables)
            for number in range(1, 4):
                master.put(number)
            world.crash("node0")
            for name in ("node1", "node2"):
                world.crash(name)
            reached = [build.on(world, m, cables.replicas[u].status()).serial for u, m in cables.machines.items()]
            assert max(reached) == master.store.durable_serial == 4


def test_one_lost_candidate_of_two_costs_no_time_and_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        cables.down.add("n2")
        master = Master(world, cables)
        for number in range(1, 6):
            assert master.put(number) < replication.TIMEOUT
        assert problems(caplog) == [logging.WARNING]
        assert "master candidate node2 does not hold the newest changes: node node2 cannot be reached" in caplog.text


@pytest.mark.promise("cluster-59")
def test_only_the_loss_of_more_than_half_is_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 4)
        master = Master(world, cables)
        master.put(1)
        cables.down = {"n1", "n2"}
        master.put(2)
        wait(world, 1)
        assert problems(caplog) == [logging.WARNING, logging.WARNING]
        cables.down.add("n3")
        master.put(3)
        wait(world, 1)
        assert problems(caplog) == [logging.WARNING] * 3 + [logging.ERROR]
        assert "more than half of the master candidates" in caplog.text
        assert "(node1, node2, node3)" in caplog.text


def test_one_slow_candidate_of_two_costs_no_time_and_gets_everything_in_the_end() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables)
        master.put(1)
        wait(world, 1)
        cables.slow["n2"] = 3.0
        for number in range(2, 30):
            assert master.put(number) < 1
        wait(world, 120)
        assert cables.count("CheckpointStore", of="n2") == 1
        world.crash("node0")
        assert len(cables.copy_of("n2").instances) == 29


def test_a_change_waits_for_the_only_candidate_until_its_connection_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(target: targets.Target, call: calls.Call[object]) -> object:
        await asyncio.sleep(0.3)
        raise errors.RemoteError(f"node {target.name} cannot be reached")

    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        master = Master(world, cables)
        master.put(1)
        wait(world, 1)
        monkeypatch.setattr(cables, "call", fail)
        assert master.put(2) == pytest.approx(0.3, abs=0.1)
        assert master.candidates.lagging() == ["node1"]


def test_a_silent_majority_is_waited_for_once_and_not_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables)
        master.put(1)
        cables.slow = dict.fromkeys(cables.machines, 600.0)
        assert replication.TIMEOUT <= master.put(2) < replication.TIMEOUT + 1
        assert master.put(3) < 1
        assert "no answer within 5 s" in caplog.text
        assert logging.ERROR in problems(caplog)


@pytest.mark.parametrize("answer", ["old", "random", "zero", "future"])
def test_a_candidate_that_answers_nonsense_is_left_alone_and_costs_the_others_nothing(
    answer: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        honest = cables.call
        old = calls.CandidateState(serial=1, digest="0" * 64, epoch=0, job=0, master="node1")

        async def lie(target: targets.Target, call: calls.Call[candidate.Result]) -> candidate.Result:
            state = await honest(target, call)
            if target.uuid != "n2" or not isinstance(state, calls.CandidateState):
                return state
            lies = {
                "old": old,
                "random": msgspec.structs.replace(old, digest=f"{len(cables.calls):064}", serial=len(cables.calls)),
                "zero": calls.CandidateState(serial=0, digest="", epoch=0, job=0, master=""),
                "future": msgspec.structs.replace(old, serial=1 << 62, epoch=1 << 62, job=1 << 62),
            }
            return cast("candidate.Result", lies[answer])

        monkeypatch.setattr(cables, "call", lie)
        master = Master(world, cables)
        for number in range(1, 20):
            assert master.put(number) < replication.TIMEOUT
        wait(world, 60)
        assert cables.count("CheckpointStore", of="n2") < 10
        assert "master candidate node2 does not hold the newest changes: node node2 did not take" in caplog.text
        assert master.store.durable_serial == 20
        assert set(cables.copy_of("n1").instances) == set(master.store.snapshot.instances)


def test_a_candidate_that_was_away_gets_what_it_missed_and_is_waited_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        master = Master(world, cables)
        master.put(1)
        cables.down.add("n1")
        for number in range(2, 6):
            master.put(number)
        cables.down.clear()
        wait(world, 60)
        assert cables.count("CheckpointStore") == 1
        assert "node1 holds the newest changes again" in caplog.text
        cables.slow["n1"] = 1.0
        assert master.put(6) >= 1.0


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_a_candidate_that_was_away_gets_frames_from_the_disk_or_else_the_whole_state(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidate, "BACKLOG", 2000)
    monkeypatch.setattr(backlog, "LIMIT", limit)
    monkeypatch.setattr(backlog, "BATCH", 4000)
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables)
        master.put(1)
        cables.down.add("n2")
        for number in range(2, 60):
            master.put(number)
        cables.down.clear()
        wait(world, 60)
        assert cables.count("CheckpointStore", of="n2") == (1 if limit else 2)
        assert cables.count("JournalAppend", of="n2") < 20
        master.put(60)
        wait(world, 1)
        world.crash("node0")
        assert len(cables.copy_of("n2").instances) == 60


def test_a_frame_too_long_for_a_message_reaches_a_candidate_with_the_whole_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidate, "FRAME", 2000)
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        master = Master(world, cables)
        master.put(1)
        many = build.put(*(build.vm(number) for number in range(2, 30)))
        build.on(world, master.machine, master.store.commit(many, build.CAUSE))
        wait(world, 10)
        assert cables.count("CheckpointStore") == 2
        assert master.put(30) < replication.TIMEOUT
        assert cables.count("CheckpointStore") == 2
        world.crash("node0")
        assert len(cables.copy_of("n1").instances) == 30


def test_a_candidate_that_was_away_gets_the_whole_state_instead_of_a_frame_too_long_for_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, size in (("FRAME", 2000), ("BACKLOG", 2000)):
        monkeypatch.setattr(candidate, name, size)
    monkeypatch.setattr(backlog, "BATCH", 1000)
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        master = Master(world, cables)
        master.put(1)
        cables.down.add("n1")
        master.put(2)
        many = build.put(*(build.vm(number) for number in range(3, 30)))
        build.on(world, master.machine, master.store.commit(many, build.CAUSE))
        for number in range(30, 40):
            master.put(number)
        cables.down.clear()
        wait(world, 60)
        assert cables.count("CheckpointStore") == 2
        assert 0 < cables.longest_frame <= 2000
        world.crash("node0")
        assert len(cables.copy_of("n1").instances) == 39


def test_a_candidate_gets_each_checkpoint_of_the_master_and_keeps_its_journal() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables, limits=transaction.Limits(size=2000))
        for number in range(1, 40):
            master.put(number)
            wait(world, 0.5)
        for uuid, machine in cables.machines.items():
            assert cables.count("CheckpointStore", of=uuid) > 5
            config = checkpoint.decode(machine.disk.read(build.WHERE.config), path="")
            assert config.position.serial > 35
            assert build.sections(machine) == build.sections(master.machine)[1:]
            serials = [entry.serial for entry in history.records(machine.disk, build.WHERE.journal)]
            assert serials == list(range(2, 41))
        world.crash("node0")
        assert build.content(cables.copy_of("n1")) == build.content(master.store.snapshot)


@pytest.mark.parametrize("part", [300, 3000, 1 << 20])
def test_a_state_of_any_size_reaches_a_candidate_in_parts_of_a_bounded_size(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "PART", part)
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        sizes: list[int] = []
        honest = cables.call

        async def watched(target: targets.Target, call: calls.Call[candidate.Result]) -> candidate.Result:
            if isinstance(call, calls.CheckpointStore):
                sizes.append(len(call.config) + sum(map(len, call.jobs.values())))
            return await honest(target, call)

        monkeypatch.setattr(cables, "call", watched)
        cables.down.add("n1")
        monkeypatch.setattr(candidate, "BACKLOG", 1)
        master = Master(world, cables)
        for number in range(1, 20):
            build.on(
                world,
                master.machine,
                master.store.commit(build.put(build.vm(number), build.queued(number)), build.CAUSE),
            )
        cables.down.clear()
        wait(world, 60)
        assert max(sizes) <= max(part, 1000)
        assert (len(sizes) == 1) == (part > 1 << 19)
        world.crash("node0")
        assert build.content(cables.copy_of("n1")) == build.content(master.store.snapshot)


def test_a_candidate_that_is_lost_between_two_parts_gets_the_whole_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "PART", 500)
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        honest = cables.call
        broken: list[int] = []

        async def breaking(target: targets.Target, call: calls.Call[candidate.Result]) -> candidate.Result:
            if isinstance(call, calls.CheckpointStore) and call.part == 3 and len(broken) < 2:
                broken.append(call.part)
                world.crash("node1")
                cables.replicas["n1"] = cables.fresh("n1")
                raise errors.RemoteError("node node1 cannot be reached")
            return await honest(target, call)

        monkeypatch.setattr(cables, "call", breaking)
        monkeypatch.setattr(candidate, "BACKLOG", 1)
        cables.down.add("n1")
        master = Master(world, cables)
        for number in range(1, 10):
            master.put(number)
        cables.down.clear()
        wait(world, 60)
        assert broken == [3, 3]
        world.crash("node0")
        assert build.content(cables.copy_of("n1")) == build.content(master.store.snapshot)


@pytest.mark.parametrize("fault", ["full", "failing"])
def test_a_candidate_whose_disk_takes_nothing_is_left_until_it_does(
    fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables)
        master.put(1)
        wait(world, 1)
        disk = cables.machines["n2"].disk
        if fault == "full":
            disk.capacity = 0
        disk.fail_sync = fault == "failing"
        for number in range(2, 9):
            assert master.put(number) < replication.TIMEOUT
        assert problems(caplog) == [logging.WARNING]
        assert "master candidate node2 does not hold the newest changes" in caplog.text
        assert "cannot be written" in caplog.text
        disk.capacity, disk.fail_sync = None, False
        wait(world, 60)
        assert "node2 holds the newest changes again" in caplog.text
        world.crash("node2")
        world.crash("node0")
        assert set(cables.copy_of("n2").instances) == {f"i{number}" for number in range(1, 9)}


def test_transactions_that_come_together_are_one_message_to_each_candidate() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables)
        master.put(1)
        wait(world, 1)
        before = cables.count("JournalAppend")

        async def together() -> None:
            await asyncio.gather(
                *(master.store.commit(build.put(build.vm(number)), build.CAUSE) for number in range(2, 102))
            )

        build.on(world, master.machine, together())
        wait(world, 1)
        assert cables.count("JournalAppend") - before <= 4


def test_an_edited_configuration_reaches_the_candidates_as_a_whole() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        first = Master(world, cables)
        first.put(1)
        first.put(2)
        build.on(world, first.machine, first.store.close())
        written = first.machine.disk.read(build.WHERE.config)
        lines = [line for line in build.marked(written).splitlines(keepends=True) if not line.startswith(b'"i1"')]
        build.on(world, first.machine, first.machine.disk.write(build.WHERE.config, b"".join(lines)))
        second = Master(world, cables)
        second.put(3)
        wait(world, 60)
        world.crash("node0")
        assert set(cables.copy_of("n1").instances) == {"i2", "i3"}


def test_a_candidate_with_another_history_is_brought_back_to_ours() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        master = Master(world, cables)
        machine, total = master.machine, master.machine.disk.free_space("/")
        master.put(1)
        machine.disk.capacity = total[1] - machine.disk.free_space("/")[0] + 10
        machine.disk.delay = (0.1, 0.1)
        with pytest.raises(errors.StorageError):
            master.put(2)
        machine.disk.capacity = None
        master.put(3)
        wait(world, 5)
        world.crash("node0")
        assert set(cables.copy_of("n1").instances) == {"i1", "i3"}


def test_an_old_master_that_comes_back_cannot_write() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        old = Master(world, cables)
        assert build.on(world, old.machine, old.store.begin_epoch()) == 1
        old.put(1)
        wait(world, 1)

        machine = cables.machines["n1"]
        candidates = replication.Candidates(machine, cables)

        async def take_over() -> transaction.Store:
            store = await transaction.Store.open(machine, build.WHERE, candidates=candidates)
            await store.begin_epoch(above=1)
            candidates.set_targets([target for target in cables.where if target.uuid == "n2"], policy=SEED)
            await store.commit(build.put(build.vm(2)), build.CAUSE)
            return store

        new = build.on(world, machine, take_over())
        assert new.epoch == 2

        async def deposed() -> None:
            await old.candidates.doubted.wait()
            assert old.candidates.doubt is not None
            old.candidates.depose(old.candidates.doubt)

        world.machine("node0").spawn(deposed())
        with pytest.raises(errors.ExecutionError, match=r"it is not known yet.*: this node is not the master any more"):
            old.put(3)
        with pytest.raises(errors.WrongStateError, match="not the master any more"):
            old.put(4)
        assert "i3" not in old.store.snapshot.instances
        assert old.candidates.replaced
        build.on(world, machine, new.commit(build.put(build.vm(5)), build.CAUSE))
        wait(world, 1)
        world.crash("node1")
        assert set(cables.copy_of("n2").instances) == {"i1", "i2", "i5"}


def test_a_stray_daemon_on_a_candidate_does_not_depose_the_master(caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables)
        master.put(1)
        wait(world, 1)
        stray = build.opened(world, cables.machines["n2"])
        master.put(2)
        wait(world, 1)
        assert "a master daemon runs on node2" in caplog.text
        build.on(world, cables.machines["n2"], stray.close())
        wait(world, 60)
        assert set(cables.copy_of("n2").instances) == {"i1", "i2"}


def submit(master: Master, number: int) -> asyncio.Future[states.Snapshot]:
    """Submit an instance without waiting for its acknowledgement."""

    async def begin() -> asyncio.Future[states.Snapshot]:
        return master.store.submit(build.put(build.vm(number)), build.CAUSE)

    return build.on(master.world, master.machine, begin())


@pytest.mark.parametrize(("policy", "enough"), [(MAJORITY, 1), (ALL, 2)])
def test_without_enough_copies_nothing_is_acknowledged_and_the_master_goes_on_when_it_has_them(
    policy: cluster_settings.Replication, enough: int, caplog: pytest.LogCaptureFixture
) -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables, policy)
        master.put(1)
        wait(world, 1)
        cables.down = {"n1", "n2"} if enough == 1 else {"n2"}
        ticket = submit(master, 2)
        wait(world, replication.TIMEOUT - 0.5)
        assert master.candidates.notice() == ""
        master.candidates.check_ready()
        wait(world, 600)
        assert not ticket.done()
        assert master.store.durable_serial == 2
        with pytest.raises(errors.NotMasterError, match=rf"{enough} of 3 .* {enough + 1} are needed, missing: .*node2"):
            master.candidates.check_ready()
        assert "may be out of date" in master.candidates.notice()
        assert "nothing can be changed until they answer" in caplog.text
        cables.down.clear()
        wait(world, 60)
        assert ticket.done()
        assert master.candidates.notice() == ""
        master.candidates.check_ready()
        master.put(3)


def test_a_change_of_the_candidates_needs_a_majority_of_the_old_ones_and_of_the_new_ones() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 4)
        old, new = cables.where[:2], cables.where[2:]
        master = Master(world, cables, MAJORITY)

        async def targets_from(where: list[targets.Target], serial: int) -> None:
            master.candidates.set_targets(where, policy=MAJORITY, serial=serial)

        build.on(world, master.machine, targets_from(old, 1))
        master.put(1)
        wait(world, 1)
        for down in ({"n1", "n2"}, {"n3", "n4"}):
            cables.down = down
            serial = master.store.snapshot.serial + 1
            ticket = submit(master, serial)
            build.on(world, master.machine, targets_from(new, serial))
            wait(world, 60)
            assert not ticket.done()
            cables.down = set()
            wait(world, 60)
            assert ticket.done()
            build.on(world, master.machine, targets_from(old, serial))
            master.put(100 + serial)
            wait(world, 60)


@pytest.mark.parametrize("policy", [MAJORITY, ALL])
@pytest.mark.parametrize("count", range(1, 8))
def test_a_change_without_one_candidate_meets_each_majority_of_those_before(
    count: int, policy: cluster_settings.Replication
) -> None:
    members = frozenset(f"n{number}" for number in range(count))
    enough = needed_copies.Rule(1, policy, members).copies_before(needed_copies.Rule(2, policy, members - {"n0"}))
    assert enough is not None
    most_without = 1 + count - enough
    assert 2 * most_without <= 1 + count
    assert enough <= count, "the others can have it"


@pytest.mark.parametrize(
    ("before", "after", "enough"),
    [
        ((ALL, "ab"), (MAJORITY, "ab"), 2),
        ((ALL, "abc"), (SEED, "abc"), 3),
        ((MAJORITY, "ab"), (SEED, "ab"), 2),
        ((ALL, "ab"), (ALL, "ab"), None),
        ((MAJORITY, "ab"), (ALL, "ab"), None),
        ((ALL, "abc"), (ALL, "a"), None),
        ((ALL, "ab"), (ALL, "ac"), None),
        ((ALL, "ab"), (ALL, "abc"), None),
        ((SEED, "ab"), (SEED, "a"), None),
    ],
)
def test_any_other_change_of_the_rules_needs_the_copies_of_the_rule_before(
    before: tuple[cluster_settings.Replication, str],
    after: tuple[cluster_settings.Replication, str],
    enough: int | None,
) -> None:
    first, second = (needed_copies.Rule(0, policy, frozenset(names)) for policy, names in (before, after))
    assert first.copies_before(second) == enough


async def give_up(master: Master, cables: Cables, number: int) -> asyncio.Future[states.Snapshot]:
    """Submit a change that leaves the first candidate alone."""
    ticket = master.store.submit(build.put(build.vm(number)), build.CAUSE)
    master.candidates.set_targets(cables.where[:1], policy=ALL, serial=master.store.snapshot.serial)
    return ticket


def test_a_candidate_that_is_given_up_ends_the_wait_of_earlier_changes_and_not_before() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables, ALL)
        master.put(1)
        cables.down = {"n1", "n2"}
        first = submit(master, 2)
        wait(world, 60)
        second = build.on(world, master.machine, give_up(master, cables, 3))
        wait(world, 60)
        assert not first.done()
        assert not second.done()
        assert master.candidates.stalled.is_set()
        cables.down = {"n2"}
        wait(world, 60)
        assert first.done()
        assert second.done()
        assert not master.candidates.stalled.is_set()
        master.put(4)
        assert {"i1", "i2", "i3", "i4"} <= set(cables.copy_of("n1").instances)
        world.crash("node0")
        assert {"i1", "i2", "i3", "i4"} <= set(build.opened(world, master.machine).snapshot.instances)


def test_a_change_that_gives_a_candidate_up_and_cannot_be_written_is_undone_alone() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables, ALL)
        master.put(1)
        cables.down = {"n2"}
        first = submit(master, 2)
        wait(world, 60)
        disk = master.machine.disk
        disk.capacity = disk.free_space("/")[1] - disk.free_space("/")[0] + 10
        second = build.on(world, master.machine, give_up(master, cables, 3))
        build.on(world, master.machine, undo(master, cables))
        wait(world, 60)
        assert isinstance(second.exception(), errors.StorageError)
        assert not first.done()
        assert "i3" not in master.store.snapshot.instances
        disk.capacity = None
        cables.down = set()
        wait(world, 60)
        assert first.done()
        master.put(4)
        assert {"i1", "i2", "i4"} == {"i1", "i2", "i3", "i4"} & set(cables.copy_of("n2").instances)


async def undo(master: Master, cables: Cables) -> None:
    """Restore the candidates as the daemon does when the state goes back."""
    master.store.observe(
        lambda _, after, changes: (
            None if changes else master.candidates.set_targets(cables.where, policy=ALL, serial=after.serial)
        )
    )


def test_a_change_that_was_undone_leaves_the_rule_before_it() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables, MAJORITY)
        master.put(1)

        async def undone() -> None:
            master.candidates.set_targets([], policy=SEED, serial=3)
            master.candidates.set_targets(cables.where, policy=MAJORITY, serial=2)

        build.on(world, master.machine, undone())
        cables.down = {"n1", "n2"}
        ticket = submit(master, 2)
        wait(world, 60)
        assert not ticket.done()


def test_a_change_in_the_place_of_one_that_was_undone_leaves_nothing_of_its_rule() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables, MAJORITY)
        master.put(1)

        async def undone() -> None:
            for target in cables.where:
                master.candidates.set_targets([target], policy=MAJORITY, serial=3)

        build.on(world, master.machine, undone())
        assert [rule.members for rule in master.candidates.rules] == [{"n1", "n2"}, {"n2"}]


def test_a_candidate_with_another_address_is_called_there_alone() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        master = Master(world, cables)
        master.put(1)
        wait(world, 1)
        assert set(cables.addresses) == {"node1"}
        moved = targets.Target("n1", "node1", "192.0.2.99", 1811)

        async def move() -> None:
            master.candidates.set_targets([moved], policy=SEED, serial=master.store.position.serial)

        build.on(world, master.machine, move())
        assert master.candidates.targets() == [moved]
        cables.addresses.clear()
        master.put(2)
        wait(world, 1)
        assert set(cables.addresses) == {"192.0.2.99"}
        world.crash("node0")
        assert set(cables.copy_of("n1").instances) == {"i1", "i2"}


def test_a_former_candidate_gets_nothing_once_the_change_of_the_candidates_is_acknowledged() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables, MAJORITY)
        master.put(1)
        remaining = cables.where[1:]

        async def leave() -> None:
            master.candidates.set_targets(remaining, policy=MAJORITY, serial=3)

        build.on(world, master.machine, leave())
        assert master.candidates.targets() == cables.where
        master.put(2)
        assert master.candidates.targets() == remaining
        wait(world, 1)
        before = cables.count("JournalAppend", of="n1")
        master.put(3)
        wait(world, 1)
        assert cables.count("JournalAppend", of="n1") == before


def test_a_master_that_is_confirmed_after_a_refusal_hears_the_next_refusal() -> None:
    with simulated.World(seed=1) as world:
        candidates = replication.Candidates(world.machine("node0"), candidate.NoCaller())
        first, second = errors.FencedError("first"), errors.FencedError("second")
        candidates.refuse(first)
        candidates.refuse(second)
        assert candidates.doubt is first
        candidates.trust()
        assert not candidates.doubted.is_set()
        candidates.refuse(second)
        assert (candidates.doubt, candidates.doubted.is_set()) == (second, True)


def test_without_a_network_a_candidate_cannot_be_called(caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        cables.call = candidate.NoCaller().call  # type: ignore[method-assign]
        master = Master(world, cables)
        assert master.put(1) < replication.TIMEOUT
        assert "node1 does not hold the newest changes: node node1 cannot be called from here" in caplog.text


def test_under_seed_a_change_that_only_the_master_has_is_marked() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 1)
        master = Master(world, cables)
        master.put(1)
        wait(world, 1)
        assert master.candidates.notice() == ""
        cables.down = {"n1"}
        master.put(2)
        assert "are only on node0, not on a majority: missing on node1" in master.candidates.notice()
        master.candidates.check_ready()


def test_a_master_may_be_superseded_while_only_a_minority_has_its_changes_or_a_node_refuses_it() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables)

        def may_be_superseded() -> bool:
            return master.store.may_be_superseded

        master.put(1)
        wait(world, 1)
        assert not may_be_superseded()
        cables.down = {"n1"}
        master.put(2)
        assert not may_be_superseded()
        cables.down = {"n1", "n2"}
        master.put(3)
        assert may_be_superseded()
        cables.down = {"n1"}
        wait(world, 60)
        assert not may_be_superseded()
        refusal = errors.FencedError("there is a later master")
        master.candidates.refuse(refusal)
        assert may_be_superseded()
        master.candidates.trust()
        assert not may_be_superseded()
        master.candidates.depose(refusal)
        assert may_be_superseded()


def test_a_master_that_is_deposed_while_it_ends_waits_for_no_candidate() -> None:
    async def deposed_after(master: Master, seconds: float) -> float:
        settling = asyncio.ensure_future(master.candidates.settle())
        await asyncio.sleep(seconds)
        master.candidates.depose(errors.FencedError("there is a later master"))
        await settling
        return master.world.clock.monotonic() - begin

    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables)
        master.put(1)
        cables.slow["n2"] = 3.0
        master.put(2)
        begin = world.clock.monotonic()
        assert 0.2 < world.run(deposed_after(master, 0.25)) < 0.5


@pytest.mark.parametrize(("slow", "down", "seconds"), [(0.3, False, 0.3), (9.0, False, 1.0), (0.001, True, 0.0)])
def test_a_master_that_ends_waits_for_candidates_that_answer_in_time(slow: float, down: bool, seconds: float) -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables)
        master.put(1)
        wait(world, 1)
        cables.slow["n2"] = slow
        cables.down = {"n2"} if down else set()
        master.put(2)
        begin = world.clock.monotonic()
        world.run(master.candidates.settle())
        assert world.clock.monotonic() - begin == pytest.approx(seconds, abs=0.1)


def begin_epoch(master: Master, cables: Cables, *, down: str) -> None:
    """Begin an epoch of which one candidate hears nothing."""
    master.put(1)
    wait(master.world, 1)
    cables.down = {down}
    build.on(master.world, master.machine, master.store.begin_epoch())
    wait(master.world, 60)


def test_under_seed_a_master_may_be_superseded_until_each_candidate_has_a_record_of_its_epoch() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables)

        def may_be_superseded() -> bool:
            return master.store.may_be_superseded

        begin_epoch(master, cables, down="n1")
        assert master.candidates.notice() == ""
        assert may_be_superseded()
        # A change of the policy does not reach a former master that continues alone.
        master.candidates.set_targets(cables.where, policy=MAJORITY, serial=master.store.position.serial)
        assert may_be_superseded()
        cables.down = set()
        wait(world, 60)
        assert not may_be_superseded()
        cables.down = {"n1"}
        master.put(2)
        wait(world, 60)
        assert not may_be_superseded()


def test_under_majority_a_candidate_of_a_former_epoch_does_not_supersede_the_master() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables, MAJORITY)
        begin_epoch(master, cables, down="n1")
        assert not master.store.may_be_superseded


def test_a_daemon_that_ends_without_a_majority_keeps_the_change_and_does_not_report_it_as_lost() -> None:
    with simulated.World(seed=1) as world:
        cables = Cables(world, 2)
        master = Master(world, cables, MAJORITY)
        master.put(1)
        cables.down = {"n1", "n2"}
        ticket = submit(master, 2)
        wait(world, 10)
        build.on(world, master.machine, master.store.close())
        with pytest.raises(errors.ExecutionError, match="not known yet whether the change is valid"):
            ticket.result()
        assert len(build.opened(world, master.machine).snapshot.instances) == 2

"""What the retention removes of journal and archive, on the master and on candidates, at any moment of a crash."""

import asyncio
import itertools
from collections.abc import Callable, Iterator

import msgspec
import pytest
from tests.state import build
from tests.state.candidates import test_replication

from gantry import errors
from gantry.lib_files import queue
from gantry.model import retention as settings
from gantry.node.membership import replica
from gantry.rpc import calls
from gantry.runtime import retention, simulated
from gantry.state.files import checkpoint
from gantry.state.journal import backlog, history, journal
from gantry.state.objects import snapshot as states
from gantry.state.start import recovery
from gantry.state.store import events, pruning, transaction

Cables, Master, wait = test_replication.Cables, test_replication.Master, test_replication.wait
LIMITS = transaction.Limits(records=6)
ARCHIVE = f"{build.WHERE.queue}/archive"


class PrunedMaster:
    """A master with candidates and its pruning; ``run`` commits jobs that end and are archived."""

    def __init__(
        self, world: simulated.World, *, candidates: int = 0, journal: str = "1M", archive: str = "1M"
    ) -> None:
        self.world = world
        self.cables = Cables(world, candidates)
        self.jobs = 0
        self.open()
        self.keep(journal, archive)

    def open(self) -> None:
        """Open the store, with the files that are there."""
        self.master = Master(self.world, self.cables, limits=LIMITS)
        self.machine = self.master.machine
        self.store = self.master.store
        self.past = history.History(self.machine, build.WHERE, lambda: self.store.durable)
        self.pruning = pruning.Pruning(
            self.machine,
            build.WHERE,
            store=self.store,
            past=self.past,
            candidates=self.master.candidates,
            caller=self.cables,
        )

    def commit(self, *changes: states.Change) -> None:
        build.on(self.world, self.machine, self.store.commit(changes, build.CAUSE))

    def keep(self, journal: str, archive: str) -> None:
        owner = msgspec.structs.replace(build.OWNER, journal_retention=journal, archive_retention=archive)
        self.commit(states.Put(owner))

    def run(self, count: int, *, pause: float = 0.0) -> None:
        """Run jobs, and wait until their files are in the archive."""
        for _ in range(count):
            self.jobs += 1
            self.commit(states.Put(build.queued(self.jobs)), states.Put(build.vm(self.jobs)))
            self.commit(states.Put(build.ended(build.queued(self.jobs))))
            self.commit(states.Delete("jobs", str(self.jobs)))
            wait(self.world, pause)
        wait(self.world, 3)

    def prune(self) -> None:
        build.on(self.world, self.machine, self.pruning.prune())
        wait(self.world, 1)

    def first(self, machine: simulated.SimulatedRuntime | None = None) -> int:
        return journal.sections((machine or self.machine).disk, build.WHERE.journal)[0]

    def archived(self, machine: simulated.SimulatedRuntime | None = None) -> list[int]:
        disk = (machine or self.machine).disk
        folders = disk.names(ARCHIVE) if disk.exists(ARCHIVE) else []
        return sorted(int(name[4:]) for folder in folders for name in disk.names(f"{ARCHIVE}/{folder}"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let M mean 1,000 bytes in settings, and a block of the disk have 100."""
    monkeypatch.setattr(settings, "_SIZE_UNITS", {"M": 1000})
    monkeypatch.setattr(settings, "MINIMUM_SIZE", 1000)
    monkeypatch.setattr(retention, "BLOCK", 100)
    settings.parse.cache_clear()
    yield
    settings.parse.cache_clear()


@pytest.mark.usefixtures("small")
def test_sections_beyond_the_size_are_removed_and_those_after_the_checkpoint_stay() -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, journal="8M", archive="forever")
        pruned_master.run(20)
        before = history_of(pruned_master)
        pruned_master.prune()
        size = sum(pruned_master.machine.disk.status(path).size for path in build.sections(pruned_master.machine))
        assert 3_000 < size <= 8_000
        assert pruned_master.first() > 1
        assert history_of(pruned_master) == [serial for serial in before if serial >= pruned_master.first()]
        assert build.on(world, pruned_master.machine, pruned_master.past.check()).problem == ""
        pruned_master.keep("1M", "forever")
        pruned_master.prune()
        # All that a start needs is there, however small the limit is.
        assert pruned_master.first() <= pruned_master.store.checkpointer.last.serial + 1
        content = build.content(pruned_master.store.durable)
        world.kill("node0")
        pruned_master.open()
        assert build.content(pruned_master.store.durable) == content


def interrupted(pruned_master: PrunedMaster, visit: int, end: Callable[[str], None]) -> bool:
    """Prune, and end the machine at a visit to the disk; return False if there are fewer visits."""
    visits = iter(range(visit, -1, -1))
    pruned_master.machine.disk.on_visit = lambda: end("node0") if next(visits, None) == 0 else None
    task = pruned_master.machine.spawn(pruned_master.pruning.prune())
    pruned_master.world.run(asyncio.wait([task]))
    pruned_master.machine.disk.on_visit = None
    return task.cancelled()


def history_of(pruned_master: PrunedMaster) -> list[int]:
    return [record.serial for record in history.records(pruned_master.machine.disk, build.WHERE.journal)]


def test_sections_beyond_the_age_are_removed_on_an_idle_cluster_too() -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, journal="80s", archive="60s")
        pruned_master.run(1)
        last = pruned_master.store.durable_serial
        build.on(world, pruned_master.machine, _start(pruned_master.pruning))
        wait(world, 300)
        # The newest section with records stays until another begins, which the checkpoint by age has prepared.
        assert pruned_master.store.checkpointer.last.serial == last
        assert history_of(pruned_master)[-1] == last
        assert pruned_master.archived() == []
        pruned_master.commit()
        wait(world, 61)
        assert history_of(pruned_master) == [last + 1]


async def _start(rounds: pruning.Pruning) -> None:
    rounds.start()


def test_rounds_that_are_stopped_remove_nothing_more() -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, journal="80s", archive="60s")
        pruned_master.run(1)
        build.on(world, pruned_master.machine, pruned_master.pruning.close())
        build.on(world, pruned_master.machine, _start(pruned_master.pruning))
        build.on(world, pruned_master.machine, pruned_master.pruning.close())
        wait(world, 4000)
        assert pruned_master.first() == 1
        assert pruned_master.archived() == [1]


def test_forever_removes_nothing() -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, journal="forever", archive="forever")
        pruned_master.run(20)
        wait(world, 4000)
        pruned_master.prune()
        assert pruned_master.first() == 1
        assert pruned_master.archived() == list(range(1, 21))


@pytest.mark.usefixtures("small")
def test_archived_jobs_are_removed_in_the_order_of_their_numbers_and_no_number_is_given_again() -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, archive="3M")
        pruned_master.run(20)
        sizes = [
            len(pruned_master.machine.disk.read(f"{ARCHIVE}/0/job-{number}")) for number in pruned_master.archived()
        ]
        pruned_master.prune()
        kept = 3_000 // (-(-sizes[0] // 100) * 100)
        assert pruned_master.archived() == list(range(21 - kept, 21))
        pruned_master.keep("1M", "60s")
        wait(world, 61)
        pruned_master.prune()
        assert pruned_master.archived() == []
        assert pruned_master.store.archive.job(20) is None
        world.crash("node0")
        pruned_master.open()
        assert pruned_master.store.snapshot.last_job == 20


def test_a_folder_that_another_job_will_need_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "ARCHIVE_SIZE", 10)
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, archive="60s")
        pruned_master.run(7)
        pruned_master.commit(states.Put(build.queued(8)))
        pruned_master.jobs = 8
        pruned_master.run(25)
        assert pruned_master.machine.disk.names(ARCHIVE) == ["0", "1", "2", "3"]
        wait(world, 61)
        pruned_master.prune()
        # Job 8 is not archived yet; from its folder on, others may add files meanwhile.
        assert pruned_master.machine.disk.names(ARCHIVE) == ["0", "1", "2", "3"]
        pruned_master.commit(states.Delete("jobs", "8"))
        wait(world, 62)
        pruned_master.prune()
        assert pruned_master.machine.disk.names(ARCHIVE) == ["3"]


@pytest.mark.usefixtures("small")
def test_the_work_of_a_round_does_not_grow_with_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "ARCHIVE_SIZE", 5)
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, archive="100M")
        pruned_master.run(100)
        wait(world, 10)
        pruned_master.prune()
        read: list[str] = []
        honest = pruned_master.machine.disk.status

        def status(path: str) -> object:
            read.append(path)
            return honest(path)

        monkeypatch.setattr(pruned_master.machine.disk, "status", status)
        pruned_master.run(5)
        wait(world, 10)
        read.clear()
        pruned_master.prune()
        assert 0 < sum("/job-" in path for path in read) <= 2 * queue.ARCHIVE_SIZE


@pytest.mark.usefixtures("small")
def test_candidates_prune_their_own_files_and_open_as_masters() -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, candidates=2, journal="8M", archive="3M")
        pruned_master.run(30)
        wait(world, 5)
        pruned_master.prune()
        for uuid, machine in pruned_master.cables.machines.items():
            assert pruned_master.first(machine) == pruned_master.first() > 1
            assert 0 < len(pruned_master.archived(machine)) <= len(pruned_master.archived()) + LIMITS.records
            assert build.content(pruned_master.cables.copy_of(uuid)) == build.content(pruned_master.store.durable)


@pytest.mark.usefixtures("small")
def test_a_candidate_keeps_what_it_needs_itself() -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, candidates=1, journal="1M")
        # It does not get a newer checkpoint, so that all frames since its first one are needed.
        machine = pruned_master.cables.machines["n1"]
        machine.disk.broken = {build.WHERE.incoming: 1.0}
        pruned_master.run(30)
        serials = [record.serial for record in history.records(machine.disk, build.WHERE.journal)]
        pruned_master.prune()
        assert pruned_master.first() > serials[0]
        assert [record.serial for record in history.records(machine.disk, build.WHERE.journal)] == serials
        assert build.content(pruned_master.cables.copy_of("n1")) == build.content(pruned_master.store.durable)


@pytest.mark.usefixtures("small")
def test_a_lagging_candidate_gets_the_frames_that_it_lacks_after_a_pruning() -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, candidates=2, journal="1M")
        pruned_master.run(4)
        wait(world, 5)
        pruned_master.cables.down.add("n2")
        lacks = pruned_master.store.durable_serial + 1
        pruned_master.run(30)
        pruned_master.prune()
        assert pruned_master.first() <= lacks
        assert pruned_master.first(pruned_master.cables.machines["n1"]) <= lacks
        before = pruned_master.cables.count("CheckpointStore", of="n2")
        pruned_master.cables.down.clear()
        wait(world, 40)
        assert pruned_master.master.candidates.lagging() == []
        replaced = [call for uuid, call in pruned_master.cables.calls if uuid == "n2"].count("CheckpointStore") - before
        # Only the refresh with the newest checkpoint: frames came from the journal, and its own past is still there.
        assert replaced <= 2
        assert pruned_master.first(pruned_master.cables.machines["n2"]) <= lacks
        pruned_master.run(4)
        pruned_master.prune()
        assert pruned_master.first() > lacks
        assert pruned_master.first(pruned_master.cables.machines["n2"]) > lacks


def test_a_candidate_that_gets_the_whole_state_anyway_keeps_no_section(monkeypatch: pytest.MonkeyPatch) -> None:
    firsts, sizes = [10, 20, 30], [100, 100, 100]
    monkeypatch.setattr(backlog, "LIMIT", 200)
    assert backlog.oldest_needed(firsts, sizes, [], end=35) == 36
    assert backlog.oldest_needed(firsts, sizes, [35, 30], end=35) == 30
    assert backlog.oldest_needed(firsts, sizes, [35, 19], end=35) == 20
    # It lacks more than the limit, or more than the journal has.
    assert backlog.oldest_needed(firsts, sizes, [18, 3], end=35) == 36
    # Nobody knows: what would be sent from any position stays.
    assert backlog.oldest_needed(firsts, sizes, [None], end=35) == 20


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_write_of_a_pruning_leaves_a_state_without_a_gap(power: bool) -> None:
    for visit in itertools.count():
        with simulated.World(seed=visit) as world:
            pruned_master = PrunedMaster(world, journal="8M", archive="3M")
            pruned_master.run(15)
            content = build.content(pruned_master.store.durable)
            if not interrupted(pruned_master, visit, world.crash if power else world.kill):
                assert visit > 10
                return
            pruned_master.open()
            wait(world, 3)
            assert build.content(pruned_master.store.durable) == content
            assert history_of(pruned_master) == list(
                range(pruned_master.first(), pruned_master.store.durable_serial + 1)
            )
            numbers = pruned_master.archived()
            assert numbers == list(range(numbers[0], 16))
            assert build.on(world, pruned_master.machine, pruned_master.past.check()).problem == ""
            pruned_master.prune()
            assert pruned_master.first() > 1


@pytest.mark.usefixtures("small")
def test_an_event_follower_behind_the_first_kept_record_must_start_over() -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, journal="4M")
        pruned_master.run(20)
        pruned_master.prune()
        first = pruned_master.first()
        world.kill("node0")
        pruned_master.open()
        stream = events.Events(pruned_master.store, pruned_master.past)
        with pytest.raises(errors.PrunedError, match=f"begins with serial {first}, ") as caught:
            build.on(world, pruned_master.machine, stream.after(first - 2, limit=10, timeout=0))
        assert f"after serial {first - 1}" in caught.value.hint
        kept = build.on(world, pruned_master.machine, stream.after(first - 1, limit=10, timeout=0))
        assert kept[0].serial == first
        assert build.on(world, pruned_master.machine, stream.after(0, limit=1, timeout=0))[0].serial == first
        start = build.on(world, pruned_master.machine, stream.start())
        assert (start.serial, start.time) == (first, kept[0].time)


@pytest.mark.usefixtures("small")
def test_a_node_prunes_for_the_cluster_only_and_names_a_failing_disk() -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, candidates=1, journal="8M", archive="3M")
        pruned_master.run(10)
        copy: replica.Replica = pruned_master.cables.replicas["n1"]
        call = calls.ReplicaPrune(
            journal=retention.Retention(), archive=retention.Retention(size=1), before=10**9, most=4
        )
        machine = pruned_master.cables.machines["n1"]
        before = pruned_master.archived(machine)
        assert build.on(world, machine, copy.prune(call)) == 4
        assert pruned_master.archived(machine) == before[4:]
        lock = machine.disk.lock(f"{build.WHERE.queue}/lock")
        with pytest.raises(errors.WrongStateError, match="a master daemon runs on node1"):
            build.on(world, machine, copy.prune(call))
        lock.release()
        assert pruned_master.archived(machine) == before[4:]


def test_recovery_needs_no_record_before_the_checkpoint() -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world)
        pruned_master.run(10)
        serial = pruned_master.store.checkpointer.last.serial
        world.kill("node0")
        for path in build.sections(pruned_master.machine):
            if int(path[-20:-4]) <= serial:
                build.on(world, pruned_master.machine, pruned_master.machine.disk.remove(path))
        recovered = build.on(world, pruned_master.machine, recovery.recover(pruned_master.machine, build.WHERE))
        assert recovered.state.last_job == 10


@pytest.mark.usefixtures("small")
def test_a_frozen_candidate_delays_neither_the_master_nor_others() -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, candidates=2, journal="8M", archive="3M")
        pruned_master.run(20)
        wait(world, 5)
        pruned_master.cables.slow["n2"] = 1000.0
        begin = world.clock.monotonic()
        for _ in range(3):
            pruned_master.prune()
        assert world.clock.monotonic() - begin < 5
        assert pruned_master.first() == pruned_master.first(pruned_master.cables.machines["n1"]) > 1
        # It is not asked again while the first request is under way.
        assert pruned_master.cables.count("ReplicaPrune", of="n2") == 1
        assert pruned_master.cables.count("ReplicaPrune", of="n1") == 3


@pytest.mark.usefixtures("small")
def test_no_section_is_removed_while_the_past_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, journal="4M")
        pruned_master.run(20)
        compute = pruned_master.machine.compute

        async def slow(work: Callable[[], bytes]) -> bytes:
            await asyncio.sleep(50)
            return await compute(work)

        monkeypatch.setattr(pruned_master.machine, "compute", slow)
        reading = pruned_master.machine.spawn(pruned_master.past.check())
        pruning_task = pruned_master.machine.spawn(pruned_master.pruning.prune())
        wait(world, 40)
        assert pruned_master.first() == 1
        wait(world, 20)
        assert reading.result() == history.Check(1, 1)
        assert pruning_task.done()
        assert pruned_master.first() > 1


@pytest.mark.usefixtures("small")
def test_without_a_newer_checkpoint_no_record_after_the_old_one_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world)
        pruned_master.run(2)
        serial = pruned_master.store.checkpointer.last.serial

        def fail(*_: object, **__: object) -> bytes:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "encode", fail)
            pruned_master.run(20)
            pruned_master.prune()
            assert pruned_master.store.checkpointer.last.serial == serial
            assert pruned_master.first() == serial + 1
            content = build.content(pruned_master.store.durable)
            world.kill("node0")
        pruned_master.open()
        assert build.content(pruned_master.store.durable) == content


@pytest.mark.usefixtures("small")
def test_pruning_goes_on_after_the_disk_did_not_say_which_sections_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> list[int]:
        raise OSError(24, "Too many open files")

    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, journal="1M")

        async def start() -> None:
            pruned_master.pruning.start()

        build.on(world, pruned_master.machine, start())
        pruned_master.run(20)
        with monkeypatch.context() as patch:
            patch.setattr(journal, "sections", fail)
            wait(world, 2 * pruning.PERIOD_SECONDS)
        first = pruned_master.first()
        pruned_master.run(20)
        wait(world, 2 * pruning.PERIOD_SECONDS)
        assert pruned_master.first() > first


@pytest.mark.usefixtures("small")
def test_for_a_candidate_that_has_not_answered_yet_everything_that_it_may_need_stays() -> None:
    with simulated.World(seed=1) as world:
        pruned_master = PrunedMaster(world, journal="1M")
        pruned_master.run(10)
        pruned_master.prune()
        first = pruned_master.first()
        world.kill("node0")
        pruned_master.cables = Cables(world, 1)
        pruned_master.cables.down.add("n1")
        pruned_master.open()
        pruned_master.run(10)
        pruned_master.prune()
        assert pruned_master.first() == first > 1
        pruned_master.cables.down.clear()
        wait(world, 40)
        pruned_master.run(4)
        pruned_master.prune()
        assert pruned_master.first() > first

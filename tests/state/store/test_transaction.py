import asyncio
import contextlib
import errno
import math
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.state import build

from gantry import errors
from gantry.runtime import simulated
from gantry.state.objects import snapshot
from gantry.state.start import creation
from gantry.state.store import transaction


def test_transactions_of_one_turn_share_one_frame_and_those_during_its_sync_the_next() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)

        async def many() -> None:
            first = [store.submit(build.put(build.vm(n)), build.CAUSE) for n in range(100)]
            await asyncio.sleep(0)
            second = [store.submit(build.put(build.vm(n)), build.CAUSE) for n in range(100, 200)]
            await asyncio.gather(*first, *second)

        build.on(world, machine, many())
        assert machine.disk.read(build.sections(machine)[-1]).count(b"\n") == 2
        assert store.durable_serial == 201


def test_a_change_shows_in_the_turn_in_which_it_is_submitted() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        seen: list[tuple[int, int, int]] = []
        store.observe(lambda before, after, changes: seen.append((before.serial, after.serial, len(changes))))

        async def plan_and_submit() -> None:
            ticket = store.submit(build.put(build.vm(1), build.vm(2)), build.CAUSE)
            assert "i1" in store.snapshot.instances
            assert seen == [(1, 2, 2)]
            assert store.durable_serial == 1
            assert (await ticket).serial == 2

        build.on(world, machine, plan_and_submit())
        assert store.durable_serial == 2


def test_one_may_wait_until_a_state_that_one_has_read_is_acknowledged() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)

        async def read_and_wait() -> None:
            tickets, read = [], []
            for number in (1, 2, 3):
                tickets.append(store.submit(build.put(build.vm(number)), build.CAUSE))
                read.append(store.snapshot)
                if number == 1:
                    await asyncio.sleep(0)
            for ticket, state in zip(tickets, read, strict=True):
                assert not ticket.done() or state.serial <= store.durable.serial
                waiting = asyncio.ensure_future(store.acknowledged(state))
                await asyncio.sleep(0)
                waiting.cancel()
                await store.acknowledged(state)
                assert store.durable.serial >= state.serial
                assert ticket.result() is state

        build.on(world, machine, read_and_wait())


def test_a_state_that_was_undone_is_never_acknowledged() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        machine.disk.capacity = machine.disk.free_space("/")[1] - machine.disk.free_space("/")[0] + 10

        async def in_vain() -> None:
            store.submit(build.put(build.vm(1)), build.CAUSE)
            state = store.snapshot
            with pytest.raises(errors.StorageError, match="the change was undone"):
                await store.acknowledged(state)
            machine.disk.capacity = None
            with pytest.raises(errors.ExecutionError, match="was undone"):
                await store.acknowledged(state)
            ticket = store.submit(build.put(build.vm(2)), build.CAUSE)
            with pytest.raises(errors.ExecutionError, match="was undone"):
                await store.acknowledged(state)
            await ticket

        build.on(world, machine, in_vain())


def test_a_transaction_that_breaks_an_invariant_changes_nothing() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        build.on(world, machine, store.commit(build.put(build.vm(1, ip="10.0.0.7")), build.CAUSE))
        before = store.snapshot
        with pytest.raises(errors.NotUniqueError, match=r"10\.0\.0\.7 in network net1 is in use by instance inst1"):
            build.on(world, machine, store.commit(build.put(build.vm(3), build.vm(2, ip="10.0.0.7")), build.CAUSE))
        assert store.snapshot is before
        build.on(world, machine, store.close())
        assert build.content(build.opened(world, machine).snapshot)["serial"] == 2


def test_a_transaction_that_could_not_be_read_back_changes_nothing() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        before = store.snapshot
        unreadable = msgspec.structs.replace(before.the_cluster, ctime=math.nan)
        with pytest.raises(errors.InternalError, match=r"nothing was changed: .*Expected `float`, got `null`"):
            build.on(world, machine, store.commit([snapshot.Put(unreadable)], build.CAUSE))
        assert store.snapshot is before
        build.on(world, machine, store.commit(build.put(build.vm(1)), build.CAUSE))
        build.on(world, machine, store.close())
        assert build.content(build.opened(world, machine).snapshot)["serial"] == 2


def test_a_full_disk_fails_the_commit_and_leaves_the_state_whole() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        build.on(world, machine, store.commit(build.put(build.vm(1)), build.CAUSE))
        good = store.snapshot
        resets: list[int] = []
        store.observe(lambda _, after, changes: None if changes else resets.append(after.serial))
        size = machine.disk.status(build.sections(machine)[-1]).size
        machine.disk.capacity = machine.disk.free_space("/")[1] - machine.disk.free_space("/")[0] + 10

        async def in_vain() -> list[object]:
            tickets = [store.submit(build.put(build.vm(n)), build.CAUSE) for n in (2, 3)]
            await asyncio.sleep(0)
            tickets.append(store.submit(build.put(build.vm(4)), build.CAUSE))
            return list(await asyncio.gather(*tickets, return_exceptions=True))

        failures = build.on(world, machine, in_vain())
        assert len(failures) == 3
        for failure in failures:
            assert isinstance(failure, errors.StorageError)
            assert build.sections(machine)[-1] in failure.message
            assert "free space" in failure.hint
        assert store.snapshot is good
        assert resets == [2]
        assert machine.disk.status(build.sections(machine)[-1]).size == size

        machine.disk.capacity = None
        build.on(world, machine, store.commit(build.put(build.vm(2)), build.CAUSE))
        world.crash("one")
        again = build.opened(world, machine)
        assert build.content(again.snapshot) == build.content(store.snapshot)


def test_a_journal_that_cannot_be_cut_back_takes_nothing_until_it_can() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        machine.disk.fail_sync = True
        for _ in range(3):
            with pytest.raises(errors.StorageError, match="Input/output error"):
                build.on(world, machine, store.commit(build.put(build.vm(1)), build.CAUSE))
        machine.disk.fail_sync = False
        build.on(world, machine, store.commit(build.put(build.vm(2)), build.CAUSE))
        world.crash("one")
        assert set(build.opened(world, machine).snapshot.instances) == {"i2"}


@pytest.mark.parametrize("how", ["removed", "replaced"])
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_section_that_somebody_removes_is_noticed_by_the_next_change_and_costs_only_history(
    how: str, is_empty: bool
) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        limits = transaction.Limits(records=2 if is_empty else 100)
        store = build.new_store(world, machine, limits=limits)
        for number in (1, 2):
            build.on(world, machine, store.commit(build.put(build.vm(number)), build.CAUSE))
        build.on(world, machine, machine.clock.sleep(3))
        path = build.sections(machine)[-1]
        build.on(world, machine, machine.disk.remove(path))
        if how == "replaced":
            build.on(world, machine, machine.disk.write(path, b""))
        with pytest.raises(errors.StorageError, match="it was removed or replaced while the daemon runs") as refusal:
            build.on(world, machine, store.commit(build.put(build.vm(3)), build.CAUSE))
        assert path in refusal.value.message
        assert "repeat the operation" in refusal.value.hint
        build.on(world, machine, machine.clock.sleep(3))
        build.on(world, machine, store.commit(build.put(build.vm(4)), build.CAUSE))
        world.crash("one")
        assert set(build.opened(world, machine).snapshot.instances) == {"i1", "i2", "i4"}


def test_a_second_daemon_is_refused_with_the_process_of_the_first() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        with pytest.raises(errors.WrongStateError, match=r"process \d+ holds /g/lib/queue/lock") as refused:
            build.opened(world, machine)
        assert "stop it" in refused.value.hint
        build.on(world, machine, store.commit(build.put(build.vm(1)), build.CAUSE))
        build.on(world, machine, store.close())
        assert "i1" in build.opened(world, machine).snapshot.instances


def test_a_folder_without_a_cluster_is_not_taken_for_an_empty_one() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        with pytest.raises(errors.ConfigurationError, match=r"config\.data does not exist"):
            build.opened(world, machine)
        build.new_store(world, machine)
        world.kill("one")
        with pytest.raises(errors.ExistsError):
            build.on(world, machine, creation.create(machine, build.WHERE, build.FIRST))


def test_a_closed_store_takes_nothing_and_has_written_what_it_took() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)

        async def end() -> None:
            ticket = store.submit(build.put(build.vm(1)), build.CAUSE)
            await store.close()
            assert ticket.done()
            with pytest.raises(errors.WrongStateError):
                store.submit(build.put(build.vm(2)), build.CAUSE)

        build.on(world, machine, end())
        world.crash("one")
        assert set(build.opened(world, machine).snapshot.instances) == {"i1"}


@pytest.mark.promise("cluster-151")
def test_the_configuration_is_read_once_and_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)

        def refuse(path: str) -> bytes:
            raise OSError(errno.EIO, "nothing may be read", path)

        monkeypatch.setattr(machine.disk, "read", refuse)
        for number in range(20):
            build.on(world, machine, store.commit(build.put(build.vm(number)), build.CAUSE))
            assert store.snapshot.instance(f"inst{number}").uuid == f"i{number}"


def test_the_lowest_job_is_the_lowest_that_is_not_in_the_archive_yet() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)
        assert store.lowest_job == 1
        build.on(world, machine, store.commit(build.put(*map(build.queued, (1, 2, 3))), build.CAUSE))
        assert store.lowest_job == 1
        build.on(world, machine, store.commit([snapshot.Delete("jobs", "1")], build.CAUSE))
        assert (store.lowest_job, set(store.leaving)) == (1, {1})
        world.run(asyncio.sleep(2))
        assert (store.lowest_job, set(store.leaving)) == (2, set())


class History:
    """Random changes, and each state that may follow; ``acknowledged`` is the highest acknowledged serial."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.states: dict[int, list[dict[str, object]]] = {}
        self.acknowledged = 1
        self.archived: set[int] = set()

    def changes(self, state: snapshot.Snapshot) -> list[snapshot.Change]:
        number = self.choice.randrange(8)
        job = self.choice.choice([None, *state.jobs.values()])
        match self.choice.randrange(5):
            case 0 if f"i{number}" in state.instances:
                return [snapshot.Delete("instances", f"i{number}"), *build.put(build.vm(number + 8))]
            case 1:
                return build.put(build.queued(state.last_job + 1), build.queued(state.last_job + 2))
            case 2 if job is not None:
                return build.put(build.ended(job))
            case 3 if job is not None:
                return [snapshot.Delete("jobs", str(job.id))]
        return build.put(build.vm(number, ip=f"10.0.0.{number}", tags=(f"t{self.choice.randrange(100)}",)))

    async def work(self, store: transaction.Store, runtime: simulated.SimulatedRuntime) -> None:
        while True:
            await runtime.clock.sleep(self.choice.choice([0.0, 0.001, 0.01, 0.4]))
            try:
                ticket = store.submit(self.changes(store.snapshot), build.CAUSE)
            except errors.PrerequisiteError:
                continue
            self.states.setdefault(store.snapshot.serial, []).append(build.content(store.snapshot))
            try:
                state = await ticket
            except errors.StorageError:
                disk_is_faulty = runtime.disk.capacity is not None or runtime.disk.fail_sync
                assert disk_is_faulty
            else:
                self.acknowledged = state.serial
                self.states[state.serial] = [build.content(state)]

    async def daemon(self, runtime: simulated.SimulatedRuntime) -> None:
        try:
            store = await transaction.Store.open(runtime, build.WHERE, limits=transaction.Limits(records=9))
            self.states[store.snapshot.serial] = [build.content(store.snapshot)]
            await asyncio.gather(*(self.work(store, runtime) for _ in range(4)))
        except errors.StorageError:
            assert runtime.disk.fail_sync


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    lives=st.lists(
        st.tuples(st.floats(0, 3), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.0, 0.1, 0.5])),
        min_size=1,
        max_size=4,
    ),
)
def test_whenever_the_machine_dies_every_acknowledged_change_is_there_and_nothing_half(
    seed: int, lives: list[tuple[float, bool, bool, float]]
) -> None:
    with simulated.World(seed=seed) as world:
        machine = world.machine("one")
        build.on(world, machine, creation.create(machine, build.WHERE, build.FIRST))
        history = History(seed)
        for duration, power, full, failing in lives:
            machine.spawn(history.daemon(machine))
            world.run(asyncio.sleep(duration / 3))
            machine.disk.fail_sync = failing
            world.run(asyncio.sleep(duration / 3))
            if full:
                total, free = machine.disk.free_space("/")[::-1]
                machine.disk.capacity = total - free + 200
            world.run(asyncio.sleep(duration / 3))
            machine.disk.capacity, machine.disk.fail_sync = None, 0.0
            (world.crash if power else world.kill)("one")
            state = build.opened(world, machine).snapshot
            assert state.serial >= history.acknowledged
            if state.serial > 1:
                assert build.content(state) in history.states[state.serial]
            world.kill("one")
        _check_files(world, machine)


def _check_files(world: simulated.World, machine: simulated.SimulatedRuntime) -> None:
    # The first sync reports failures that are already over.
    with contextlib.suppress(OSError):
        build.on(world, machine, machine.disk.sync("/"))
    store = build.opened(world, machine)
    build.on(world, machine, store.close())
    files = {name for name in machine.disk.names(build.WHERE.queue) if name.startswith("job-")}
    assert files == {f"job-{number}" for number in store.snapshot.jobs}
    archived = set()
    if machine.disk.exists(f"{build.WHERE.queue}/archive/0"):
        archived = set(machine.disk.names(f"{build.WHERE.queue}/archive/0"))
    assert files | archived == {f"job-{number + 1}" for number in range(store.snapshot.last_job)}
    assert all(store.archive.job(int(name.removeprefix("job-"))) for name in archived)

import asyncio

import msgspec
import pytest
from tests.state import build

from gantry import errors
from gantry.lib_files import journal_names
from gantry.runtime import simulated
from gantry.state.files import export
from gantry.state.journal import history, journal
from gantry.state.objects import snapshot
from gantry.state.store import events


class StoreWithEvents:
    """A store with its events on a simulated machine."""

    def __init__(self, world: simulated.World) -> None:
        self.world = world
        self.machine = world.machine("one")
        fresh = not self.machine.disk.exists(build.WHERE.config)
        self.store = (build.new_store if fresh else build.opened)(world, self.machine)
        self.past = history.History(self.machine, build.WHERE, lambda: self.store.durable)
        self.events = events.Events(self.store, self.past)

    def commit(self, *changes: snapshot.Change) -> None:
        build.on(self.world, self.machine, self.store.commit(changes, build.CAUSE))

    def after(self, serial: int, *, limit: int = 100, timeout: float = 0) -> list[events.Event]:
        return build.on(self.world, self.machine, self.events.after(serial, limit=limit, timeout=timeout))

    def serials(self, question: events.Question, *, limit: int = 100) -> list[int]:
        past_events = build.on(self.world, self.machine, self.events.past(question, limit=limit))
        return [event.serial for event in past_events]


def change_much(store_with_events: StoreWithEvents) -> None:
    """Records 2 to 7."""
    store_with_events.commit(*build.put(build.vm(1), build.vm(2)))
    store_with_events.commit(*build.put(msgspec.structs.replace(build.vm(1), serial_no=2)))
    store_with_events.commit(*build.put(build.queued(1)))
    store_with_events.commit(*build.put(build.ended(build.queued(1))))
    store_with_events.commit(snapshot.Delete("instances", "i1"), snapshot.Delete("jobs", "1"))
    store_with_events.commit()


def test_an_event_says_what_became_of_each_object_and_why() -> None:
    with simulated.World(seed=1) as world:
        store_with_events = StoreWithEvents(world)
        change_much(store_with_events)
        past_events = store_with_events.after(1)
        assert [event.serial for event in past_events] == [2, 3, 4, 5, 6, 7]
        changes = [[(change.kind, change.name, change.what) for change in event.changes] for event in past_events]
        assert changes == [
            [("instance", "inst1", "added"), ("instance", "inst2", "added")],
            [("instance", "inst1", "changed")],
            [("job", "1", "queued")],
            [("job", "1", "success")],
            [("instance", "inst1", "removed"), ("job", "1", "archived")],
            [],
        ]
        assert {event.cause for event in past_events} == {build.CAUSE}


def test_the_journal_tells_the_same_as_the_memory_over_a_restart() -> None:
    with simulated.World(seed=1) as world:
        store_with_events = StoreWithEvents(world)
        change_much(store_with_events)
        events_before = store_with_events.after(1)
        for end in (world.kill, world.crash):
            end("one")
            store_with_events = StoreWithEvents(world)
            assert store_with_events.after(1) == events_before
        store_with_events.commit(*build.put(build.vm(9)))
        whole = store_with_events.after(0)
        assert [event.serial for event in whole] == list(range(1, 9))
        assert whole[1:7] == events_before


def test_a_stream_is_resumed_at_any_serial_in_parts_of_any_size() -> None:
    with simulated.World(seed=1) as world:
        store_with_events = StoreWithEvents(world)
        change_much(store_with_events)
        world.kill("one")
        store_with_events = StoreWithEvents(world)
        store_with_events.commit(*build.put(build.vm(9)))
        for limit in (1, 2, 3, 100):
            serials: list[int] = []
            while part := store_with_events.after(serials[-1] if serials else 0, limit=limit):
                assert len(part) <= limit
                serials += [event.serial for event in part]
            assert serials == list(range(1, 9))


def test_who_follows_hears_of_a_change_when_it_is_safe_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated.World(seed=1) as world:
        store_with_events = StoreWithEvents(world)
        assert store_with_events.after(1, timeout=5) == []

        async def fail(line: bytes, follow_up: object) -> None:
            raise OSError(28, "No space left on device")

        async def follow() -> list[events.Event]:
            waiting = asyncio.create_task(store_with_events.events.after(1, limit=10, timeout=60))
            with monkeypatch.context() as patch:
                patch.setattr(journal.Journal, "append", staticmethod(fail))
                with pytest.raises(errors.StorageError):
                    await store_with_events.store.commit(build.put(build.vm(1)), build.CAUSE)
            await asyncio.sleep(1)
            assert not waiting.done()
            await store_with_events.store.commit(build.put(build.vm(2)), build.CAUSE)
            return await waiting

        (event,) = build.on(world, store_with_events.machine, follow())
        assert (event.serial, event.changes[0].name) == (2, "inst2")


def test_memory_is_bounded_and_the_journal_has_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KEPT", 3)
    with simulated.World(seed=1) as world:
        store_with_events = StoreWithEvents(world)
        for number in range(10):
            store_with_events.commit(*build.put(build.vm(number)))
        assert [event.serial for event in store_with_events.after(0)] == list(range(1, 12))
        assert [event.serial for event in store_with_events.after(9)] == [10, 11]


def test_the_past_of_an_object_is_found_by_kind_name_serial_and_time() -> None:
    with simulated.World(seed=1) as world:
        store_with_events = StoreWithEvents(world)
        change_much(store_with_events)
        assert store_with_events.serials(events.Question(kind="instance")) == [2, 3, 6]
        assert store_with_events.serials(events.Question(kind="instance", name="inst1")) == [2, 3, 6]
        assert store_with_events.serials(events.Question(kind="instance", name="inst1", serial=4)) == [6]
        assert store_with_events.serials(events.Question(name="i2")) == [2]
        assert store_with_events.serials(events.Question(kind="job", name="1")) == [4, 5, 6]
        assert store_with_events.serials(events.Question(serial=6)) == [6, 7]
        assert store_with_events.serials(events.Question(time=world.clock.now() + 1)) == []
        third = store_with_events.after(1)[1]
        assert store_with_events.serials(events.Question(time=third.time))[0] == third.serial
        assert store_with_events.serials(events.Question(), limit=2) == [6, 7]


def test_a_check_of_the_journal_names_file_and_offset_of_what_was_changed() -> None:
    with simulated.World(seed=1) as world:
        store_with_events = StoreWithEvents(world)
        change_much(store_with_events)
        build.on(world, store_with_events.machine, store_with_events.store.close())
        store_with_events = StoreWithEvents(world)
        assert build.on(world, store_with_events.machine, store_with_events.past.check()) == history.Check(1, 1)
        newest = build.on(world, store_with_events.machine, store_with_events.past.check(most=1))
        assert (newest.problem, newest.oldest) == ("", 1)
        path = journal_names.path(build.WHERE.journal, 2)
        store_with_events.machine.disk.flip(path, 100)
        assert (
            f"{path}, byte offset 0: "
            in build.on(world, store_with_events.machine, store_with_events.past.check()).problem
        )


@pytest.mark.promise("cluster-80")
def test_an_export_has_the_whole_configuration_and_no_secrets() -> None:
    vm = msgspec.structs.replace(
        build.vm(1), osparams={"root_password": "hunter2", "API_KEY": "k3y", "mirror": "192.0.2.1"}
    )
    owner = msgspec.structs.replace(
        build.OWNER,
        osparams={"debian": {"secret": "s3cret", "size": 3}},
        osparams_private_cluster={"debian": {"login": "pr1vate"}},
        ipam_database="postgresql://gantry:pa55@db.example/ipam",
    )
    state = snapshot.Snapshot().apply(build.put(owner, *(build.GROUP, build.NET, build.node(0)), vm), serial=7)
    exported = export.configuration(state)
    text = msgspec.json.encode(exported).decode()
    assert exported["serial_no"] == 7
    assert {"version", "cluster", "nodegroups", "nodes", "networks", "instances"} <= set(exported)
    for word in ("hunter2", "k3y", "s3cret", "pr1vate", "pa55"):
        assert word not in text
    for word in ("inst1", "192.0.2.1", "root_password", "db.example", export.BLANK):
        assert word in text

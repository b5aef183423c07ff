import asyncio
import json
import re
from collections.abc import Mapping

import pytest
from tests.state import build

from gantry import errors
from gantry.runtime import simulated
from gantry.state.files import checkpoint, jobfiles
from gantry.state.objects import snapshot
from gantry.state.store import transaction

QUEUE = build.WHERE.queue


def submitted(world: simulated.World, machine: simulated.SimulatedRuntime, count: int = 3) -> transaction.Store:
    store = build.new_store(world, machine)
    jobs = [build.queued(number) for number in range(1, count + 1)]
    build.on(world, machine, store.commit(build.put(*jobs), build.CAUSE))
    return store


@pytest.mark.promise("cluster-60", "cluster-61")
def test_each_job_is_a_json_file_beside_lock_serial_and_version() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = submitted(world, machine)
        build.on(world, machine, store.commit(build.put(build.ended(build.queued(2))), build.CAUSE))
        world.run(asyncio.sleep(2))
        assert machine.disk.names(QUEUE) == ["job-1", "job-2", "job-3", "lock", "serial", "version"]
        assert machine.disk.read(f"{QUEUE}/serial") == b"3\n"
        assert machine.disk.read(f"{QUEUE}/version") == b"1\n"
        assert machine.disk.status(f"{QUEUE}/job-2").mode == 0o640
        assert json.loads(machine.disk.read(f"{QUEUE}/job-2")) == {
            "id": 2,
            "ops": [
                {
                    "input": {"OP_ID": "OP_TEST_DELAY", "duration": 1.0},
                    "status": "success",
                    "result": None,
                    "log": [[1, [1, 5], "message", "slept"]],
                    "priority": 0,
                    "start_timestamp": None,
                    "exec_timestamp": None,
                    "end_timestamp": None,
                    "right": "",
                }
            ],
            "received_timestamp": [1, 2],
            "start_timestamp": None,
            "end_timestamp": [3, 4],
            "submitter": None,
            "request": "",
        }


@pytest.mark.promise("cluster-67")
def test_an_archived_job_moves_to_its_folder_and_is_never_read_again() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = submitted(world, machine, 1)
        build.on(world, machine, store.commit(build.put(build.queued(20001)), build.CAUSE))
        for number in (1, 20001):
            build.on(world, machine, store.commit([snapshot.Delete("jobs", str(number))], build.CAUSE))
        world.run(asyncio.sleep(2))
        assert not [name for name in machine.disk.names(QUEUE) if name.startswith("job-")]
        assert json.loads(machine.disk.read(f"{QUEUE}/archive/2/job-20001"))["id"] == 20001
        build.on(world, machine, store.close())
        machine.disk.flip(f"{QUEUE}/archive/0/job-1", 3)
        again = build.opened(world, machine)
        assert len(again.snapshot.jobs) == 0
        assert again.snapshot.last_job == 20001


def test_nothing_is_kept_in_memory_of_an_archived_job() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = submitted(world, machine)
        build.on(world, machine, store.commit([snapshot.Delete("jobs", "2")], build.CAUSE))
        world.run(asyncio.sleep(2))
        assert store.archive.job(2) == build.queued(2)
        assert set(store._files._written) == {1, 3}
        assert not store.leaving


def test_many_changes_of_a_job_cost_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = submitted(world, machine)
        world.run(asyncio.sleep(2))
        written: list[tuple[str, bool]] = []
        write = machine.disk.write

        async def count(path: str, data: bytes, *, mode: int = 0o640, sync: bool = True) -> None:
            written.append((path, sync))
            await write(path, data, mode=mode, sync=sync)

        monkeypatch.setattr(machine.disk, "write", count)

        async def change_often() -> None:
            await asyncio.gather(*(store.commit(build.put(build.queued(2)), build.CAUSE) for _ in range(50)))

        build.on(world, machine, change_often())
        world.run(asyncio.sleep(3))
        assert written == [(f"{QUEUE}/job-2", False)]


def test_a_job_that_did_not_change_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = submitted(world, machine)
        world.run(asyncio.sleep(2))
        written: list[str] = []
        write_all = machine.disk.write_all

        async def count(files: Mapping[str, bytes]) -> dict[str, OSError]:
            written.extend(files)
            return await write_all(files)

        monkeypatch.setattr(machine.disk, "write_all", count)
        build.on(
            world, machine, store.commit(build.put(store.snapshot.jobs["1"], build.ended(build.queued(2))), build.CAUSE)
        )
        world.run(asyncio.sleep(2))
        assert [path for path in written if "/job-" in path] == [f"{QUEUE}/job-2"]


def test_a_file_that_comes_back_after_its_job_was_archived_is_put_away(caplog: pytest.LogCaptureFixture) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = submitted(world, machine)
        world.run(asyncio.sleep(2))
        old = machine.disk.read(f"{QUEUE}/job-3")
        build.on(world, machine, store.commit([snapshot.Delete("jobs", "3")], build.CAUSE))
        build.on(world, machine, store.close())
        build.on(world, machine, machine.disk.write(f"{QUEUE}/job-3", old))
        again = build.opened(world, machine)
        assert set(again.snapshot.jobs) == {"1", "2"}
        assert not machine.disk.exists(f"{QUEUE}/job-3")
        assert f"{QUEUE}/job-3: the job is archived" in caplog.text


EDITS: list[tuple[bytes, bytes]] = [
    (b'"ops', b'"oops'),
    (b'"id":1', b'"id":2'),
    (b'"status":"queued"', b'"status":"success"'),
    (b'"duration":1.0', b'"duration":9.0'),
    (b"{", b"{\n "),
    (b"OP_TEST_DELAY", b"OP_TEST_\xff"),
    (b'"ops":[', b'"ops":' + b"[" * 40_000),
]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit[1][:12].decode(errors="replace"))
def test_an_edited_job_file_is_rewritten_from_the_journal(
    edit: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = submitted(world, machine)
        before = store.snapshot.jobs["1"]
        build.on(world, machine, store.close())
        written = machine.disk.read(f"{QUEUE}/job-1")
        edited = written.replace(*edit, 1)
        assert edited != written
        build.on(world, machine, machine.disk.write(f"{QUEUE}/job-1", edited))
        again = build.opened(world, machine)
        assert again.snapshot.jobs["1"] == before
        assert (
            f"{QUEUE}/job-1: the file does not match its digest in the checkpoint; rewritten from record" in caplog.text
        )
        world.run(asyncio.sleep(2))
        assert machine.disk.read(f"{QUEUE}/job-1") == written


def test_a_lost_job_file_is_rewritten_from_the_journal() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = submitted(world, machine)
        before = store.snapshot.jobs["1"]
        build.on(world, machine, store.close())
        build.on(world, machine, machine.disk.remove(f"{QUEUE}/job-1"))
        assert build.opened(world, machine).snapshot.jobs["1"] == before


def test_a_damaged_or_missing_file_of_a_job_that_is_nowhere_else_stops_the_daemon() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        build.on(world, machine, submitted(world, machine).close())
        build.on(world, machine, machine.disk.remove_tree(build.WHERE.journal))
        build.on(world, machine, machine.disk.write(f"{QUEUE}/job-1", b'{"id": 1, "ops'))
        with pytest.raises(errors.ConfigurationError, match=f"damaged: {QUEUE}/job-1: "):
            build.opened(world, machine)
        build.on(world, machine, machine.disk.remove(f"{QUEUE}/job-1"))
        with pytest.raises(errors.ConfigurationError, match=f"{QUEUE}/job-1: No such file"):
            build.opened(world, machine)


def test_files_that_a_full_disk_did_not_take_are_written_when_there_is_room(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)

        async def refuse(path: str, data: bytes, *, mode: int = 0o640, sync: bool = True) -> None:
            raise OSError(28, "No space left on device", path)

        with monkeypatch.context() as patch:
            patch.setattr(machine.disk, "write", refuse)
            build.on(world, machine, store.commit(build.put(build.queued(1), build.queued(2)), build.CAUSE))
            world.run(asyncio.sleep(5))
        assert caplog.text.count("job files cannot be written") == 1
        world.run(asyncio.sleep(2))
        assert machine.disk.exists(f"{QUEUE}/job-1")
        assert machine.disk.exists(f"{QUEUE}/job-2")


@pytest.mark.parametrize("seed", range(10))
def test_an_archived_job_is_whole_after_a_loss_of_power_at_any_moment(seed: int) -> None:
    with simulated.World(seed=seed) as world:
        machine = world.machine("one")
        store = submitted(world, machine)
        build.on(world, machine, store.close())
        store = build.opened(world, machine)
        build.on(world, machine, store.commit([snapshot.Delete("jobs", "2")], build.CAUSE))
        for _ in range(2):
            world.run(asyncio.sleep(1 + seed / 1000))
            world.crash("one")
            store = build.opened(world, machine)
            assert "2" not in store.snapshot.jobs
            assert store.archive.job(2) == build.queued(2)


@pytest.mark.parametrize("seed", range(10))
def test_an_archived_job_whose_sync_failed_once_is_whole_after_a_loss_of_power(seed: int) -> None:
    with simulated.World(seed=seed) as world:
        machine = world.machine("one")
        store = submitted(world, machine)
        gone: list[snapshot.Change] = [snapshot.Delete("jobs", "2")]
        build.on(world, machine, store.commit([*build.put(build.ended(build.queued(2)))], build.CAUSE))
        build.on(world, machine, store.commit(gone, build.CAUSE))
        machine.disk.fail_sync = True
        world.run(asyncio.sleep(1.5))
        machine.disk.fail_sync = False
        build.on(world, machine, store.close())
        world.crash("one")
        store = build.opened(world, machine)
        assert "2" not in store.snapshot.jobs
        assert store.archive.job(2) == build.ended(build.queued(2))


def test_a_checkpoint_after_a_failed_sync_has_the_files_that_it_names_on_the_disk() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = submitted(world, machine)
        world.run(asyncio.sleep(1.5))
        machine.disk.fail_sync = True
        with pytest.raises(OSError):
            build.on(world, machine, machine.disk.sync(QUEUE))
        machine.disk.fail_sync = False
        build.on(world, machine, store.close())
        store = build.opened(world, machine)
        build.on(world, machine, store.commit(build.put(build.vm(1)), build.CAUSE))
        build.on(world, machine, store.close())
        for number in (1, 2, 3):
            assert machine.disk.stable(f"{QUEUE}/job-{number}") == machine.disk.read(f"{QUEUE}/job-{number}")


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_whose_file_somebody_removed_is_archived_all_the_same(restarted: bool) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = submitted(world, machine)
        world.run(asyncio.sleep(2))
        if restarted:
            build.on(world, machine, store.close())
            store = build.opened(world, machine)
        build.on(world, machine, machine.disk.remove(f"{QUEUE}/job-2"))
        build.on(world, machine, store.commit([snapshot.Delete("jobs", "2")], build.CAUSE))
        world.run(asyncio.sleep(2))
        assert machine.disk.exists(f"{QUEUE}/archive/0/job-2")
        assert store.archive.job(2) == build.queued(2)


def test_a_checkpoint_is_written_while_jobs_change_faster_than_their_files() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine, limits=transaction.Limits(records=20))

        async def load() -> int:
            for number in range(1, 400):
                await store.commit(build.put(*(build.queued(10 * number + more) for more in range(10))), build.CAUSE)
            return checkpoint.decode(machine.disk.read(build.WHERE.config), path="").position.serial

        assert build.on(world, machine, load()) > 20


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"id": 1, "ops', "Input data was truncated"),
        (b'{"id": 1, "ops": 5}', r"Expected `array`, got `int` - at `\$\.ops`"),
        (b'{"new": ' + b"[" * 40_000, "recursion"),
        (jobfiles.encode(build.queued(2)), "the file holds job 2"),
        (None, "No such file or directory"),
    ],
    ids=["truncated", "of another type", "nested", "of another job", "missing"],
)
def test_a_job_file_that_cannot_be_used_is_read_as_the_reason(content: bytes | None, why: str) -> None:
    with simulated.World(seed=1) as world:
        disk = world.machine("one").disk
        if content is not None:
            world.run(disk.make_directory("/queue"))
            world.run(disk.write("/queue/job-1", content))
        reason = jobfiles.read(disk, "/queue", 1)
        assert isinstance(reason, str)
        assert re.search(why, reason)

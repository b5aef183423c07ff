"""The readers of what survives, over damaged files: the right data, or a ConfigurationError, and nothing else."""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.fuzz import budget, damage
from tests.state import build

from gantry import errors
from gantry.lib_files import queue as queue_file
from gantry.runtime import file_interface, interface, simulated
from gantry.state.files import checkpoint, jobfiles
from gantry.state.journal import history, journal, record
from gantry.state.objects import snapshot
from gantry.state.store import transaction

LIB = build.WHERE.lib
FOLDER = build.WHERE.journal


class Files:
    """The part of a disk that reads, over contents by path."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents = contents

    def exists(self, path: str) -> bool:
        return any(name == path or name.startswith(f"{path}/") for name in self.contents)

    def names(self, path: str) -> list[str]:
        below = [name.removeprefix(f"{path}/") for name in self.contents if name.startswith(f"{path}/")]
        return sorted({name.partition("/")[0] for name in below})

    def read(self, path: str) -> bytes:
        if path not in self.contents:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.contents[path]

    def status(self, path: str) -> file_interface.FileStatus:
        return file_interface.FileStatus(size=len(self.read(path)), mtime=0.0, mode=0o640, is_directory=False)


def reading(contents: Mapping[str, bytes]) -> interface.Disk:
    return cast("interface.Disk", Files(contents))


@dataclass(frozen=True, repr=False)
class Truth:
    """The files of a store that was killed, its records in order, and the state after each of them."""

    files: dict[str, bytes]
    records: list[record.Record]
    states: dict[int, dict[str, object]]
    checkpointed: int

    @property
    def segments(self) -> list[str]:
        return sorted(path for path in self.files if path.startswith(f"{FOLDER}/"))


@pytest.fixture(scope="module")
def truth() -> Truth:
    """A journal of four segments with a checkpoint after the third: jobs, instances, tags, deletions."""
    states: dict[int, dict[str, object]] = {}
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)

        async def commit(round_: int) -> None:
            tickets = []
            for number in range(round_ * 10, round_ * 10 + 4):
                address = build.vm(number, ip=f"10.0.0.{number + 1}", tags=("a" * 200,))
                tickets.append(store.submit(build.put(address, build.queued(number + 1)), build.CAUSE))
                states[store.snapshot.serial] = build.content(store.snapshot)
            await asyncio.gather(*tickets)
            await store.commit(build.put(build.ended(build.queued(round_ * 10 + 1))), build.CAUSE)
            states[store.snapshot.serial] = build.content(store.snapshot)
            gone: list[snapshot.Change] = [
                snapshot.Delete("instances", f"i{round_ * 10 + 1}"),
                snapshot.Delete("jobs", str(round_ * 10 + 2)),
            ]
            await store.commit(gone, build.CAUSE)
            states[store.snapshot.serial] = build.content(store.snapshot)

        states[1] = build.content(store.snapshot)
        build.on(world, machine, commit(0))
        for round_ in (1, 2):
            build.on(world, machine, store.close())
            store = build.opened(world, machine)
            build.on(world, machine, commit(round_))
        world.run(asyncio.sleep(3))
        world.kill("one")
        files = {path: machine.disk.read(path) for path in _paths(machine.disk, LIB)}
    tail = checkpoint.decode(files[build.WHERE.config], path="config.data").position.serial
    truth = Truth(files, list(history.records(reading(files), FOLDER)), states, tail)
    assert [each.serial for each in truth.records] == sorted(states)
    assert len(truth.segments) == 4
    return truth


def _paths(disk: interface.Disk, folder: str) -> Iterator[str]:
    for name in disk.names(folder):
        path = f"{folder}/{name}"
        try:
            disk.read(path)
            yield path
        except OSError:
            yield from _paths(disk, path)


def _kept(records: Iterable[record.Record]) -> list[record.Record]:
    """Return the records that come before the end, or before an error that names the folder."""
    readable: list[record.Record] = []
    with contextlib.suppress(errors.ConfigurationError):
        readable.extend(records)
    return readable


@budget.quick
@given(which=st.integers(0, 3), edit=damage.edited())
def test_the_history_is_returned_as_it_was_or_not_at_all(truth: Truth, which: int, edit: damage.Edit) -> None:
    path = truth.segments[which]
    changed = edit(truth.files[path])
    disk = reading({**truth.files, path: changed})
    # Without its oldest segment, the history is as if that segment had been archived.
    first = 0 if changed or which else int(truth.segments[1].rpartition("/")[2].removesuffix(".log"))
    known = [each for each in truth.records if each.serial >= first]
    for newest_first in (False, True):
        actual = _kept(history.records(disk, FOLDER, newest_first=newest_first))
        order = known[::-1] if newest_first else known
        kept = [each for each in order if each.serial <= actual[0].serial] if newest_first and actual else order
        assert actual == kept[: len(actual)]


@budget.quick
@given(which=st.integers(0, 3), edit=damage.edited(), after=st.booleans())
def test_a_replay_returns_the_written_records_or_stops(
    truth: Truth, which: int, edit: damage.Edit, after: bool
) -> None:
    path = truth.segments[which]
    start = journal.Position()
    if after:
        start = checkpoint.decode(truth.files[build.WHERE.config], path="").position
    replay = journal.Replay(reading({**truth.files, path: edit(truth.files[path])}), FOLDER, start)
    actual = _kept(replay)
    expected = [each for each in truth.records if each.serial > start.serial]
    assert actual == expected[: len(actual)]


@budget.quick
@given(edit=damage.edited())
def test_a_configuration_is_read_as_it_was_written_or_refused(truth: Truth, edit: damage.Edit) -> None:
    written = truth.files[build.WHERE.config]
    changed = edit(written)
    # Such a line marks the edit as intended.
    assume(not checkpoint._EDITED.match(changed))
    try:
        decoded = checkpoint.decode(changed, path="config.data")
    except errors.ConfigurationError as error:
        message = str(error)
        assert "config.data" in message
    else:
        assert decoded == checkpoint.decode(written, path="config.data")


@budget.quick
@given(edit=damage.edited(), known=st.booleans())
def test_a_job_file_is_read_as_a_job_of_its_number_or_refused(truth: Truth, edit: damage.Edit, known: bool) -> None:
    path = queue_file.path(build.WHERE.queue, 1)
    written = truth.files[path]
    disk = reading({path: edit(written)})
    job = jobfiles.read(disk, build.WHERE.queue, 1, expected=queue_file.digest(written) if known else None)
    if not isinstance(job, str):
        assert job.id == 1
        assert job.status
        assert not known or jobfiles.encode(job) == written


@budget.slow
@given(data=st.data(), edit=damage.edited(2), lost=st.booleans())
def test_a_daemon_starts_with_what_was_stored_or_says_which_file_is_damaged(
    truth: Truth, data: st.DataObject, edit: damage.Edit, lost: bool
) -> None:
    path = data.draw(st.sampled_from(sorted(truth.files)))
    files = dict(truth.files)
    changed = edit(files.pop(path))
    assume(path != build.WHERE.config or lost or not checkpoint._EDITED.match(changed))
    if not lost:
        files[path] = changed
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        build.on(world, machine, _write(machine.disk, files))
        try:
            store = build.on(world, machine, transaction.Store.open(machine, build.WHERE))
        except errors.ConfigurationError as error:
            message = str(error)
            assert LIB in message
            return
        state = build.content(store.snapshot)
        assert state == truth.states[store.snapshot.serial]
        assert store.snapshot.serial == truth.records[-1].serial


async def _write(disk: interface.Disk, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        await disk.make_directory(path.rpartition("/")[0])
        await disk.write(path, content)

"""Damage to the whole folder of a state: what was written is read, or a ConfigurationError names what is missing."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz import budget
from tests.state import build

from gantry import errors
from gantry.runtime import simulated

LIB, JOURNAL, QUEUE = build.WHERE.lib, build.WHERE.journal, build.WHERE.queue

Files = Mapping[str, bytes]


@dataclass(frozen=True, repr=False)
class Folder:
    """The files of a killed master, those of an earlier moment, and the content of the state."""

    files: Files
    backup: Files
    content: dict[str, object]


def _read(machine: simulated.SimulatedRuntime) -> Files:
    return {path: content for path, (_, content) in machine.disk.image().items() if content is not None}


def working_master(*, checkpointed: bool) -> Folder:
    """Let a master work, with a checkpoint after its first changes or with none since the cluster was created."""
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        store = build.new_store(world, machine)

        async def work(first: int) -> None:
            for number in range(first, first + 6):
                await store.commit(build.put(build.vm(number), build.queued(number)), build.CAUSE)
            await asyncio.sleep(3)

        build.on(world, machine, work(1))
        backup = _read(machine)
        if checkpointed:
            build.on(world, machine, store.close())
            store = build.opened(world, machine)
        build.on(world, machine, work(7))
        content = build.content(store.snapshot)
        world.kill("one")
        return Folder(_read(machine), backup, content)


@pytest.fixture(scope="module", params=[False, True], ids=["since-init", "checkpointed"])
def folder(request: pytest.FixtureRequest) -> Folder:
    return working_master(checkpointed=request.param)


def newest(files: Files) -> str:
    return max(path for path in files if path.startswith(f"{JOURNAL}/") and files[path])


def _is_in(path: str, *parts: str) -> bool:
    return any(path == part or path.startswith(f"{part}/") for part in parts)


def truncated(folder: Folder, chance: random.Random) -> Files:
    """Cut the newest segment, often at the end of a frame."""
    path = newest(folder.files)
    data = folder.files[path]
    ends = [index + 1 for index, byte in enumerate(data) if byte == 10]
    at = chance.choice([0, *ends]) if chance.random() < 0.7 else chance.randrange(len(data))
    return {**folder.files, path: data[:at]}


def removed(folder: Folder, chance: random.Random) -> Files:
    """Remove the newest segment, or all of them."""
    gone = {newest(folder.files)} if chance.random() < 0.5 else {path for path in folder.files if _is_in(path, JOURNAL)}
    return {path: content for path, content in folder.files.items() if path not in gone}


def restored(folder: Folder, chance: random.Random) -> Files:
    """Restore some parts of the folder from an older backup, but not all that tell of the end of the journal."""
    witness = chance.choice([QUEUE, build.WHERE.journal_end])
    parts = [JOURNAL, build.WHERE.config, witness]
    old = tuple(chance.sample(parts, chance.randint(1, 3)))
    kept = {path: content for path, content in folder.files.items() if not _is_in(path, *old)}
    return kept | {path: content for path, content in folder.backup.items() if _is_in(path, *old)}


def swapped(folder: Folder, chance: random.Random) -> Files:
    """Swap the content of two files."""
    first, second = chance.sample(sorted(folder.files), 2)
    return {**folder.files, first: folder.files[second], second: folder.files[first]}


def lost(folder: Folder, chance: random.Random) -> Files:
    """Lose one file."""
    gone = chance.choice(sorted(folder.files))
    return {path: content for path, content in folder.files.items() if path != gone}


DAMAGES: list[Callable[[Folder, random.Random], Files]] = [truncated, truncated, removed, restored, swapped, lost]


@budget.folders
@given(chance=st.randoms(use_true_random=False), damage=st.sampled_from(DAMAGES))
def test_no_damage_of_the_folder_is_silent(
    folder: Folder, chance: random.Random, damage: Callable[[Folder, random.Random], Files]
) -> None:
    files = damage(folder, chance)
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        build.on(world, machine, write(machine, files))
        try:
            store = build.opened(world, machine)
        except errors.ConfigurationError as error:
            message = str(error)
            assert LIB in message
            return
        assert build.content(store.snapshot) == folder.content


async def write(machine: simulated.SimulatedRuntime, files: Files) -> None:
    for path, content in files.items():
        await machine.disk.make_directory(path.rpartition("/")[0])
        await machine.disk.write(path, content)

"""Seven hundred damages of a stopped master's folder, counted by what the next start makes of each: none is silent.

All truncations of the newest segment at the end of a frame, some inside frames, and the removal of the newest segments;
then parts from a backup, swapped and lost files, and changed bytes, in turn. ``make test-long`` prints the counts.
"""

import os
import random
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.fuzz import test_folder
from tests.fuzz.test_folder import Files, Folder
from tests.state import build

from gantry import errors
from gantry.lib_files import frame
from gantry.runtime import simulated
from gantry.state.start import recovery
from gantry.state.store import transaction

COUNT = 700 if os.environ.get("GANTRY_LONG") else 140
"""How many damages there are, half of them on each of two clusters."""

INSIDE = 20
"""Truncations inside a frame."""

NAMED, COMPLETED, HARMLESS, SILENT = "named", "completed from a candidate", "harmless", "silent"

RANDOM = [test_folder.restored, test_folder.swapped, test_folder.lost]


def _segments(files: Files) -> list[str]:
    return sorted(path for path in files if path.startswith(f"{test_folder.JOURNAL}/") and files[path])


def _truncations(folder: Folder, chance: random.Random) -> Iterator[Files]:
    path = test_folder.newest(folder.files)
    data = folder.files[path]
    ends = [0, *(index + 1 for index, byte in enumerate(data[:-1]) if byte == 10)]
    for size in [*ends, *(chance.randrange(len(data)) for _ in range(INSIDE))]:
        yield {**folder.files, path: data[:size]}


def _removals(folder: Folder) -> Iterator[Files]:
    segments = _segments(folder.files)
    for count in range(1, len(segments) + 1):
        gone = segments[-count:]
        yield {path: content for path, content in folder.files.items() if path not in gone}


def _changed(folder: Folder, chance: random.Random) -> Files:
    """Change a byte of a file, or fill a part of it with zeros."""
    path = chance.choice(sorted(path for path, content in folder.files.items() if content))
    data = bytearray(folder.files[path])
    at = chance.randrange(len(data))
    if chance.random() < 0.5:
        data[at] ^= 1 << chance.randrange(8)
    else:
        size = min(512, len(data) - at)
        data[at : at + size] = bytes(size)
    return {**folder.files, path: bytes(data)}


def _damages(folder: Folder, chance: random.Random) -> Iterator[Files]:
    yield from _truncations(folder, chance)
    yield from _removals(folder)
    while True:
        for damage in RANDOM:
            yield damage(folder, chance)
        yield _changed(folder, chance)


def _outcome(folder: Folder, files: Files) -> str:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        build.on(world, machine, test_folder.write(machine, files))
        try:
            store = build.opened(world, machine)
            return HARMLESS if build.content(store.snapshot) == folder.content else SILENT
        except errors.ConfigurationError as error:
            refusal = str(error)
    assert test_folder.LIB in refusal
    return COMPLETED if _completed(folder, files) else NAMED


def _completed(folder: Folder, files: Files) -> bool:
    """Return whether a start that takes the missing frames from a candidate has all that was written."""
    lines = [line for path in _segments(folder.files) for line in folder.files[path].splitlines(keepends=True)]
    after = {next(frame.scan(line)).previous: line for line in lines}

    async def work() -> bool:
        store = await transaction.Store.open(machine, build.WHERE, behind=recovery.Behind.COMPLETED)
        while (line := after.get(store.position.digest)) is not None:
            await store.adopt(line)
        store.check_evidence()
        return build.content(store.snapshot) == folder.content

    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        build.on(world, machine, test_folder.write(machine, files))
        try:
            return build.on(world, machine, work())
        except errors.ConfigurationError:
            return False


@pytest.mark.parametrize("checkpointed", [False, True])
def test_none_of_many_damages_is_silent(checkpointed: bool, capsys: pytest.CaptureFixture[str]) -> None:
    folder = test_folder.working_master(checkpointed=checkpointed)
    damages = _damages(folder, random.Random(1))
    counts = Counter(_outcome(folder, files) for files, _ in zip(damages, range(COUNT // 2), strict=False))
    if os.environ.get("GANTRY_LONG"):
        with capsys.disabled():
            parts = ", ".join(f"{counts[outcome]} {outcome}" for outcome in (NAMED, COMPLETED, HARMLESS, SILENT))
            print(f"\n{counts.total()} damages, {'checkpointed' if checkpointed else 'since init'}: {parts}")
    assert counts[SILENT] == 0
    assert counts[COMPLETED] > 0
    assert counts[NAMED] > 0

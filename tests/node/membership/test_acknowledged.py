"""How far changes were acknowledged, as far as a node has heard."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.state import build

from gantry.node.membership import acknowledged
from gantry.rpc.calls import reach
from gantry.runtime import simulated

ON_DISK, IN_MEMORY = reach.files(build.WHERE)


@pytest.fixture
def world() -> Iterator[simulated.World]:
    simulated_world = simulated.World(3)
    for folder in (build.WHERE.lib, build.WHERE.run):
        simulated_world.run(simulated_world.machine("node1").disk.make_directory(folder))
    yield simulated_world
    simulated_world.close()


def test_the_highest_position_counts_at_once_and_is_written_a_moment_later_once_a_second(
    world: simulated.World,
) -> None:
    machine = world.machine("node1")

    async def scenario() -> list[bytes]:
        known = acknowledged.Acknowledged(machine, build.WHERE)
        task = asyncio.create_task(known.keep())
        contents = []
        for serial in range(1, 41):
            known.note((2, serial))
            assert known.furthest() == (2, serial)
            await machine.clock.sleep(0.1)
            contents.append(machine.disk.read(ON_DISK))
        known.note((1, 99))
        await machine.clock.sleep(2)
        assert known.furthest() == (2, 40)
        task.cancel()
        return contents

    contents = world.run(scenario())
    assert len(set(contents)) <= 5
    assert machine.disk.read(ON_DISK) == machine.disk.read(IN_MEMORY) == reach.encode((2, 40), reach.UNKNOWN)
    assert acknowledged.Acknowledged(machine, build.WHERE).furthest() == (2, 40)


@pytest.mark.parametrize("content", [b"", b"9 99 00000000\n", None], ids=["empty", "checksum", "folder"])
def test_a_damaged_file_counts_as_none_and_is_reported(
    world: simulated.World, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    disk = world.machine("node1").disk
    world.run(disk.make_directory(ON_DISK) if content is None else disk.write(ON_DISK, content))
    assert acknowledged.Acknowledged(world.machine("node1"), build.WHERE).furthest() == reach.UNKNOWN
    assert ON_DISK in caplog.text
    world.run(disk.write(IN_MEMORY, reach.encode((1, 7))))
    assert acknowledged.Acknowledged(world.machine("node1"), build.WHERE).furthest() == (1, 7)


def test_the_furthest_record_of_the_earlier_master_is_kept_too(world: simulated.World) -> None:
    machine = world.machine("node1")

    async def scenario() -> None:
        known = acknowledged.Acknowledged(machine, build.WHERE)
        task = asyncio.create_task(known.keep())
        for position in ((1, 50), (3, 41), (3, 42)):
            known.note(position)
        await machine.clock.sleep(3)
        task.cancel()

    world.run(scenario())
    known = acknowledged.Acknowledged(machine, build.WHERE)
    assert known.furthest() == (3, 42)
    assert known.is_any_between((1, 40), (1, 55))
    assert not known.is_any_between((1, 50), (1, 55))
    assert not known.is_any_between((1, 40), (1, 49))


def test_a_node_that_leaves_its_cluster_forgets(world: simulated.World) -> None:
    machine = world.machine("node1")
    world.run(machine.disk.write(ON_DISK, reach.encode((1, 7))))
    known = acknowledged.Acknowledged(machine, build.WHERE)
    assert known.furthest() == (1, 7)
    world.run(known.forget())
    assert known.furthest() == reach.UNKNOWN
    assert not machine.disk.exists(ON_DISK)

"""How the UNIX sockets of a simulated machine carry data and end."""

import asyncio
import errno
from collections.abc import Iterator

import pytest

from gantry.runtime import bytestream
from gantry.runtime.simulated import SimulatedRuntime, World, streams


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=5) as new_world:
        yield new_world


@pytest.fixture
def machine(world: World) -> SimulatedRuntime:
    return world.machine("a")


@pytest.mark.parametrize("closing", [0, 1], ids=["first", "second"])
def test_either_end_closes_a_stream_in_both_directions(world: World, closing: int) -> None:
    async def scenario() -> None:
        ends = streams.pair(100, 100)
        (reader, writer), (other_reader, other_writer) = ends
        writer.write(b"to the second")
        other_writer.write(b"to the first")
        ends[closing][1].close()
        for each in (writer, other_writer):
            assert each.is_closing()
            each.write(b"too late")
            with pytest.raises(ConnectionResetError):
                await each.drain()
            each.close()
        assert await reader.read() == b"to the first"
        assert await other_reader.read() == b"to the second"

    world.run(scenario())


def test_each_reader_has_its_own_limit_and_its_writer_waits_beyond(world: World) -> None:
    async def scenario() -> None:
        (reader, writer), (other_reader, other_writer) = streams.pair(10, 1000)
        assert not writer.is_closing()
        for sender, receiver, size in ((writer, other_reader, 2001), (other_writer, reader, 21)):
            sender.write(b"x" * (size - 1))
            await sender.drain()
            sender.write(b"x")
            draining = asyncio.ensure_future(sender.drain())
            await world.clock.sleep(1)
            assert not draining.done()
            assert await receiver.read(size) == b"x" * size
            await draining

    world.run(scenario())


def test_the_end_of_a_stream_is_reported_to_a_writer_that_waits(world: World) -> None:
    async def scenario() -> None:
        (_, writer), (_, other_writer) = streams.pair(10, 10)
        writer.write(b"x" * 100)
        draining = asyncio.ensure_future(writer.drain())
        await world.clock.sleep(1)
        other_writer.close()
        with pytest.raises(ConnectionResetError):
            await draining

    world.run(scenario())


def test_a_socket_that_is_closed_twice_leaves_the_next_of_its_name_alone(
    world: World, machine: SimulatedRuntime
) -> None:
    async def idle(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        await reader.read()

    async def scenario() -> None:
        first = await machine.network.serve_unix("/sock", idle, mode=0o600, limit=100)
        with pytest.raises(OSError) as caught:
            await machine.network.serve_unix("/sock", idle, mode=0o600, limit=100)
        assert caught.value.errno == errno.EADDRINUSE
        await first.close()
        assert not machine.disk.exists("/sock")
        second = await machine.network.serve_unix("/sock", idle, mode=0o666, limit=100)
        await first.close()
        assert machine.disk.status("/sock").mode == 0o666
        await machine.network.connect_unix("/sock", limit=100)
        await second.close()

    world.run(scenario())


def test_a_handler_can_close_its_own_server(world: World, machine: SimulatedRuntime) -> None:
    events = list[str]()
    servers = list[streams.Server]()

    async def handler(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        try:
            if await reader.read(4) == b"stop":
                await servers[0].close()
                events.append("closed")
            await reader.read()
        finally:
            events.append("ended")

    async def scenario() -> None:
        servers.append(await machine.network.serve_unix("/sock", handler, mode=0o600, limit=100))
        readers = list[bytestream.Reader]()
        for word in (b"wait", b"stop"):
            reader, writer = await machine.network.connect_unix("/sock", limit=100)
            writer.write(word)
            readers.append(reader)
            await world.clock.sleep(1)
        assert await readers[0].read(1) == b""
        assert events == ["ended", "closed"]
        with pytest.raises(FileNotFoundError):
            await machine.network.connect_unix("/sock", limit=100)

    world.run(scenario())


def test_a_connection_that_ends_before_its_handler_began_is_closed(world: World, machine: SimulatedRuntime) -> None:
    async def idle(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        await reader.read()

    async def scenario() -> None:
        server = await machine.network.serve_unix("/sock", idle, mode=0o600, limit=100)
        reader, writer = await machine.network.connect_unix("/sock", limit=100)
        await server.close()
        assert await reader.read() == b""
        assert writer.is_closing()

    world.run(scenario())


def test_peers_of_a_simulated_socket_are_root(world: World, machine: SimulatedRuntime) -> None:
    writers = list[bytestream.Writer]()

    async def handler(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        writers.append(writer)

    async def scenario() -> None:
        await machine.network.serve_unix("/sock", handler, mode=0o600, limit=100)
        await machine.network.connect_unix("/sock", limit=100)
        await world.clock.sleep(1)

    world.run(scenario())
    network, writer = machine.network, writers[0]
    assert (network.is_privileged(writer), network.peer_user(writer)) == (True, "root")
    assert (network.peer_groups(writer), network.is_member(writer, "admins")) == ((), None)

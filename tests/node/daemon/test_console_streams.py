"""Consoles that a node passes on: who gets the stream, how it ends, and that nothing of it stays."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
from tests.node import samples

from gantry import errors
from gantry.lib_files import member
from gantry.node import call_table, drivers
from gantry.node.daemon import console_streams
from gantry.node.hypervisors import fake
from gantry.node.os import stream_tls
from gantry.rpc import calls
from gantry.rpc.calls import console
from gantry.runtime import bytestream, frames, paths
from gantry.runtime.real import RealRuntime

HOST = "127.0.0.1"
Stream = tuple[bytestream.Reader, bytestream.Writer]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - it waits for another end of a socket
            await asyncio.sleep(0.01)


class Terminals(fake.Fake):
    """A hypervisor whose consoles are reached by a terminal, too."""

    async def console(self, name: str) -> calls.Console:
        return calls.Console(instance=name, kind="socat", host="node1", command=("socat", "-"))


class ConsoleDaemon:
    """A node with one guest, whose serial line this test plays."""

    def __init__(self, root: Path) -> None:
        self.runtime = RealRuntime("node1")
        self.folders = paths.Paths.below(str(root))
        self.driver = Terminals(self.runtime.disk, self.folders.instances, self.runtime.network)
        self.consoles = console_streams.Consoles(
            self.runtime,
            drivers.Registry(self.runtime, hypervisors={"fake": self.driver}),
            certificates=self.folders.certificates,
            tls=stream_tls.Contexts(self.runtime.disk, self.folders, secure=False),
        )
        self.table = call_table.Table()
        self.consoles.add_to(self.table)
        self.lines: list[Stream] = []
        self.typed = b""

    async def serve(self, reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        self.lines.append((reader, writer))
        while data := await reader.read(1 << 16):
            self.typed += data
        self.lines.remove((reader, writer))

    async def open(self, token: str, *, user: str = "alice", takes_over: bool = False) -> calls.ConsoleEntrance:
        call = calls.ConsoleOpen(
            token=token, hypervisor="fake", instance="vm1", kind="serial", user=user, takes_over=takes_over
        )
        answer = await self.table.answer(call.procedure(), msgspec.json.encode(call))
        assert isinstance(answer, calls.ConsoleEntrance)
        return answer

    async def client(self, port: int, token: str) -> Stream:
        reader, writer = await self.runtime.network.connect_port(HOST, port, tls=None, limit=1 << 16)
        writer.write(token.encode() + b"\n")
        return reader, writer

    async def until_free(self) -> None:
        await until(lambda: not self.lines)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[ConsoleDaemon]:
    new = ConsoleDaemon(tmp_path)
    identity = member.Member(cluster="lab", node="node1", uuid="u", address=HOST)
    await new.runtime.disk.make_directory(new.folders.certificates)
    await new.runtime.disk.write(member.path(new.folders.certificates), member.encode(identity))
    await new.driver.start(samples.instance("fake"), paused=False)
    line = f"{new.folders.instances}/fake/.vm1.serial"
    server = await new.runtime.network.serve_unix(line, new.serve, mode=0o600, limit=1 << 16)
    try:
        yield new
        await new.until_free()
    finally:
        await server.close()


async def test_a_call_that_is_repeated_has_the_same_answer(node: ConsoleDaemon) -> None:
    first, second = await asyncio.gather(node.open("t"), node.open("t"))
    assert first == second == await node.open("t")
    assert len(node.lines) == 1
    _, writer = await node.client(first.port, "t")
    writer.close()


async def test_a_call_that_fails_leaves_room_for_the_next(node: ConsoleDaemon) -> None:
    await node.driver.stop("vm1", timeout=0)
    for _ in range(2):
        with pytest.raises(errors.WrongStateError, match="vm1 does not run"):
            await node.open("t")
    await node.driver.start(samples.instance("fake"), paused=False)
    opened = await node.open("t")
    _, writer = await node.client(opened.port, "t")
    writer.close()


async def test_the_secret_of_another_console_is_worth_nothing(node: ConsoleDaemon) -> None:
    opened = await node.open("t")
    reader, writer = await node.client(opened.port, "u")
    assert await reader.read() == b""
    writer.close()
    reader, writer = await node.client(opened.port, "t")
    writer.write(b"x")
    await until(lambda: node.typed == b"x")
    writer.close()


async def test_a_console_is_taken_over_from_a_user_whose_client_never_came(node: ConsoleDaemon) -> None:
    await node.open("t")
    assert await node.open("u", user="carol") == calls.ConsoleEntrance(user="alice")
    async with asyncio.timeout(console_streams.CLIENT_TIMEOUT_SECONDS / 2):
        opened = await node.open("u", user="carol", takes_over=True)
    _, writer = await node.client(opened.port, "u")
    writer.close()


async def test_the_client_reads_why_its_console_ends(node: ConsoleDaemon) -> None:
    opened = await node.open("t")
    reader, writer = await node.client(opened.port, "t")
    node.lines[0][1].write(b"bye")
    node.lines[0][1].close()
    received = frames.Frames(reader)
    assert await received.read() == b"bye"
    assert (await received.read(), received.word) == (b"", console.ENDED)
    writer.close()


async def test_a_terminal_reads_who_has_the_console_in_a_browser(node: ConsoleDaemon) -> None:
    call = calls.InstanceConsole(instance=samples.instance("fake"))

    async def message() -> str:
        answer = await node.table.answer(call.procedure(), msgspec.json.encode(call))
        assert isinstance(answer, calls.Console)
        assert answer.command == ("socat", "-")
        return answer.message

    assert await message() == ""
    opened = await node.open("t")
    assert "alice has this console open in a browser" in await message()
    _, writer = await node.client(opened.port, "t")
    writer.close()
    await node.until_free()
    async with asyncio.timeout(60):
        while await message():  # noqa: ASYNC110 - it asks
            await asyncio.sleep(0.01)

"""Somebody types in the serial line of a real guest, over the port that its node opens for that."""

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.real import machines

from gantry.lib_files import member
from gantry.node import call_table
from gantry.node.daemon import console_streams
from gantry.node.os import stream_tls
from gantry.rpc import calls
from gantry.rpc.calls import console
from gantry.runtime import bytestream, frames

pytestmark = machines.NEEDS


@pytest.fixture
async def lab() -> AsyncIterator[machines.Lab]:
    async with machines.lab() as running_lab:
        yield running_lab


async def consoles(node: machines.Node) -> call_table.Table:
    """Return the calls about consoles of a node, whose ports are on the loopback address of this machine."""
    disk, certificates = node.runtime.disk, node.folders.certificates
    identity = member.Member(cluster="lab", node=node.name, uuid="u", address="127.0.0.1")
    await disk.make_directory(certificates)
    await disk.write(member.path(certificates), member.encode(identity))
    tls = stream_tls.Contexts(disk, node.folders, secure=False)
    table = call_table.Table()
    console_streams.Consoles(node.runtime, node.registry, certificates=certificates, tls=tls).add_to(table)
    return table


async def opened(
    node: machines.Node, table: call_table.Table, token: str, *, takes_over: bool = False
) -> tuple[frames.Frames, bytestream.Writer]:
    call = calls.ConsoleOpen(
        token=token, hypervisor="kvm", instance="vm1", kind="serial", user=token, takes_over=takes_over
    )
    answer = await table.answer(call.procedure(), msgspec.json.encode(call))
    assert isinstance(answer, calls.ConsoleEntrance)
    assert answer.port, answer
    network = node.runtime.network
    reader, writer = await network.connect_port("127.0.0.1", answer.port, tls=None, limit=frames.PIECE_BYTES)
    writer.write(f"{token}\n".encode())
    return frames.Frames(reader), writer


async def answered(received: frames.Frames, writer: bytestream.Writer, command: str, answer: str) -> None:
    """Type a command again and again until the guest prints a text."""
    output, limit = "", time.monotonic() + machines.TIMEOUT

    async def read() -> None:
        nonlocal output
        while answer not in output:
            data = await received.read()
            assert data, output
            output += data.decode(errors="replace")

    reading = asyncio.ensure_future(read())
    while not reading.done():
        assert time.monotonic() < limit, output
        writer.write(f"{command}\r".encode())
        await asyncio.wait([reading], timeout=1)
    await reading


async def test_a_guest_answers_what_is_typed_whoever_has_its_line(lab: machines.Lab) -> None:
    node = await lab.up()
    table = await consoles(node)
    received, writer = await opened(node, table, "alice")
    await answered(received, writer, "echo $((6*7))-alice", "42-alice")
    other, other_writer = await opened(node, table, "carol", takes_over=True)
    await answered(other, other_writer, "echo $((6*7))-carol", "42-carol")
    while await received.read():  # what the guest printed before
        pass
    assert received.word == f"{console.TAKEN} carol"
    writer.close()
    await node.kvm.stop("vm1", timeout=0)
    while await other.read():
        pass
    assert other.word == console.ENDED
    other_writer.close()

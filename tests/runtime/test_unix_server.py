"""A UNIX socket with more clients than its limits allow."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from gantry.runtime import bytestream, limits
from gantry.runtime.real import unix_server

FEW = limits.UnixLimits(connections=20)


async def answer(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
    """Answer one message, after a moment, or say that it is refused."""
    try:
        message = await reader.readuntil(b"\n")
        await asyncio.sleep(0.01)
    except bytestream.RefusedError:
        message = b"refused\n"
    with contextlib.suppress(OSError):
        writer.write(message)
        await writer.drain()


@pytest.fixture
async def path(tmp_path: Path) -> str:
    where = str(tmp_path / "socket")
    await unix_server.UnixServer(where, answer, FEW).start(mode=0o600, limit=1 << 16)
    return where


async def ask(path: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    with contextlib.closing(writer):
        writer.write(b"hello\n")
        return await reader.read()


async def test_each_of_many_clients_at_one_moment_gets_an_answer_or_a_refusal(path: str) -> None:
    answers = await asyncio.gather(*(ask(path) for _ in range(10 * FEW.connections)))
    assert set(answers) <= {b"hello\n", b"refused\n"}
    assert b"hello\n" in answers


async def test_no_more_connections_are_refused_at_a_time_than_the_limit_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_server, "FIRST_TIMEOUT_SECONDS", 1e6)
    where = str(tmp_path / "socket")
    server = unix_server.UnixServer(where, answer, limits.UnixLimits(connections=2, refused=3))
    await server.start(mode=0o600, limit=1 << 16)
    silent = [await asyncio.open_unix_connection(where) for _ in range(6)]
    # The oldest of those above the limits ends without an answer; the others wait for their message.
    assert await silent[2][0].read() == b""
    assert await ask(where) == b"refused\n"
    silent[5][1].write(b"hello\n")
    assert await silent[5][0].read() == b"refused\n"
    for _, writer in silent:
        writer.close()
    await server.close()


async def test_a_silent_client_makes_room_only_after_it_had_time_for_its_message(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = [await asyncio.open_unix_connection(path) for _ in range(FEW.connections)]
    try:
        monkeypatch.setattr(unix_server, "FIRST_TIMEOUT_SECONDS", 1e6)
        assert await ask(path) == b"refused\n"
        monkeypatch.setattr(unix_server, "FIRST_TIMEOUT_SECONDS", 0.0)
        assert await ask(path) == b"hello\n"
    finally:
        for _, writer in silent:
            writer.close()

"""A UNIX socket with more clients than its limits allow."""

import asyncio
import contextlib
import errno
import gc
import os
import socket
import weakref
from pathlib import Path

import pytest
from tests.runtime import descriptors

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


async def test_what_a_handler_raises_is_logged_when_it_happens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(reader: bytestream.Reader, _: bytestream.Writer) -> None:
        raise ValueError(await reader.readuntil(b"\n"))

    where = str(tmp_path / "socket")
    server = unix_server.UnixServer(where, fail, FEW)
    await server.start(mode=0o600, limit=1 << 16)
    assert await ask(where) == b""
    await server.close()
    (entry,) = (entry for entry in caplog.records if entry.name == unix_server.__name__)
    assert entry.message == f"the handler of {where} failed"
    assert entry.exc_info is not None
    assert str(entry.exc_info[1]) == "b'hello\\n'"


async def test_a_handler_gets_the_part_of_a_message_that_its_client_has_sent_before_its_end(tmp_path: Path) -> None:
    partial = asyncio.get_running_loop().create_future()

    async def read(reader: bytestream.Reader, _: bytestream.Writer) -> None:
        try:
            await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            partial.set_result(error.partial)

    where = str(tmp_path / "socket")
    server = unix_server.UnixServer(where, read, FEW)
    await server.start(mode=0o600, limit=1 << 16)
    _, writer = await begin(where, b"hel")
    writer.close()
    assert await asyncio.wait_for(partial, 60) == b"hel"
    await server.close()


async def test_a_server_that_closes_ends_its_handlers_and_waits_for_them(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait(reader: bytestream.Reader, _: bytestream.Writer) -> None:
        begun.set()
        try:
            await reader.readuntil(b"\n")
        finally:
            await asyncio.sleep(0)
            ended.set()

    where = str(tmp_path / "socket")
    server = unix_server.UnixServer(where, wait, FEW)
    await server.start(mode=0o600, limit=1 << 16)
    other = tmp_path / "other"
    other.hardlink_to(where)
    reader, writer = await asyncio.open_unix_connection(where)
    await asyncio.wait_for(begun.wait(), 60)
    await server.close()
    assert ended.is_set()
    assert await line(reader) == b""
    for path, error in ((where, FileNotFoundError), (str(other), ConnectionRefusedError)):
        with pytest.raises(error):
            await asyncio.open_unix_connection(path)
    await server.close()
    reference = weakref.ref(server)
    del server
    gc.collect()
    assert reference() is None  # so the loop has no timer of it
    writer.close()


async def test_a_handler_may_close_its_server(tmp_path: Path) -> None:
    where = str(tmp_path / "socket")

    async def end(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        message = await reader.readuntil(b"\n")
        await server.close()
        writer.write(message)
        await writer.drain()

    server = unix_server.UnixServer(where, end, FEW)
    await server.start(mode=0o600, limit=1 << 16)
    assert await asyncio.wait_for(ask(where), 60) == b"hello\n"


async def test_each_of_many_clients_at_one_moment_gets_an_answer_or_a_refusal(path: str) -> None:
    answers = await asyncio.gather(*(ask(path) for _ in range(10 * FEW.connections)))
    assert set(answers) <= {b"hello\n", b"refused\n"}
    assert b"hello\n" in answers


async def test_a_user_may_come_again_and_again_but_has_only_some_connections_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_server, "ROOT", -1)  # the limit is for everybody else
    where, release = str(tmp_path / "socket"), asyncio.Event()

    async def hold(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        try:
            message = await reader.readuntil(b"\n")
            await release.wait()
        except bytestream.RefusedError:
            message = b"refused\n"
        writer.write(message)
        await writer.drain()

    server = unix_server.UnixServer(where, hold, limits.UnixLimits(connections=20, per_user=2))
    await server.start(mode=0o600, limit=1 << 16)
    clients = [asyncio.create_task(ask(where)) for _ in range(3)]
    done, waiting = await asyncio.wait(clients, return_when=asyncio.FIRST_COMPLETED)
    release.set()
    assert [client.result() for client in done] == [b"refused\n"]
    assert await asyncio.gather(*waiting) == [b"hello\n"] * 2
    assert [await ask(where) for _ in range(10)] == [b"hello\n"] * 10
    await server.close()


async def test_a_socket_whose_listener_has_no_room_for_a_client_is_in_use(tmp_path: Path) -> None:
    where = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as client:
        busy.bind(where)
        busy.listen(0)
        client.connect(where)
        with pytest.raises(OSError) as raised:
            await unix_server.UnixServer(where, answer).start(mode=0o600, limit=1 << 16)
        assert raised.value.errno == errno.EADDRINUSE
        accepted, _ = busy.accept()
        accepted.close()


async def test_a_user_beyond_its_share_closes_its_own_idle_connection_and_no_other_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = iter([1, 2, 1, 1])
    monkeypatch.setattr(unix_server, "_user_of", lambda _: next(users))
    where = str(tmp_path / "socket")
    server = unix_server.UnixServer(where, converse, limits.UnixLimits(per_user=1))
    await server.start(mode=0o600, limit=1 << 16)
    first, second, third = [await ask_once(where) for _ in range(3)]
    assert await line(first[0]) == b""
    for reader, writer in (second, third):
        writer.write(b"hello again\n")
        assert await line(reader) == b"12\n"
    fourth = await ask_once(where)
    assert await line(third[0]) == b""
    for _, writer in (first, second, third, fourth):
        writer.close()
    await server.close()


async def test_a_full_server_closes_an_idle_connection_of_a_user_before_one_of_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = iter([unix_server.ROOT, 1, 2])
    monkeypatch.setattr(unix_server, "_user_of", lambda _: next(users))
    where = str(tmp_path / "socket")
    server = unix_server.UnixServer(where, converse, limits.UnixLimits(connections=2))
    await server.start(mode=0o600, limit=1 << 16)
    of_root, of_user, newcomer = [await ask_once(where) for _ in range(3)]
    assert await line(of_user[0]) == b""
    of_root[1].write(b"hello again\n")
    assert await line(of_root[0]) == b"12\n"
    for _, writer in (of_root, of_user, newcomer):
        writer.close()
    await server.close()


async def test_a_full_server_closes_a_connection_without_a_request_before_an_older_idle_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_server, "FIRST_TIMEOUT_SECONDS", 0.0)
    where = str(tmp_path / "socket")
    server = unix_server.UnixServer(where, converse, limits.UnixLimits(connections=2))
    await server.start(mode=0o600, limit=1 << 16)
    idle, silent = await ask_once(where), await asyncio.open_unix_connection(where)
    newcomer = await ask_once(where)
    assert await line(silent[0]) == b""
    idle[1].write(b"hello again\n")
    assert await line(idle[0]) == b"12\n"
    for _, writer in (idle, silent, newcomer):
        writer.close()
    await server.close()


async def test_the_connections_that_a_user_still_has_count_when_another_one_of_them_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    users = iter([7] * 5)
    monkeypatch.setattr(unix_server, "_user_of", lambda _: next(users))
    where, may_end = str(tmp_path / "socket"), asyncio.Semaphore(0)

    async def work(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        try:
            message = await reader.readuntil(b"\n")
            writer.write(b"begun\n")
            await may_end.acquire()
        except bytestream.RefusedError:
            message = b"refused\n"
        writer.write(message)
        await writer.drain()

    server = unix_server.UnixServer(where, work, limits.UnixLimits(per_user=3))
    await server.start(mode=0o600, limit=1 << 16)
    clients = [await begin(where, b"%d\n" % number) for number in range(3)]
    for reader, _ in clients:
        assert await line(reader) == b"begun\n"
    may_end.release()
    assert await asyncio.wait_for(clients[0][0].read(), 60) == b"0\n"
    clients += [await begin(where, b"%d\n" % number) for number in range(3, 5)]
    assert [await line(reader) for reader, _ in clients[3:]] == [b"begun\n", b"refused\n"]
    (entry,) = caplog.records
    assert entry.getMessage() == f"a connection to {where}: user 7 has too many connections: the limit is 3"
    for _, writer in clients:
        writer.close()
    await server.close()


async def ask_once(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection that has had its answer."""
    reader, writer = await begin(path, b"hello\n")
    assert await line(reader) == b"6\n"
    return reader, writer


async def test_a_process_without_descriptors_closes_a_part_of_the_refused_and_of_the_silent_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_server, "FIRST_TIMEOUT_SECONDS", 1e6)
    where, loop = str(tmp_path / "socket"), asyncio.get_running_loop()
    server = unix_server.UnixServer(where, converse, limits.UnixLimits(connections=20))
    await server.start(mode=0o600, limit=1 << 16)
    silent = [await asyncio.open_unix_connection(where) for _ in range(20)]
    refused = [await asyncio.open_unix_connection(where) for _ in range(8)]
    reader, writer = await begin(where, b"hello\n")
    assert await line(reader) == b"too many connections: the limit is 20\n"  # so the server has accepted all before
    assert await line(reader) == b""
    writer.close()
    await writer.wait_closed()
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        with descriptors.exhausted():
            await loop.sock_connect(client, where)
            await loop.sock_sendall(client, b"hello\n")
            assert await asyncio.wait_for(loop.sock_recv(client, 100), 60) == b"6\n"
    for reader, _ in (*refused[:3], *silent[:3]):
        assert await line(reader) == b""
    for reader, writer in silent[3:]:
        writer.write(b"hello again\n")
        assert await line(reader) == b"12\n"
    for reader, writer in refused[3:]:
        writer.write(b"hello\n")
        assert await line(reader) == b"too many connections: the limit is 20\n"
    for _, writer in (*silent, *refused):
        writer.close()
    await server.close()


async def test_no_more_connections_are_refused_at_a_time_than_the_limit_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_server, "FIRST_TIMEOUT_SECONDS", 1e6)
    where = str(tmp_path / "socket")
    server = unix_server.UnixServer(where, answer, limits.UnixLimits(connections=2, refused=3))
    await server.start(mode=0o600, limit=1 << 16)
    silent = [await asyncio.open_unix_connection(where) for _ in range(2)]
    assert await ask(where) == b"refused\n"
    silent += [await asyncio.open_unix_connection(where) for _ in range(4)]
    # The oldest of those above the limits ends without an answer; the others wait for their message.
    assert await silent[2][0].read() == b""
    assert await ask(where) == b"refused\n"
    silent[5][1].write(b"hello\n")
    assert await silent[5][0].read() == b"refused\n"
    for _, writer in silent:
        writer.close()
    await server.close()


@pytest.mark.parametrize("timeout_seconds", [0.0, 1e6])
async def test_a_connection_that_is_closed_for_another_in_the_turn_of_its_acceptance_ends(
    tmp_path: Path, timeout_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_server, "FIRST_TIMEOUT_SECONDS", timeout_seconds)
    where, loop = str(tmp_path / "socket"), asyncio.get_running_loop()
    server = unix_server.UnixServer(where, answer, limits.UnixLimits(connections=1, refused=1))
    await server.start(mode=0o600, limit=1 << 16)
    clients = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    for client in clients:
        client.setblocking(False)
        client.connect(where)
    clients[2].send(b"hello\n")
    assert await asyncio.wait_for(loop.sock_recv(clients[1], 1), 60) == b""
    last = b"refused\n" if timeout_seconds else b"hello\n"
    assert await asyncio.wait_for(loop.sock_recv(clients[2], 100), 60) == last
    for client in clients:
        client.close()
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


async def test_each_of_several_clients_at_one_moment_takes_the_room_of_another_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = str(tmp_path / "socket")
    server = unix_server.UnixServer(where, converse, limits.UnixLimits(connections=2))
    await server.start(mode=0o600, limit=1 << 16)
    idle = [await begin(where, b"hello\n") for _ in range(2)]
    for reader, _ in idle:
        assert await line(reader) == b"6\n"
    new = await asyncio.gather(*(begin(where, b"hello again\n") for _ in range(2)))
    for reader, _ in new:
        assert await line(reader) == b"12\n"
    for reader, _ in idle:
        assert await line(reader) == b""
    assert f"to {where} is closed to make room for another" in caplog.text
    for _, writer in (*idle, *new):
        writer.close()
    await server.close()


async def test_a_client_that_has_gone_without_a_message_leaves_its_room(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_server, "FIRST_TIMEOUT_SECONDS", 1e6)
    for _ in range(FEW.connections):
        _, writer = await asyncio.open_unix_connection(path)
        writer.close()
        await writer.wait_closed()
    answers = [b"refused\n"]
    async with asyncio.timeout(60):
        while answers[-1] != b"hello\n":  # the server may not have noticed the end of all yet
            answers.append(await ask(path))


async def test_a_client_whose_request_is_in_work_does_not_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_server, "FIRST_TIMEOUT_SECONDS", 0.0)
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def work(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        try:
            message = await reader.readuntil(b"\n")
        except bytestream.RefusedError:
            writer.write(b"refused\n")
            return
        has_begun.set()
        await may_end.wait()
        writer.write(message)
        await writer.drain()

    where = str(tmp_path / "socket")
    server = unix_server.UnixServer(where, work, limits.UnixLimits(connections=1))
    await server.start(mode=0o600, limit=1 << 16)
    reader, writer = await begin(where, b"first\n")
    async with asyncio.timeout(60):
        await has_begun.wait()
        assert await ask(where) == b"refused\n"
        may_end.set()
        assert await reader.read() == b"first\n"
    writer.close()
    await server.close()


async def begin(path: str, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def converse(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
    """Answer each message, until one is refused."""
    with contextlib.suppress(asyncio.IncompleteReadError):
        while True:
            try:
                message = await reader.readuntil(b"\n")
            except bytestream.RefusedError as refused:
                writer.write(f"{refused}\n".encode())
                await writer.drain()
                break
            writer.write(b"%d\n" % len(message))
            await writer.drain()


async def line(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(60):
        return await reader.readline()


async def test_a_message_that_is_not_complete_in_time_is_refused_and_a_client_that_has_none_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_server, "SWEEP_SECONDS", 0.01)
    where = str(tmp_path / "socket")
    server = unix_server.UnixServer(where, converse, limits.UnixLimits(message_seconds=1e6))
    await server.start(mode=0o600, limit=1 << 16)
    idle = await begin(where, b"hello\n")
    slow = [await begin(where, sent) for sent in (b"hello\nhel", b"hel", b"")]
    assert await line(idle[0]) == await line(slow[0][0]) == b"6\n"
    with monkeypatch.context() as patch:
        patch.setattr(server, "_limits", limits.UnixLimits(message_seconds=0))
        for reader, _ in slow:
            assert await line(reader) == b"no complete message in 0 s\n"
    idle[1].write(b"hello again\n")
    assert await line(idle[0]) == b"12\n"
    for _, writer in (idle, *slow):
        writer.close()
    await server.close()


async def test_messages_that_are_not_complete_count_together_and_are_released(tmp_path: Path) -> None:
    where, size = str(tmp_path / "socket"), 2 * unix_server.SMALL_MESSAGE_BYTES
    server = unix_server.UnixServer(where, converse, limits.UnixLimits(message_bytes=2 * size + 2))
    await server.start(mode=0o600, limit=4 * size)
    for _ in range(3):
        connections = [await begin(where, b"x" * size) for _ in range(3)]
        answers = [asyncio.ensure_future(line(reader)) for reader, _ in connections]
        (refused,), _ = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        assert b"too many bytes of messages are in memory" in refused.result()
        for (_, writer), answer in zip(connections, answers, strict=True):
            if answer is not refused:
                writer.write(b"\n")
                assert await answer == b"%d\n" % (size + 1)
        _, gone = await begin(where, b"x" * size)
        connections += [await ask_once(where)]  # so the server has read all that was sent before
        gone.close()
        connections += [await ask_once(where) for _ in range(2)]
        # One alone may have as many as all together, if theirs is released.
        alone = await begin(where, b"x" * (2 * size + 1) + b"\n")
        assert await line(alone[0]) == b"%d\n" % (2 * size + 2)
        alone[1].write(b"x" * (2 * size + 2) + b"\n")
        assert await line(alone[0]) == b"too many bytes of messages are in memory\n"
        for _, writer in (*connections, alone):
            writer.close()
    await server.close()


async def test_of_the_large_messages_the_one_that_began_first_is_refused_and_counts_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where, part = str(tmp_path / "socket"), b"x" * (2 * unix_server.SMALL_MESSAGE_BYTES)

    async def stay(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        await converse(reader, writer)
        await asyncio.Event().wait()

    server = unix_server.UnixServer(where, stay, limits.UnixLimits(message_bytes=4 * len(part) - 1))
    await server.start(mode=0o600, limit=4 * len(part))
    third, second, first = [await ask_once(where) for _ in range(3)]
    small = []
    for _, writer in (first, second, first):
        writer.write(part)
        small.append(await ask_once(where))  # so the server has read all that was sent before
    third[1].write(part)
    assert await line(first[0]) == b"too many bytes of messages are in memory\n"
    for reader, writer in (second, third):
        writer.write(b"\n")
        assert await line(reader) == b"%d\n" % (len(part) + 1)
    (entry,) = caplog.records
    assert entry.getMessage() == f"a message of user {os.getuid()} to {where}: too many bytes of messages are in memory"
    for _, writer in (first, second, third, *small):
        writer.close()
    await server.close()


async def test_a_message_that_is_not_large_is_not_refused_for_the_memory_of_all(tmp_path: Path) -> None:
    where, size = str(tmp_path / "socket"), unix_server.SMALL_MESSAGE_BYTES
    server = unix_server.UnixServer(where, converse, limits.UnixLimits(message_bytes=size - 1))
    await server.start(mode=0o600, limit=4 * size)
    reader, writer = await begin(where, b"x" * (size - 1) + b"\n")
    assert await line(reader) == b"%d\n" % size
    writer.write(b"x" * size + b"\n")
    assert await line(reader) == b"too many bytes of messages are in memory\n"
    writer.close()
    await server.close()

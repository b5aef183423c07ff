"""Bulk data between machines: what both runtimes promise, and what the real one does when something breaks."""

import asyncio
import contextlib
import hashlib
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.runtime import descriptors

from gantry import security
from gantry.runtime import commands, interface
from gantry.runtime.real import RealRuntime, bulk, bulk_accept, tracking

Drive = Callable[[Callable[[interface.Runtime, str], Awaitable[None]]], None]
CAT = commands.Stage(["/bin/cat"])
FAILING = commands.Stage(["/bin/sh", "-c", "echo bad >&2; exit 3"], environment={"WORD": "w"})


def test_data_arrives_and_both_ends_count_its_bytes(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        listener = await runtime.streams.listen("127.0.0.1", token="t", tls=None)
        sent, received = await asyncio.gather(
            runtime.streams.send([CAT, CAT], host="127.0.0.1", port=listener.port, token="t", tls=None, timeout=60),
            listener.receive([CAT], timeout=60),
        )
        assert sent.size == received.size == 0
        assert received.digest == hashlib.sha256().hexdigest()
        assert [program.code for program in sent.exits] == [0, 0]

    drive(check)


def test_a_sender_whose_program_fails_aborts_the_stream(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        listener = await runtime.streams.listen("127.0.0.1", token="t", tls=None)
        sending = runtime.streams.send([FAILING], host="127.0.0.1", port=listener.port, token="t", tls=None, timeout=60)
        sent, received = await asyncio.gather(sending, listener.receive([CAT], timeout=60), return_exceptions=True)
        assert isinstance(sent, commands.Streamed)
        assert [(program.code, program.stderr) for program in sent.exits] == [(3, b"bad\n")]
        assert isinstance(received, ConnectionError)

    drive(check)


def test_a_listener_takes_one_of_two_streams(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        listener = await runtime.streams.listen("127.0.0.1", token="t", tls=None)
        sends = [
            runtime.streams.send([CAT], host="127.0.0.1", port=listener.port, token="t", tls=None, timeout=60)
            for _ in range(2)
        ]
        received, *sent = await asyncio.gather(listener.receive([CAT], timeout=60), *sends, return_exceptions=True)
        assert isinstance(received, commands.Streamed)
        assert sorted(type(each).__name__ for each in sent if isinstance(each, commands.Streamed)) == ["Streamed"]
        assert len([each for each in sent if isinstance(each, OSError)]) == 1

    drive(check)


def files(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the contexts of a listening node and of a sending node."""
    now = time.time()
    authority = security.make_authority("lab", now)
    key, request = security.make_request("node1")
    own = security.issue(authority, request, uuid="u", name="node1", address="127.0.0.1", now=now)
    (folder / "key").write_bytes(key)
    (folder / "own").write_bytes(own)
    server = security.stream_server_context(str(folder / "own"), str(folder / "key"))
    return server, security.member_context(authority.certificates)


async def test_megabytes_go_over_tls_from_file_to_file(tmp_path: Path) -> None:
    runtime, (server, client) = RealRuntime("node1"), files(tmp_path)
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(os.urandom(3 << 20) + bytes(5 << 20) + b"end")
    listener = await runtime.streams.listen("127.0.0.1", token="t", tls=server)
    sent, received = await asyncio.gather(
        runtime.streams.send(
            [commands.Stage(["cat", str(source)]), commands.Stage(["gzip", "-c"])],
            host="127.0.0.1", port=listener.port, token="t", tls=client, timeout=60,
        ),
        listener.receive(
            [commands.Stage(["gzip", "-dc"]), commands.Stage(["dd", f"of={copy}", "status=none"])], timeout=60
        ),
    )  # fmt: skip
    assert sent.size == received.size
    assert len(received.digest) == 64
    assert copy.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("stranger", [b"wrong\n", b"", b"t", b"\x16\x03\x01 no token at all, and long"])
async def test_a_peer_without_the_token_is_rejected_and_does_not_block_the_sender(stranger: bytes) -> None:
    runtime = RealRuntime("node1")
    listener = await runtime.streams.listen("127.0.0.1", token="t", tls=None)
    receiving = asyncio.ensure_future(listener.receive([CAT], timeout=60))
    _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(stranger)
    writer.close()
    sent = await runtime.streams.send(
        [commands.Stage(["echo", "hello"])], host="127.0.0.1", port=listener.port, token="t", tls=None, timeout=60
    )
    assert (await receiving).size == sent.size == 6


HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("data", [b"", HALF_A_HELLO], ids=["silent", "half a message"])
async def test_strangers_do_not_hold_up_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, encrypted: bool
) -> None:
    for limit in ("FIRST_BYTE_SECONDS", "TOKEN_TIMEOUT_SECONDS"):
        monkeypatch.setattr(bulk_accept, limit, 3600.0)  # whoever waits for one of them waits for too long
    runtime = RealRuntime("node1")
    server, client = files(tmp_path) if encrypted else (None, None)
    listener = await runtime.streams.listen("127.0.0.1", token="t" * 40, tls=server)
    strangers = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(50)]
    for _, writer in strangers:
        writer.write(data)
    sent, received = await asyncio.gather(
        runtime.streams.send(
            [commands.Stage(["echo", "hello"])], host="127.0.0.1", port=listener.port, token="t" * 40, tls=client,
            timeout=60,
        ),
        listener.receive([CAT], timeout=60),
    )  # fmt: skip
    assert received.size == sent.size == 6
    for reader, writer in strangers:
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("data", [b"", b"t", b"tokens"], ids=["silent", "half a token", "as long as the token"])
async def test_a_connection_without_the_token_is_closed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(bulk_accept, "TOKEN_TIMEOUT_SECONDS", 0.5 if data == b"t" else 3600.0)
    listener = await RealRuntime("node1").streams.listen("127.0.0.1", token="token", tls=None)
    receiving = asyncio.ensure_future(listener.receive([CAT], timeout=600))
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(data)
    async with asyncio.timeout(50):  # before the listener's own end
        assert await reader.read() == b""
    assert not receiving.done()
    writer.close()
    await listener.close()
    with pytest.raises(ConnectionAbortedError):
        await receiving


async def test_more_strangers_than_may_wait_make_room_for_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_accept, "WAITING", 3)
    monkeypatch.setattr(bulk_accept, "TOKEN_TIMEOUT_SECONDS", 3600.0)
    runtime = RealRuntime("node1")
    listener = await runtime.streams.listen("127.0.0.1", token="token", tls=None)
    strangers = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(5)]
    for _, writer in strangers:
        writer.write(b"t")
    sent, received = await asyncio.gather(
        runtime.streams.send([CAT], host="127.0.0.1", port=listener.port, token="token", tls=None, timeout=60),
        listener.receive([CAT], timeout=60),
    )
    assert received.size == sent.size == 0
    for _, writer in strangers:
        writer.close()


async def test_a_listener_ends_at_its_deadline_whatever_strangers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "CONNECT_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(bulk_accept, "TOKEN_TIMEOUT_SECONDS", 3600.0)
    listener = await RealRuntime("node1").streams.listen("127.0.0.1", token="t" * 1000, tls=None)
    begun = time.monotonic()
    receiving = asyncio.ensure_future(listener.receive([CAT], timeout=600))
    _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    async with asyncio.timeout(60):
        while not receiving.done():
            with contextlib.suppress(ConnectionError):
                writer.write(b"t")
            await asyncio.sleep(0.1)
    assert time.monotonic() - begun >= 1
    with pytest.raises(TimeoutError, match="no sender with the stream's token connected"):
        await receiving
    writer.close()


async def test_a_receiver_ends_when_its_sender_falls_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "IDLE_TIMEOUT_SECONDS", 0.2)
    listener = await RealRuntime("node1").streams.listen("127.0.0.1", token="t", tls=None)
    receiving = asyncio.ensure_future(listener.receive([CAT], timeout=600))
    _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"t\n")
    done, _ = await asyncio.wait([receiving], timeout=50)  # before the receiver's own end
    assert isinstance(done.pop().exception(), TimeoutError)
    writer.close()


async def test_a_sender_ends_when_its_receiver_falls_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "IDLE_TIMEOUT_SECONDS", 0.2)

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    runtime, silent = RealRuntime("node1"), await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    sending = runtime.streams.send([CAT], host="127.0.0.1", port=port, token="t", tls=None, timeout=600)
    done, _ = await asyncio.wait([asyncio.ensure_future(sending)], timeout=50)
    assert isinstance(done.pop().exception(), TimeoutError)
    silent.close()


async def test_a_sender_whose_first_byte_came_too_late_connects_again(tmp_path: Path) -> None:
    runtime, (_, client) = RealRuntime("node1"), files(tmp_path)
    connections: list[asyncio.StreamWriter] = []

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        writer.close()
        busy.close()

    busy = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = busy.sockets[0].getsockname()[1]
    sending = asyncio.ensure_future(
        runtime.streams.send([CAT], host="127.0.0.1", port=port, token="t", tls=client, timeout=60)
    )
    with pytest.raises(OSError):
        await sending
    assert connections  # and then nobody listened any more, which is not repeated
    assert isinstance(sending.exception(), ConnectionRefusedError), repr(sending.exception())


async def test_a_sender_rejects_an_unknown_listener(tmp_path: Path) -> None:
    runtime, (_, client) = RealRuntime("node1"), files(tmp_path)
    (tmp_path / "other").mkdir()
    server, _ = files(tmp_path / "other")
    listener = await runtime.streams.listen("127.0.0.1", token="t", tls=server)
    receiving = asyncio.ensure_future(listener.receive([CAT], timeout=60))
    with pytest.raises(ssl.SSLCertVerificationError):
        await runtime.streams.send([CAT], host="127.0.0.1", port=listener.port, token="t", tls=client, timeout=60)
    await listener.close()
    with pytest.raises(OSError):
        await receiving


async def test_a_pipeline_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    runtime, mark = RealRuntime("node1"), tmp_path / "pid"
    hangs = commands.Stage(["sh", "-c", f"sleep 600 & echo $! > {mark}.new; mv {mark}.new {mark}; wait"])
    seconds = 1
    while not mark.exists():  # a busy machine may not come so far in a second
        assert seconds < 100, "the pipeline does not begin"
        listener = await runtime.streams.listen("127.0.0.1", token="t", tls=None)
        receiving = asyncio.ensure_future(listener.receive([CAT], timeout=120))
        with pytest.raises(TimeoutError):
            await runtime.streams.send(
                [hangs], host="127.0.0.1", port=listener.port, token="t", tls=None, timeout=seconds
            )
        with pytest.raises(OSError):
            await receiving
        seconds *= 3
    async with asyncio.timeout(60):
        while runtime.processes.alive(int(mark.read_text())):  # noqa: ASYNC110 - it ends when the kernel has time
            await asyncio.sleep(0.01)


async def test_a_receiver_without_free_space_reports_it_and_ends_the_sender() -> None:
    runtime = RealRuntime("node1")
    listener = await runtime.streams.listen("127.0.0.1", token="t", tls=None)
    full = commands.Stage(["dd", "of=/dev/full", "bs=1M"])
    endless = commands.Stage(["cat", "/dev/zero"])
    sent, received = await asyncio.gather(
        runtime.streams.send([endless], host="127.0.0.1", port=listener.port, token="t", tls=None, timeout=60),
        listener.receive([full], timeout=60),
        return_exceptions=True,
    )
    assert isinstance(sent, OSError)
    assert isinstance(received, commands.Streamed)
    assert b"No space left" in received.exits[0].stderr


async def test_the_end_of_long_standard_error_is_kept() -> None:
    runtime = RealRuntime("node1")
    listener = await runtime.streams.listen("127.0.0.1", token="t", tls=None)
    loud = commands.Stage(["sh", "-c", "head -c 9000000 /dev/zero >&2; echo last >&2"])
    sent, _ = await asyncio.gather(
        runtime.streams.send([loud], host="127.0.0.1", port=listener.port, token="t", tls=None, timeout=60),
        listener.receive([CAT], timeout=60),
    )
    assert len(sent.exits[0].stderr) <= 1 << 20
    assert sent.exits[0].stderr.endswith(b"last\n")


class Programs(tracking.Tracker):
    """The ids of the programs that have started, and of those that have been waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[int] = []
        self.done: list[int] = []

    def started(self, pid: int, tracked: bool) -> None:
        self.begun.append(pid)

    def ended(self, pid: int, tracked: bool) -> None:
        self.done.append(pid)


async def test_no_program_of_a_pipeline_is_left_when_another_cannot_start(tmp_path: Path) -> None:
    programs = Programs()
    listener = await bulk.Streams().listen("127.0.0.1", token="t", tls=None)
    receiving = asyncio.ensure_future(listener.receive([CAT], timeout=60))
    stages = [commands.Stage(["sleep", "600"]), commands.Stage([str(tmp_path / "missing")])]
    with pytest.raises(FileNotFoundError):
        await bulk.Streams(programs).send(stages, host="127.0.0.1", port=listener.port, token="t", tls=None, timeout=50)
    assert len(programs.begun) == 1
    assert programs.done == programs.begun
    assert not RealRuntime().disk.exists(f"/proc/{programs.begun[0]}")
    with pytest.raises(ConnectionResetError):
        await receiving


async def test_a_receiver_whose_program_fails_aborts_the_stream_for_its_sender() -> None:
    streams = RealRuntime("node1").streams
    listener = await streams.listen("127.0.0.1", token="t", tls=None)
    hello, fails = (
        commands.Stage(["echo", "hello"]),
        commands.Stage(["sh", "-c", "cat >/dev/null; echo bad >&2; exit 3"]),
    )
    sent, received = await asyncio.gather(
        streams.send([hello], host="127.0.0.1", port=listener.port, token="t", tls=None, timeout=60),
        listener.receive([fails], timeout=60),
        return_exceptions=True,
    )
    assert isinstance(sent, ConnectionResetError)
    assert str(sent) == "the receiver aborted the stream"
    assert isinstance(received, commands.Streamed)
    assert [(program.code, program.stderr) for program in received.exits] == [(3, b"bad\n")]


async def test_a_sender_whose_connections_all_end_gives_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bulk, "CONNECT_BACK_OFF_SECONDS", 0.001)
    (_, client), connections = files(tmp_path), list[asyncio.StreamWriter]()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        writer.transport.abort()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as busy:
        port = busy.sockets[0].getsockname()[1]
        with pytest.raises(OSError):
            await bulk.Streams().send([CAT], host="127.0.0.1", port=port, token="t", tls=client, timeout=60)
    assert len(connections) == bulk.CONNECT_ATTEMPTS


@pytest.mark.parametrize("size", [bulk.CHUNK_BYTES, bulk.CHUNK_BYTES + 1])
async def test_a_sender_may_announce_as_much_as_a_chunk_and_not_more(size: int) -> None:
    listener = await RealRuntime("node1").streams.listen("127.0.0.1", token="t", tls=None)
    receiving = asyncio.ensure_future(listener.receive([CAT], timeout=60))
    _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"t\n" + size.to_bytes(4) + bytes(size) + bytes(4))
    with contextlib.suppress(ConnectionError):
        await writer.drain()
    if size > bulk.CHUNK_BYTES:
        with pytest.raises(ConnectionAbortedError, match=f"announced {size} bytes at once"):
            await receiving
        assert listener.received == 0
    else:
        assert (await receiving).size == listener.received == size
    writer.close()


async def test_a_listener_that_is_closed_before_its_stream_listens_no_longer_and_receives_nothing() -> None:
    listener = await RealRuntime("node1").streams.listen("127.0.0.1", token="t", tls=None)
    await listener.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", listener.port)
    with pytest.raises(ConnectionAbortedError, match="canceled"):
        await listener.receive([CAT], timeout=60)


async def test_a_receiver_without_descriptors_closes_a_stranger_for_the_sender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("FIRST_BYTE_SECONDS", "TOKEN_TIMEOUT_SECONDS"):
        monkeypatch.setattr(bulk_accept, limit, 3600.0)
    server, client = files(tmp_path)
    listener = await RealRuntime("node1").streams.listen("127.0.0.1", token="t", tls=server)
    receiving = asyncio.ensure_future(listener.receive([CAT], timeout=60))
    strangers = [await asyncio.open_connection("127.0.0.1", listener.port, ssl=client) for _ in range(2)]
    with socket.socket() as plain:
        plain.setblocking(False)
        with descriptors.exhausted():
            await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", listener.port))
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(strangers[0][0].read(), 60) == b""
        _, writer = await asyncio.open_connection(sock=plain, ssl=client, server_hostname="127.0.0.1")
        writer.write(b"t\n" + bytes(4))
        assert (await receiving).size == 0
        for each in (writer, *(stranger for _, stranger in strangers)):
            each.close()


async def test_a_handshake_that_is_longer_than_what_the_kernel_takes_at_once_goes_on(tmp_path: Path) -> None:
    now, names = time.time(), [f"name-{number}.of-a-node.example.org" for number in range(1500)]
    authority = security.make_authority("lab", now)
    key, request = security.make_request("node1")
    own = security.issue(authority, request, uuid="u", name="node1", address="127.0.0.1", now=now, other_names=names)
    (tmp_path / "key").write_bytes(key)
    (tmp_path / "own").write_bytes(own)
    server = security.stream_server_context(str(tmp_path / "own"), str(tmp_path / "key"))
    client = security.member_context(authority.certificates)

    def present() -> None:
        with socket.socket() as plain:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            plain.connect(("127.0.0.1", listener.getsockname()[1]))
            with client.wrap_socket(plain, server_hostname="127.0.0.1") as sender:
                sender.sendall(b"t\n")
                assert sender.recv(10) == b"hello"

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        presenting = asyncio.ensure_future(asyncio.to_thread(present))
        reception = bulk_accept.Reception(listener, "t", server)
        with await asyncio.to_thread(reception.accept, timeout=50, check=lambda: None) as sender:
            sender.sendall(b"hello")
            await presenting


@pytest.mark.parametrize("token", ["t", "to", "tok"])
async def test_what_follows_the_token_at_once_is_data_of_the_stream(token: str) -> None:
    listener = await RealRuntime("node1").streams.listen("127.0.0.1", token=token, tls=None)
    receiving = asyncio.ensure_future(listener.receive([CAT], timeout=60))
    _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(token.encode() + b"\n" + (5).to_bytes(4) + b"hello" + bytes(4))
    received = await receiving
    assert (received.size, received.digest) == (5, hashlib.sha256(b"hello").hexdigest())
    writer.close()

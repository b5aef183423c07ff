"""Ports for one client with a token: what both runtimes promise, and what the real one does among strangers."""

import asyncio
import contextlib
import errno
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from tests.runtime import descriptors

from gantry import security
from gantry.runtime import bytestream, interface
from gantry.runtime.real import RealRuntime, entrances

Drive = Callable[[Callable[[interface.Runtime, str], Awaitable[None]]], None]
HOST = "127.0.0.1"
LIMIT = 1 << 16


async def _check_closed(strangers: Sequence[tuple[bytestream.Reader, bytestream.Writer]]) -> None:
    """Check that the connections of strangers have been closed, and close them here."""
    for reader, stranger in strangers:
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 60) == b""
        stranger.close()


def test_the_client_with_the_token_gets_a_stream_in_both_directions(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        entrance = await runtime.network.listen_once(HOST, token="t", tls=None, limit=LIMIT)
        reader, writer = await runtime.network.connect_port(HOST, entrance.port, tls=None, limit=LIMIT)
        writer.write(b"t\nhello")
        own_reader, own_writer = await entrance.accept(timeout=60)
        assert await own_reader.read(5) == b"hello"
        own_writer.write(b"answer\n")
        assert await reader.readuntil() == b"answer\n"
        own_writer.close()
        assert await reader.read() == b""
        writer.close()
        await entrance.close()

    drive(check)


def test_a_client_with_another_token_is_closed_and_the_right_one_is_still_awaited(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        entrance = await runtime.network.listen_once(HOST, token="t", tls=None, limit=LIMIT)
        accepting = asyncio.ensure_future(entrance.accept(timeout=60))
        for wrong in (b"u\n", b"\n", b"tt\n"):
            reader, writer = await runtime.network.connect_port(HOST, entrance.port, tls=None, limit=LIMIT)
            writer.write(wrong)
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 30) == b""
            writer.close()
        _, writer = await runtime.network.connect_port(HOST, entrance.port, tls=None, limit=LIMIT)
        writer.write(b"t\n")
        _, own_writer = await accepting
        own_writer.close()
        writer.close()

    drive(check)


def test_an_entrance_takes_one_client_and_listens_no_longer(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        entrance = await runtime.network.listen_once(HOST, token="t", tls=None, limit=LIMIT)
        _, writer = await runtime.network.connect_port(HOST, entrance.port, tls=None, limit=LIMIT)
        writer.write(b"t\n")
        _, own_writer = await entrance.accept(timeout=60)
        with pytest.raises(OSError):
            await runtime.network.connect_port(HOST, entrance.port, tls=None, limit=LIMIT)
        own_writer.close()
        writer.close()

    drive(check)


def test_an_entrance_that_is_closed_closes_the_connections_that_wait_at_it(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        entrance = await runtime.network.listen_once(HOST, token="t", tls=None, limit=LIMIT)
        _, writer = await runtime.network.connect_port(HOST, entrance.port, tls=None, limit=LIMIT)
        writer.write(b"t\n")
        strangers = [await runtime.network.connect_port(HOST, entrance.port, tls=None, limit=LIMIT) for _ in range(2)]
        _, own_writer = await entrance.accept(timeout=60)
        await _check_closed(strangers)
        own_writer.close()
        writer.close()

    drive(check)


def test_an_entrance_without_a_client_ends_after_its_time(drive: Drive) -> None:
    async def check(runtime: interface.Runtime, folder: str) -> None:
        entrance = await runtime.network.listen_once(HOST, token="t", tls=None, limit=LIMIT)
        with pytest.raises(TimeoutError):
            await entrance.accept(timeout=0.2)
        with pytest.raises(OSError):
            await runtime.network.connect_port(HOST, entrance.port, tls=None, limit=LIMIT)

    drive(check)


def contexts(folder: Path) -> tuple[ssl.SSLContext, security.Authority, str]:
    """Return the context of a node, its authority and the digest of its key."""
    now = time.time()
    authority = security.make_authority("lab", now)
    key, request = security.make_request("node1")
    own = security.issue(authority, request, uuid="u", name="node1", address=HOST, now=now)
    (folder / "key").write_bytes(key)
    (folder / "own").write_bytes(own)
    server = security.stream_server_context(str(folder / "own"), str(folder / "key"))
    return server, authority, security.key_of(security.der_of(own))


async def test_a_client_presents_no_token_to_a_server_with_another_key(tmp_path: Path) -> None:
    network = RealRuntime("node1").network
    server, authority, key = contexts(tmp_path)
    entrance = await network.listen_once(HOST, token="t", tls=server, limit=LIMIT)
    accepting = asyncio.ensure_future(entrance.accept(timeout=60))
    wrong = security.member_context(authority.certificates, keys=lambda _: {"0" * 64})
    with pytest.raises(ssl.SSLCertVerificationError, match="not the one that the cluster recorded"):
        await network.connect_port(HOST, entrance.port, tls=wrong, limit=LIMIT)
    right = security.member_context(authority.certificates, keys=lambda _: {key})
    reader, writer = await network.connect_port(HOST, entrance.port, tls=right, limit=LIMIT)
    writer.write(b"t\n")
    _, own_writer = await accepting
    own_writer.write(b"yes\n")
    assert await reader.readuntil() == b"yes\n"
    own_writer.close()
    writer.close()


async def test_silent_strangers_do_not_keep_the_client_out(tmp_path: Path) -> None:
    network = RealRuntime("node1").network
    server, authority, key = contexts(tmp_path)
    entrance = await network.listen_once(HOST, token="t", tls=server, limit=LIMIT)
    accepting = asyncio.ensure_future(entrance.accept(timeout=60))
    strangers = [await asyncio.open_connection(HOST, entrance.port) for _ in range(3 * entrances.STRANGERS)]
    tls = security.member_context(authority.certificates, keys=lambda _: {key})
    _, writer = await network.connect_port(HOST, entrance.port, tls=tls, limit=LIMIT)
    writer.write(b"t\n")
    _, own_writer = await accepting
    await _check_closed(strangers)
    own_writer.close()
    writer.close()


async def test_an_entrance_that_is_given_up_keeps_no_connection() -> None:
    network = RealRuntime("node1").network
    entrance = await network.listen_once(HOST, token="t", tls=None, limit=LIMIT)
    accepting = asyncio.ensure_future(entrance.accept(timeout=60))
    reader, writer = await asyncio.open_connection(HOST, entrance.port)
    await asyncio.sleep(0)
    accepting.cancel()
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
    with pytest.raises(asyncio.CancelledError):
        await accepting


async def test_a_client_that_arrives_just_when_the_entrance_is_given_up_is_closed() -> None:
    network = RealRuntime("node1").network
    entrance = await network.listen_once(HOST, token="t", tls=None, limit=LIMIT)
    accepting = asyncio.ensure_future(entrance.accept(timeout=60))
    entrance._arrived.add_done_callback(lambda _: accepting.cancel())
    reader, writer = await network.connect_port(HOST, entrance.port, tls=None, limit=LIMIT)
    writer.write(b"t\n")
    with pytest.raises(asyncio.CancelledError):
        await accepting
    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()


class Listener(socket.socket):
    """A listening socket that notes when it cannot accept a connection that waits."""

    def __init__(self) -> None:
        super().__init__()
        self.bind((HOST, 0))
        self.failed = asyncio.Event()

    def accept(self) -> tuple[socket.socket, object]:
        try:
            return super().accept()
        except OSError as error:
            if error.errno == errno.EMFILE:
                self.failed.set()
            raise


async def test_a_client_waits_while_the_process_has_no_descriptor() -> None:
    loop, listener = asyncio.get_running_loop(), Listener()
    entrance = entrances.Entrance(listener, "t", None, limit=LIMIT)
    accepting = asyncio.ensure_future(entrance.accept(timeout=60))
    with socket.socket() as client:
        client.setblocking(False)
        with descriptors.exhausted():
            await loop.sock_connect(client, (HOST, entrance.port))
            await asyncio.wait_for(listener.failed.wait(), 60)
        await loop.sock_sendall(client, b"t\nhello")
        reader, writer = await accepting
        assert await reader.readexactly(5) == b"hello"
        writer.close()


async def test_both_ends_of_a_stream_break_when_the_machine_of_their_peer_is_silent() -> None:
    network = RealRuntime("node1").network
    entrance = await network.listen_once(HOST, token="t", tls=None, limit=LIMIT)
    _, writer = await network.connect_port(HOST, entrance.port, tls=None, limit=LIMIT)
    writer.write(b"t\n")
    _, own_writer = await entrance.accept(timeout=60)
    tcp = [socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT]
    for end in (writer, own_writer):
        assert isinstance(end, asyncio.StreamWriter)
        wire = end.get_extra_info("socket")
        assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        # 10 s without a byte and 4 probes are 30 s; data that is not acknowledged has the same time.
        assert [wire.getsockopt(socket.IPPROTO_TCP, option) for option in tcp] == [10, 5, 4, 30_000]
        end.close()

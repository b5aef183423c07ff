"""The first message of a connection: when it is complete, on real sockets."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator

import pytest

from gantry.runtime.real import arrivals, connections, open_files

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def hello() -> bytes:
    """Return the first message of a TLS client."""
    outgoing = ssl.MemoryBIO()
    try:
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="x").do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError


class AcceptedConnection:
    """A connection that has been accepted, and what is reported about it."""

    def __init__(self, *, encrypted: bool) -> None:
        self.complete = asyncio.Event()
        self.completions = 0
        self.ended = asyncio.Event()
        self.arrivals = arrivals.Arrivals(self.note_complete, self.end, encrypted=encrypted)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.client = socket.create_connection(listener.getsockname())
            self.accepted, _ = listener.accept()
        self.accepted.setblocking(False)
        self.connection = connections.Connection("127.0.0.1", 0.0, close=lambda: None)

    def note_complete(self, _: connections.Connection) -> None:
        self.completions += 1
        self.complete.set()

    def end(self, connection: connections.Connection) -> None:
        self.arrivals.drop(connection)
        self.ended.set()

    async def add(self) -> None:
        self.arrivals.add(self.connection, self.accepted)

    async def received(self) -> None:
        """Wait until bytes of the client are in the kernel, without reading them."""
        while not open_files.has_unread(self.accepted):  # noqa: ASYNC110 - no event tells that
            await asyncio.sleep(0.001)

    def close(self) -> None:
        self.arrivals.close()
        self.client.close()


@pytest.fixture(params=[False, True], ids=["plain", "TLS"])
async def accepted_connection(request: pytest.FixtureRequest) -> AsyncIterator[AcceptedConnection]:
    new_connection = AcceptedConnection(encrypted=request.param)
    yield new_connection
    new_connection.close()


def message(accepted_connection: AcceptedConnection) -> bytes:
    return hello() if accepted_connection.arrivals.encrypted else REQUEST


async def until(event: asyncio.Event) -> None:
    async with asyncio.timeout(60):
        await event.wait()


@pytest.mark.parametrize(
    ("data", "plain", "encrypted"),
    [
        (b"", 1, 1),
        (b"\x16", 1, 4),
        (b"\x16\x03\x01\x00", 1, 1),
        (b"\x16\x03\x01\x00\x02", 1, 2),
        (b"\x16\x03\x01\x00\x02ab", 1, 0),
        (b"\x16\x03\x01\x00\x02abc", 1, 0),
        (b"\x16\x03\x01\xff\xff", 1, arrivals.PEEK_BYTES - 5),
        (b"GET / HTTP/1.1\r\n", 1, 0),
        (b"GET / HTTP/1.1\n\n", 0, 0),
        (REQUEST, 0, 0),
        (b"x" * (arrivals.PEEK_BYTES - 1), 1, 0),
        (b"x" * arrivals.PEEK_BYTES, 0, 0),
    ],
)
def test_the_bytes_that_are_missing_follow_from_the_beginning(data: bytes, plain: int, encrypted: int) -> None:
    assert arrivals.missing(data, encrypted=False) == plain
    assert arrivals.missing(data, encrypted=True) == encrypted


async def test_a_message_that_came_with_the_connection_is_complete_at_once(
    accepted_connection: AcceptedConnection,
) -> None:
    accepted_connection.client.sendall(message(accepted_connection))
    await accepted_connection.received()
    await accepted_connection.add()
    assert accepted_connection.complete.is_set()
    assert not asyncio.get_running_loop().remove_reader(accepted_connection.accepted.fileno())


async def test_a_message_of_which_a_part_came_with_the_connection_is_waited_for(
    accepted_connection: AcceptedConnection,
) -> None:
    whole = message(accepted_connection)
    accepted_connection.client.sendall(whole[:-1])
    await accepted_connection.received()
    await accepted_connection.add()
    assert not accepted_connection.complete.is_set()
    accepted_connection.client.sendall(whole[-1:])
    await until(accepted_connection.complete)


async def test_a_client_that_disconnected_before_its_acceptance_is_noticed_at_once(
    accepted_connection: AcceptedConnection,
) -> None:
    accepted_connection.client.close()
    number = accepted_connection.accepted.fileno()
    await accepted_connection.add()
    assert accepted_connection.ended.is_set()
    assert accepted_connection.accepted.fileno() == -1
    assert not asyncio.get_running_loop().remove_reader(number)


@pytest.mark.parametrize("all_at_once", [False, True])
async def test_a_connection_that_is_closed_is_not_watched_any_more(
    accepted_connection: AcceptedConnection, all_at_once: bool
) -> None:
    await accepted_connection.add()
    number = accepted_connection.accepted.fileno()
    if all_at_once:
        accepted_connection.arrivals.close()
    else:
        accepted_connection.arrivals.drop(accepted_connection.connection)
    assert accepted_connection.accepted.fileno() == -1
    assert not asyncio.get_running_loop().remove_reader(number)


async def test_a_message_that_comes_byte_by_byte_is_complete_with_its_last_byte_and_remains_unread(
    accepted_connection: AcceptedConnection,
) -> None:
    await accepted_connection.add()
    whole = message(accepted_connection)
    accepted_connection.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for number in range(len(whole) - 1):
        accepted_connection.client.sendall(whole[number : number + 1])
        for _ in range(2):  # the loop looks at what has arrived after the first turn of this task
            await asyncio.sleep(0)
    assert not accepted_connection.complete.is_set()
    accepted_connection.client.sendall(whole[-1:])
    await until(accepted_connection.complete)
    for _ in range(2):
        await asyncio.sleep(0)
    assert accepted_connection.completions == 1
    accepted = accepted_connection.arrivals.take(accepted_connection.connection)
    with accepted:
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
        assert accepted.recv(1 << 16) == whole


async def test_a_message_that_came_after_the_connection_is_complete_once(
    accepted_connection: AcceptedConnection,
) -> None:
    await accepted_connection.add()
    accepted_connection.client.sendall(message(accepted_connection))
    await until(accepted_connection.complete)
    for _ in range(2):
        await asyncio.sleep(0)
    assert accepted_connection.completions == 1
    assert not asyncio.get_running_loop().remove_reader(accepted_connection.accepted.fileno())


async def test_a_client_that_disconnects_before_its_first_byte_is_noticed(
    accepted_connection: AcceptedConnection,
) -> None:
    await accepted_connection.add()
    accepted_connection.client.close()
    await until(accepted_connection.ended)
    assert not accepted_connection.complete.is_set()


async def test_a_client_that_sends_half_a_message_and_its_end_is_not_waited_for(
    accepted_connection: AcceptedConnection,
) -> None:
    await accepted_connection.add()
    accepted_connection.client.sendall(message(accepted_connection)[:10])
    accepted_connection.client.shutdown(socket.SHUT_WR)
    await until(accepted_connection.complete)


async def test_a_message_that_is_very_long_is_not_waited_for(accepted_connection: AcceptedConnection) -> None:
    await accepted_connection.add()
    start = b"\x16\x03\x01\xff\xff" if accepted_connection.arrivals.encrypted else b"GET / HTTP/1.1\r\n"
    accepted_connection.client.sendall(start.ljust(arrivals.PEEK_BYTES, b"x"))
    await until(accepted_connection.complete)


async def test_what_is_not_tls_is_not_waited_for() -> None:
    accepted_connection = AcceptedConnection(encrypted=True)
    await accepted_connection.add()
    accepted_connection.client.sendall(b"GET")
    await until(accepted_connection.complete)
    accepted_connection.close()


async def test_a_client_without_room_that_has_sent_something_gets_an_answer() -> None:
    accepted_connection = AcceptedConnection(encrypted=False)
    await accepted_connection.add()
    accepted_connection.client.sendall(b"GET")
    await accepted_connection.received()
    accepted_connection.arrivals.drop(accepted_connection.connection, b"HTTP/1.1 503 ")
    accepted_connection.client.settimeout(60)
    assert accepted_connection.client.recv(100) == b"HTTP/1.1 503 "
    assert accepted_connection.client.recv(100) == b""
    accepted_connection.close()

"""Which connections of an HTTP server are accepted, make room for others, or have taken too long."""

import asyncio
import errno
import logging
import socket

import pytest

from gantry.runtime import limits, repeated_logs
from gantry.runtime.real import accepting, connections

SMALL = limits.HttpLimits(
    connections=6, strangers=4, per_peer=3, requests=2, requests_per_peer=1, header_seconds=5, idle_seconds=50
)


class Site:
    """Connections at a time that the test sets; ``ended`` are those that were closed for others."""

    def __init__(self) -> None:
        self.now = 0.0
        log = repeated_logs.RepeatedLog(logging.getLogger("test"))
        self.connections = connections.Connections(SMALL, time=lambda: self.now, log=log)
        self.ended: list[connections.Connection] = []

    def open(self, peer: str, state: connections.State = connections.State.HEADERS) -> connections.Connection:
        self.now += 1
        connection = self.connections.accept(peer)
        connection.close = lambda: self.ended.append(connection)
        self.connections.enter(connection, state)
        return connection


@pytest.fixture
async def site() -> Site:
    return Site()


async def test_a_peer_beyond_its_share_loses_its_own_oldest_connection(site: Site) -> None:
    other, first = site.open("b"), site.open("a")
    for _ in range(3):
        site.open("a")
    assert site.ended == [first]
    assert not other.refusal


async def test_a_full_server_closes_the_oldest_stranger_of_the_peer_that_has_most(site: Site) -> None:
    site.open("b")
    first, *_ = (site.open("a") for _ in range(3))
    newcomer = site.open("c")
    assert site.ended == [first]
    assert not newcomer.refusal


async def test_known_clients_do_not_make_room_for_strangers(site: Site) -> None:
    for peer in "abcdef":
        site.connections.recognize(site.open(peer))
    assert site.open("g").refusal == 503
    assert site.ended == []


async def test_a_client_that_is_not_known_any_more_makes_room(site: Site) -> None:
    first, *_ = (site.open(peer) for peer in "abcd")
    for connection in site.connections:
        site.connections.recognize(connection)
    site.open("e"), site.open("f")
    site.connections.recognize(first, known=False)
    site.connections.recognize(first, known=False)
    assert not site.open("g").refusal
    assert site.ended == [first]


async def test_a_long_idle_connection_of_a_known_client_makes_room(site: Site) -> None:
    idle = site.open("a", connections.State.IDLE)
    site.connections.recognize(idle)
    for peer in "bcdef":
        site.connections.recognize(site.open(peer))
    assert site.open("g").refusal == 503
    site.now += connections.DISPLACEABLE_IDLE_SECONDS
    assert site.open("h").refusal == 0
    assert site.ended == [idle]


async def test_requests_in_work_do_not_make_room(site: Site) -> None:
    for _ in range(3):
        site.open("a", connections.State.WORK)
    assert site.open("a").refusal == 429
    site.open("b", connections.State.WORK)
    assert site.open("c").refusal == 503


async def test_refused_connections_are_few(site: Site) -> None:
    for _ in range(3):
        site.open("a", connections.State.WORK)
    first, second = site.open("a"), site.open("a")
    assert (first.refusal, second.refusal, site.ended) == (429, 429, [first])


async def test_requests_of_one_peer_leave_room_for_others(site: Site) -> None:
    first, second, third = (site.open(peer) for peer in "aab")
    assert site.connections.begin_work(first) == 0
    assert site.connections.begin_work(second) == 429
    assert site.connections.begin_work(third) == 0
    assert site.connections.begin_work(site.open("c")) == 503
    site.connections.end_work(first)
    assert site.connections.begin_work(second) == 0


async def test_each_state_has_its_time_limit(site: Site) -> None:
    waiting, idle, working = (
        site.open("a"),
        site.open("b", connections.State.IDLE),
        site.open("c", connections.State.WORK),
    )
    site.now += 6
    assert list(site.connections.late()) == [waiting]
    site.now += 50
    assert list(site.connections.late()) == [waiting, idle]
    working.stalled = site.now
    site.now += SMALL.stall_seconds + 1
    assert working in site.connections.late()


class _Exhausted(socket.socket):
    """A listener that has no file descriptor for its first connections."""

    failures = 3

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_a_process_without_descriptors_waits_and_makes_room(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accepting, "BACK_OFF_SECONDS", 0.01)
    listener, accepted, exhausted = _Exhausted(), asyncio.Event(), list[None]()
    listener.bind(("127.0.0.1", 0))
    listener.listen()

    def take(connection: socket.socket, _: object) -> None:
        connection.close()
        accepted.set()

    log = repeated_logs.RepeatedLog(logging.getLogger("test"), burst=1)
    acceptor = accepting.Acceptor(listener, take, on_exhausted=lambda: exhausted.append(None), log=log)
    try:
        with socket.create_connection(listener.getsockname()):
            async with asyncio.timeout(30):
                await accepted.wait()
    finally:
        acceptor.close()
    assert len(exhausted) == 3
    (line,) = [record.getMessage() for record in caplog.records]
    assert "Too many open files" in line

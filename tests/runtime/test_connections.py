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


class OpenConnections:
    """Connections at a time that the test sets; ``ended`` are those that were closed for others."""

    def __init__(self, allowed: limits.HttpLimits = SMALL, *, arrivals: int = 100) -> None:
        self.now = 0.0
        log = repeated_logs.RepeatedLog(logging.getLogger("test"))
        self.connections = connections.Connections(allowed, time=lambda: self.now, log=log, arrivals=arrivals)
        self.ended: list[connections.Connection] = []

    def arrive(self, peer: str, *, complete: bool = True) -> connections.Connection:
        connection = self.connections.arrive(peer, connections.State.HEADERS)
        connection.close = lambda: self.ended.append(connection)
        if complete:
            self.connections.complete(connection)
        return connection

    def open(self, peer: str, state: connections.State = connections.State.HEADERS) -> connections.Connection:
        """Let a connection begin, or be refused if it has no turn; all before it have been slow by then."""
        self.now += connections.SILENCE_TIMEOUT_SECONDS
        connection = self.arrive(peer)
        if not self.connections.begin(state):
            self.now += connections.MAX_TURN_SECONDS + 1
            assert self.connections.begin(state) is connection
        self.connections.enter(connection, state)
        return connection


@pytest.fixture
async def site() -> OpenConnections:
    return OpenConnections()


async def test_a_peer_beyond_its_share_loses_its_own_oldest_connection(site: OpenConnections) -> None:
    other, first = site.open("b"), site.open("a")
    for _ in range(3):
        site.open("a")
    assert site.ended == [first]
    assert not other.refusal


async def test_a_full_server_closes_the_oldest_stranger_of_the_peer_that_has_most(site: OpenConnections) -> None:
    site.open("b")
    first, *_ = (site.open("a") for _ in range(3))
    newcomer = site.open("c")
    assert site.ended == [first]
    assert not newcomer.refusal


async def test_known_clients_do_not_make_room_for_strangers(site: OpenConnections) -> None:
    for peer in "abcdef":
        site.connections.recognize(site.open(peer))
    assert site.open("g").refusal == 503
    assert site.ended == []


async def test_a_client_that_is_not_known_any_more_makes_room(site: OpenConnections) -> None:
    first, *_ = (site.open(peer) for peer in "abcd")
    for connection in site.connections:
        site.connections.recognize(connection)
    site.open("e"), site.open("f")
    site.connections.recognize(first, known=False)
    site.connections.recognize(first, known=False)
    assert not site.open("g").refusal
    assert site.ended == [first]


async def test_a_long_idle_connection_of_a_known_client_makes_room(site: OpenConnections) -> None:
    idle = site.open("a", connections.State.IDLE)
    site.connections.recognize(idle)
    for peer in "bcdef":
        site.connections.recognize(site.open(peer))
    assert site.open("g").refusal == 503
    site.now += connections.DISPLACEABLE_IDLE_SECONDS
    assert site.open("h").refusal == 0
    assert site.ended == [idle]


async def test_requests_in_work_do_not_make_room(site: OpenConnections) -> None:
    for _ in range(3):
        site.open("a", connections.State.WORK)
    assert site.open("a").refusal == 429
    site.open("b", connections.State.WORK)
    assert site.open("c").refusal == 503


async def test_refused_connections_are_few(site: OpenConnections) -> None:
    for _ in range(3):
        site.open("a", connections.State.WORK)
    first, second = site.open("a"), site.open("a")
    assert (first.refusal, second.refusal, site.ended) == (429, 429, [first])


async def test_a_connection_waits_for_its_turn_until_another_has_ended(site: OpenConnections) -> None:
    first, *_ = (site.open(peer, connections.State.WORK) for peer in "abcd")
    waiting = site.arrive("e")
    assert site.connections.begin(connections.State.HEADERS) is None
    site.connections.remove(first)
    assert site.connections.begin(connections.State.HEADERS) is waiting
    assert (waiting.refusal, site.ended) == (0, [])


async def test_no_connection_makes_room_before_its_client_had_time_to_send_something(site: OpenConnections) -> None:
    for peer in "abcd":
        connection = site.arrive(peer)
        assert site.connections.begin(connections.State.HANDSHAKE) is connection
    newcomer = site.arrive("e")
    site.now += connections.SILENCE_TIMEOUT_SECONDS / 2
    assert site.connections.begin(connections.State.HANDSHAKE) is None
    assert site.ended == []
    site.now += connections.SILENCE_TIMEOUT_SECONDS / 2
    assert site.connections.begin(connections.State.HANDSHAKE) is newcomer
    assert len(site.ended) == 1
    assert not newcomer.refusal


async def test_no_connection_whose_bytes_the_server_has_not_read_makes_room(site: OpenConnections) -> None:
    for peer in "abcd":
        site.open(peer).has_unread = lambda: True
    assert site.open("e").refusal == 503
    assert site.ended == []


async def test_a_peer_with_few_strangers_does_not_wait_for_one_with_many() -> None:
    site = OpenConnections(limits.HttpLimits(strangers=30))
    crowd = [site.arrive("a") for _ in range(40)]
    begun = [site.connections.begin(connections.State.HEADERS) for _ in range(31)]
    assert begun == [*crowd[:9:-1], None]
    newcomer = site.arrive("b")
    assert site.connections.begin(connections.State.HEADERS) is None
    site.now += connections.SHORT_SILENCE_TIMEOUT_SECONDS
    assert site.connections.begin(connections.State.HEADERS) is newcomer
    assert len(site.ended) == 1


async def test_a_few_handshakes_go_on_at_a_time_and_all_clients_have_their_turn() -> None:
    site = OpenConnections(limits.HttpLimits())
    for _ in range(100):
        site.arrive("a")
    under_way: list[connections.Connection] = []
    for _ in range(100):
        while connection := site.connections.begin(connections.State.HANDSHAKE):
            under_way.append(connection)
        assert 0 < len(under_way) <= connections.HANDSHAKES
        site.connections.enter(under_way.pop(), connections.State.HEADERS)
    assert not site.connections.has_waiting()
    assert site.ended == []


async def test_connections_without_a_first_message_take_the_room_of_no_other(site: OpenConnections) -> None:
    for _ in range(10):
        site.arrive("a", complete=False)
    newcomer = site.arrive("a")
    assert site.connections.begin(connections.State.HEADERS) is newcomer


async def test_of_too_many_connections_that_have_not_begun_the_oldest_without_a_message_is_closed() -> None:
    site = OpenConnections(arrivals=3)
    complete = site.arrive("a")
    silent = [site.arrive("b", complete=False) for _ in range(3)]
    assert site.ended == [silent[0]]
    site.arrive("c", complete=False)
    assert site.ended == silent[:2]
    assert complete not in site.ended


async def test_a_refusal_goes_to_the_connection_that_has_waited_longest(site: OpenConnections) -> None:
    for _ in range(3):
        site.open("a", connections.State.WORK)
    first = site.arrive("a")
    site.now += connections.TURN_SECONDS / 2
    second = site.arrive("a")
    assert site.connections.begin(connections.State.HEADERS) is None
    site.now += connections.TURN_SECONDS / 2 + 0.1
    assert site.connections.begin(connections.State.HEADERS) is first
    assert site.connections.begin(connections.State.HEADERS) is None
    assert (first.refusal, second.refusal) == (429, 0)


async def test_a_refused_client_that_is_about_to_read_its_answer_is_not_cut_off(site: OpenConnections) -> None:
    for _ in range(3):
        site.open("a", connections.State.WORK)
    first, second = site.arrive("a"), site.arrive("a")
    site.now += connections.MAX_TURN_SECONDS + 1
    assert site.connections.begin(connections.State.WORK) is first
    assert site.connections.begin(connections.State.WORK) is None
    site.connections.remove(first)
    assert site.connections.begin(connections.State.WORK) is second
    assert site.ended == []


async def test_requests_of_one_peer_leave_room_for_others(site: OpenConnections) -> None:
    first, second, third = (site.open(peer) for peer in "aab")
    assert site.connections.begin_work(first) == 0
    assert site.connections.begin_work(second) == 429
    assert site.connections.begin_work(third) == 0
    assert site.connections.begin_work(site.open("c")) == 503
    site.connections.end_work(first)
    assert site.connections.begin_work(second) == 0


async def test_each_state_has_its_time_limit(site: OpenConnections) -> None:
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

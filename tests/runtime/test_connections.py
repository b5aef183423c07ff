"""Which connections of an HTTP server are accepted, make room for others, or have taken too long."""

import asyncio
import errno
import logging
import os
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
async def open_connections() -> OpenConnections:
    return OpenConnections()


async def test_a_peer_beyond_its_share_loses_its_own_oldest_connection(open_connections: OpenConnections) -> None:
    other, first = open_connections.open("b"), open_connections.open("a")
    for _ in range(3):
        open_connections.open("a")
    assert open_connections.ended == [first]
    assert not other.refusal


async def test_a_full_server_closes_the_oldest_stranger_of_the_peer_that_has_most(
    open_connections: OpenConnections, caplog: pytest.LogCaptureFixture
) -> None:
    open_connections.open("b")
    first, *_ = (open_connections.open("a") for _ in range(3))
    newcomer = open_connections.open("c")
    assert open_connections.ended == [first]
    assert not newcomer.refusal
    (entry,) = caplog.records
    assert entry.getMessage() == (
        "a connection of a is closed to make room for another: it waited 6.0 s for its headers"
    )


async def test_known_clients_do_not_make_room_for_strangers(open_connections: OpenConnections) -> None:
    for peer in "abcdef":
        open_connections.connections.recognize(open_connections.open(peer))
    assert open_connections.open("g").refusal == 503
    assert open_connections.ended == []


async def test_a_client_that_is_not_known_any_more_makes_room(open_connections: OpenConnections) -> None:
    first, *_ = (open_connections.open(peer) for peer in "abcd")
    for connection in open_connections.connections:
        open_connections.connections.recognize(connection)
    open_connections.open("e"), open_connections.open("f")
    open_connections.connections.recognize(first, known=False)
    open_connections.connections.recognize(first, known=False)
    assert not open_connections.open("g").refusal
    assert open_connections.ended == [first]


async def test_a_long_idle_connection_of_a_known_client_makes_room(open_connections: OpenConnections) -> None:
    open_connections.now = 1000.0
    idle = open_connections.open("a", connections.State.IDLE)
    open_connections.connections.recognize(idle)
    for peer in "bcdef":
        open_connections.connections.recognize(open_connections.open(peer))
    assert open_connections.open("g").refusal == 503
    open_connections.now += connections.DISPLACEABLE_IDLE_SECONDS
    assert open_connections.open("h").refusal == 0
    assert open_connections.ended == [idle]


async def test_of_the_known_clients_the_one_that_is_idle_for_longest_makes_room(
    open_connections: OpenConnections,
) -> None:
    idle = [open_connections.open(peer, connections.State.IDLE) for peer in "abcd"]
    for connection in idle:
        open_connections.connections.recognize(connection)
    open_connections.connections.enter(idle[0], connections.State.IDLE)
    for peer in "ef":
        open_connections.connections.recognize(open_connections.open(peer))
    open_connections.now += connections.DISPLACEABLE_IDLE_SECONDS
    assert open_connections.open("g").refusal == 0
    assert open_connections.ended == [idle[1]]


async def test_requests_in_work_do_not_make_room(open_connections: OpenConnections) -> None:
    for _ in range(3):
        open_connections.open("a", connections.State.WORK)
    assert open_connections.open("a").refusal == 429
    open_connections.open("b", connections.State.WORK)
    assert open_connections.open("c").refusal == 503


async def test_refused_connections_are_few(open_connections: OpenConnections) -> None:
    for _ in range(3):
        open_connections.open("a", connections.State.WORK)
    first, second = open_connections.open("a"), open_connections.open("a")
    assert (first.refusal, second.refusal, open_connections.ended) == (429, 429, [first])


async def test_a_connection_waits_for_its_turn_until_another_has_ended(open_connections: OpenConnections) -> None:
    first, *_ = (open_connections.open(peer, connections.State.WORK) for peer in "abcd")
    waiting = open_connections.arrive("e")
    assert open_connections.connections.begin(connections.State.HEADERS) is None
    open_connections.connections.remove(first)
    assert open_connections.connections.begin(connections.State.HEADERS) is waiting
    assert (waiting.refusal, open_connections.ended) == (0, [])


async def test_no_connection_makes_room_before_its_client_had_time_to_send_something(
    open_connections: OpenConnections,
) -> None:
    for peer in "abcd":
        connection = open_connections.arrive(peer)
        assert open_connections.connections.begin(connections.State.HANDSHAKE) is connection
    newcomer = open_connections.arrive("e")
    open_connections.now += connections.SILENCE_TIMEOUT_SECONDS / 2
    assert open_connections.connections.begin(connections.State.HANDSHAKE) is None
    assert open_connections.ended == []
    open_connections.now += connections.SILENCE_TIMEOUT_SECONDS / 2
    assert open_connections.connections.begin(connections.State.HANDSHAKE) is newcomer
    assert len(open_connections.ended) == 1
    assert not newcomer.refusal


async def test_no_connection_whose_bytes_the_server_has_not_read_makes_room(open_connections: OpenConnections) -> None:
    for peer in "abcd":
        open_connections.open(peer).has_unread = lambda: True
    assert open_connections.open("e").refusal == 503
    assert open_connections.ended == []


async def test_a_peer_with_few_strangers_does_not_wait_for_one_with_many() -> None:
    open_connections = OpenConnections(limits.HttpLimits(strangers=30))
    crowd = [open_connections.arrive("a") for _ in range(40)]
    begun = [open_connections.connections.begin(connections.State.HEADERS) for _ in range(31)]
    assert begun == [*crowd[:9:-1], None]
    newcomer = open_connections.arrive("b")
    assert open_connections.connections.begin(connections.State.HEADERS) is None
    open_connections.now += connections.SHORT_SILENCE_TIMEOUT_SECONDS
    assert open_connections.connections.begin(connections.State.HEADERS) is newcomer
    assert len(open_connections.ended) == 1


@pytest.mark.parametrize(("strangers", "begins"), [(12, False), (13, True)])
async def test_a_peer_with_twice_as_many_strangers_and_eight_makes_room_soon(strangers: int, begins: bool) -> None:
    open_connections = OpenConnections(limits.HttpLimits(strangers=strangers + 2))
    for peer in "a" * strangers + "bb":
        open_connections.arrive(peer)
        assert open_connections.connections.begin(connections.State.HEADERS)
    newcomer = open_connections.arrive("b")
    open_connections.now += connections.SHORT_SILENCE_TIMEOUT_SECONDS
    assert open_connections.connections.begin(connections.State.HEADERS) is (newcomer if begins else None)
    assert [each.peer for each in open_connections.ended] == ["a"] * begins


@pytest.mark.parametrize(
    ("state", "seconds"),
    [
        (connections.State.IDLE, 0),
        (connections.State.BODY, connections.SHORT_SILENCE_TIMEOUT_SECONDS),
        (connections.State.HEADERS, connections.SILENCE_TIMEOUT_SECONDS),
    ],
)
async def test_a_stranger_makes_room_after_the_time_of_its_state(state: connections.State, seconds: float) -> None:
    open_connections = OpenConnections(limits.HttpLimits(connections=1))
    first = open_connections.open("a", state)
    newcomer = open_connections.arrive("b")
    if seconds:
        open_connections.now += seconds / 2
        assert open_connections.connections.begin(state) is None
        open_connections.now += seconds / 2
    assert open_connections.connections.begin(state) is newcomer
    assert open_connections.ended == [first]


async def test_a_process_without_descriptors_closes_a_quarter_and_those_that_have_not_begun_first() -> None:
    open_connections = OpenConnections()
    begun = [open_connections.open(peer) for peer in "abcd"]
    silent = [open_connections.arrive("e", complete=False) for _ in range(4)]
    assert len(open_connections.connections) == 8
    open_connections.connections.displace_some()
    assert open_connections.ended == silent[:3]
    open_connections.connections.displace_some()
    assert open_connections.ended[3:] == [silent[3], begun[0]]


async def test_a_process_without_descriptors_closes_connections_that_have_just_begun(
    open_connections: OpenConnections,
) -> None:
    first, second = (open_connections.arrive(peer) for peer in "ab")
    begun = [open_connections.connections.begin(connections.State.HEADERS) for _ in range(2)]
    assert {*begun} == {first, second}
    open_connections.connections.displace_some()
    assert open_connections.ended == [begun[0]]


async def test_all_connections_count_for_the_quarter_that_is_closed() -> None:
    open_connections = OpenConnections()
    for _ in range(3):
        open_connections.open("a", connections.State.WORK)
    refused = open_connections.open("a")
    complete = [open_connections.arrive("b") for _ in range(4)]
    assert refused.refusal
    assert len(open_connections.connections) == 8
    open_connections.connections.displace_some()
    assert open_connections.ended == complete[:3]


async def test_a_few_handshakes_go_on_at_a_time_and_all_clients_have_their_turn() -> None:
    open_connections = OpenConnections(limits.HttpLimits())
    for _ in range(100):
        open_connections.arrive("a")
    under_way: list[connections.Connection] = []
    for number in range(100):
        while connection := open_connections.connections.begin(connections.State.HANDSHAKE):
            under_way.append(connection)
        assert len(under_way) == min(connections.HANDSHAKES, 100 - number)
        open_connections.connections.enter(under_way.pop(), connections.State.HEADERS)
    assert not open_connections.connections.has_waiting()
    assert open_connections.ended == []


async def test_a_peer_with_its_share_does_not_pass_another_that_waits_for_a_handshake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "HANDSHAKES", 1)
    open_connections = OpenConnections(limits.HttpLimits(per_peer=3))
    for _ in range(3):
        open_connections.open("a", connections.State.IDLE)
    open_connections.open("b", connections.State.HANDSHAKE)
    newcomer = open_connections.arrive("c")
    open_connections.arrive("a")
    assert open_connections.connections.begin(connections.State.HANDSHAKE) is None
    assert open_connections.ended == []
    open_connections.now += connections.SILENCE_TIMEOUT_SECONDS
    assert open_connections.connections.begin(connections.State.HANDSHAKE) is newcomer
    assert [each.peer for each in open_connections.ended] == ["b"]


async def test_a_handshake_that_ends_with_its_connection_makes_room_for_another_one(
    open_connections: OpenConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HANDSHAKES", 1)
    complete, under_way = open_connections.open("a"), open_connections.open("b", connections.State.HANDSHAKE)
    waiting = {open_connections.arrive("c"), open_connections.arrive("d")}
    open_connections.connections.remove(complete)
    assert open_connections.connections.begin(connections.State.HANDSHAKE) is None
    open_connections.connections.remove(under_way)
    assert open_connections.connections.begin(connections.State.HANDSHAKE) in waiting
    assert open_connections.connections.begin(connections.State.HANDSHAKE) is None
    assert open_connections.ended == []


async def test_connections_without_a_first_message_take_the_room_of_no_other(open_connections: OpenConnections) -> None:
    for _ in range(10):
        open_connections.arrive("a", complete=False)
    newcomer = open_connections.arrive("a")
    assert open_connections.connections.begin(connections.State.HEADERS) is newcomer


async def test_of_too_many_connections_that_have_not_begun_the_oldest_without_a_message_is_closed() -> None:
    open_connections = OpenConnections(arrivals=3)
    complete = open_connections.arrive("a")
    silent = [open_connections.arrive("b", complete=False) for _ in range(3)]
    assert open_connections.ended == [silent[0]]
    open_connections.arrive("c", complete=False)
    assert open_connections.ended == silent[:2]
    assert complete not in open_connections.ended


async def test_of_too_many_connections_that_have_not_begun_the_peer_with_most_loses_its_oldest() -> None:
    open_connections = OpenConnections(arrivals=3)
    silent = [open_connections.arrive(peer, complete=False) for peer in "abb"]
    open_connections.arrive("c", complete=False)
    assert open_connections.ended == [silent[1]]


async def test_the_end_of_a_connection_counts_once_and_only_if_it_has_begun(open_connections: OpenConnections) -> None:
    first, *_ = (open_connections.open(peer, connections.State.WORK) for peer in "abcd")
    for connection in (open_connections.arrive("e", complete=False), first, first):
        open_connections.connections.remove(connection)
    newcomer, waiting = open_connections.arrive("f"), open_connections.arrive("g")
    begun = [open_connections.connections.begin(connections.State.HEADERS) for _ in range(2)]
    assert {*begun} < {newcomer, waiting, None}
    assert None in begun


async def test_a_connection_that_has_ended_has_no_turn_when_its_message_is_complete(
    open_connections: OpenConnections,
) -> None:
    connection = open_connections.arrive("a", complete=False)
    open_connections.connections.remove(connection)
    open_connections.connections.complete(connection)
    assert not open_connections.connections.has_waiting()
    assert open_connections.connections.begin(connections.State.HEADERS) is None
    assert list(open_connections.connections) == []


async def test_the_wait_for_a_turn_begins_with_the_complete_message(open_connections: OpenConnections) -> None:
    for _ in range(3):
        open_connections.open("a", connections.State.WORK)
    connection = open_connections.arrive("a", complete=False)
    open_connections.now += connections.TURN_SECONDS + 1
    assert not open_connections.connections.has_waiting()
    open_connections.connections.complete(connection)
    assert open_connections.connections.has_waiting()
    assert connection.state is connections.State.TURN
    assert open_connections.connections.begin(connections.State.HEADERS) is None
    open_connections.now += connections.TURN_SECONDS + 1
    assert open_connections.connections.begin(connections.State.HEADERS) is connection
    assert connection.refusal == 429


async def test_of_several_peers_a_refusal_goes_to_the_one_that_has_waited_longest() -> None:
    open_connections = OpenConnections(limits.HttpLimits(connections=1))
    open_connections.open("a", connections.State.WORK)
    waiting = []
    for peer in "bcd":
        waiting.append(open_connections.arrive(peer))
        open_connections.now += 0.1
    open_connections.now += connections.TURN_SECONDS
    assert open_connections.connections.begin(connections.State.HEADERS) is waiting[0]
    assert waiting[0].refusal == 503


async def test_a_refusal_goes_to_the_connection_that_has_waited_longest(open_connections: OpenConnections) -> None:
    for _ in range(3):
        open_connections.open("a", connections.State.WORK)
    first = open_connections.arrive("a")
    open_connections.now += connections.TURN_SECONDS / 2
    second = open_connections.arrive("a")
    assert open_connections.connections.begin(connections.State.HEADERS) is None
    open_connections.now += connections.TURN_SECONDS / 2 + 0.1
    assert open_connections.connections.begin(connections.State.HEADERS) is first
    assert open_connections.connections.begin(connections.State.HEADERS) is None
    assert (first.refusal, second.refusal) == (429, 0)


async def test_a_connection_waits_longer_for_its_turn_while_another_may_have_to_make_room(
    open_connections: OpenConnections,
) -> None:
    for _ in range(2):
        open_connections.open("a", connections.State.WORK)
    free = open_connections.open("a")
    connection = open_connections.arrive("a")
    open_connections.now += connections.TURN_SECONDS + 0.1
    assert open_connections.connections.begin(connections.State.HEADERS) is None
    open_connections.now += connections.SILENCE_TIMEOUT_SECONDS
    assert open_connections.connections.begin(connections.State.HEADERS) is connection
    assert (connection.refusal, open_connections.ended) == (0, [free])


@pytest.mark.parametrize(("limit", "number"), [(1, 1), (20, 2), (29, 2), (10_000, connections.COURTESY)])
async def test_a_tenth_of_the_limit_and_no_more_than_the_courtesy_are_refused_at_a_time(
    limit: int, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    open_connections = OpenConnections(limits.HttpLimits(connections=limit, per_peer=1))
    open_connections.open("a", connections.State.WORK)
    waiting = [open_connections.arrive("a") for _ in range(number + 1)]
    open_connections.now += connections.MAX_TURN_SECONDS + 1
    begun = [open_connections.connections.begin(connections.State.HEADERS) for _ in waiting]
    assert begun == [*waiting[:number], None]
    assert open_connections.ended == []
    refused = "a connection of a is refused with status 429: the server has 1 connections, 1 of this address"
    assert caplog.records[0].getMessage() == refused


async def test_a_refused_client_that_is_about_to_read_its_answer_is_not_cut_off(
    open_connections: OpenConnections,
) -> None:
    for _ in range(3):
        open_connections.open("a", connections.State.WORK)
    first, second = open_connections.arrive("a"), open_connections.arrive("a")
    open_connections.now += connections.MAX_TURN_SECONDS + 1
    assert open_connections.connections.begin(connections.State.WORK) is first
    assert open_connections.connections.begin(connections.State.WORK) is None
    open_connections.connections.remove(first)
    assert open_connections.connections.begin(connections.State.WORK) is second
    assert open_connections.ended == []


async def test_requests_of_one_peer_leave_room_for_others(open_connections: OpenConnections) -> None:
    first, second, third = (open_connections.open(peer) for peer in "aab")
    assert open_connections.connections.begin_work(first) == 0
    assert open_connections.connections.begin_work(second) == 429
    assert open_connections.connections.begin_work(third) == 0
    assert open_connections.connections.begin_work(open_connections.open("c")) == 503
    open_connections.connections.end_work(first)
    assert open_connections.connections.begin_work(second) == 0


async def test_the_end_of_a_request_makes_room_for_one_of_its_peer() -> None:
    open_connections = OpenConnections(limits.HttpLimits(requests_per_peer=2))
    connection = open_connections.open("a")
    statuses = [open_connections.connections.begin_work(connection) for _ in range(3)]
    assert statuses == [0, 0, 429]
    open_connections.connections.end_work(connection)
    assert [open_connections.connections.begin_work(connection) for _ in range(2)] == [0, 429]


async def test_each_state_has_its_time_limit(open_connections: OpenConnections) -> None:
    open_connections.now = 1000.0
    waiting, idle, working = (
        open_connections.open("a"),
        open_connections.open("b", connections.State.IDLE),
        open_connections.open("c", connections.State.WORK),
    )
    open_connections.now += 6
    assert list(open_connections.connections.late()) == [waiting]
    open_connections.now += 50
    assert list(open_connections.connections.late()) == [waiting, idle]
    working.stalled = open_connections.now
    assert list(open_connections.connections.late()) == [waiting, idle]
    open_connections.now += SMALL.stall_seconds + 1
    assert working in open_connections.connections.late()


class _Failing(socket.socket):
    """A listener that cannot accept its first connections; the error is that of a process without descriptors."""

    failures = 3
    number = errno.EMFILE

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(self.number, os.strerror(self.number))
        return super().accept()


async def accept_one(listener: _Failing, log: repeated_logs.RepeatedLog) -> int:
    """Accept a connection, and return how many times the process had no descriptor."""
    accepted, exhausted = asyncio.Event(), list[None]()
    listener.bind(("127.0.0.1", 0))
    listener.listen()

    def take(connection: socket.socket, _: object) -> None:
        connection.close()
        accepted.set()

    acceptor = accepting.Acceptor(listener, take, on_exhausted=lambda: exhausted.append(None), log=log)
    try:
        with socket.create_connection(listener.getsockname()):
            async with asyncio.timeout(30):
                await accepted.wait()
    finally:
        acceptor.close()
    return len(exhausted)


async def test_a_process_without_descriptors_waits_and_makes_room(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accepting, "BACK_OFF_SECONDS", 0.01)
    log = repeated_logs.RepeatedLog(logging.getLogger("test"), burst=1)
    assert await accept_one(_Failing(), log) == 3
    (line,) = [record.getMessage() for record in caplog.records]
    assert "Too many open files" in line


async def test_a_client_that_has_gone_before_its_acceptance_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accepting, "BACK_OFF_SECONDS", 3600.0)
    listener = _Failing()
    listener.number = errno.ECONNABORTED
    assert await accept_one(listener, repeated_logs.RepeatedLog(logging.getLogger("test"))) == 0
    assert caplog.records == []


async def test_a_socket_that_is_closed_while_the_process_has_no_descriptor_accepts_nothing_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accepting, "BACK_OFF_SECONDS", 0.01)
    listener, exhausted = _Failing(), asyncio.Event()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    log = repeated_logs.RepeatedLog(logging.getLogger("test"))
    acceptor = accepting.Acceptor(listener, lambda *_: None, on_exhausted=exhausted.set, log=log)
    with socket.create_connection(listener.getsockname()):
        async with asyncio.timeout(30):
            await exhausted.wait()
        acceptor.close()
        await asyncio.sleep(2 * accepting.BACK_OFF_SECONDS)  # the timers of the loop run in their order
    assert [record.name for record in caplog.records] == ["test"]

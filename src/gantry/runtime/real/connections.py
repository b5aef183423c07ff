"""The connections of an HTTP server: which may begin, which makes room for another, which has taken too long.

A connection arrives in the state HANDSHAKE with TLS, else HEADERS. When its first message is complete (``arrivals``),
it waits for its TURN. It begins as soon as the limits leave room: then it is in its HANDSHAKE, waits for the headers of
its first request (HEADERS), for a body (BODY), is in work (WORK), and then idle until the next request begins (IDLE).
Only connections that have begun count for the limits: of many clients at once some wait, and none is closed.

A server without room closes the connection of a stranger that has kept the server waiting: one that is idle, or has
sent nothing for ``SILENCE_TIMEOUT_SECONDS``, of the peer that has most strangers. A connection whose bytes the server
has not read yet is never closed for another. Of the peers with connections that wait, the one with the fewest strangers
is next, with its newest connection, so that an honest client passes the queue of an attacker.

A connection that has waited for its turn for too long still begins, up to ``COURTESY`` of them at a time, and its first
request is answered with the reason; it has no other use.
"""

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from gantry.runtime import limits, repeated_logs

HANDSHAKES = 32
"""TLS handshakes at a time: more at once would all take longer, and none would be complete sooner."""
COURTESY = 32
"""Connections above the limits, at most a tenth of them, which are answered with a refusal."""
DISPLACEABLE_IDLE_SECONDS = 20.0
"""A known client's connection makes room after that time without a request; own clients have closed it by then."""
SILENCE_TIMEOUT_SECONDS = 2.0
"""How long a stranger may keep a full server waiting; a busy machine needs some time for its part of a handshake."""
SHORT_SILENCE_TIMEOUT_SECONDS = 0.25
"""The same for a body, and for a peer with many more strangers than the peer that waits."""
MANY_MORE = 8
"""A peer has many more strangers than another with twice as many and these."""
TURN_SECONDS = 0.5
"""A connection waits that long for its turn if none of those that have begun may have to make room."""
MAX_TURN_SECONDS = 3.0
"""The longest wait for a turn: longer than a stranger may keep the server waiting."""

TOO_MANY_REQUESTS = 429
UNAVAILABLE = 503


class State(Enum):
    """What a connection waits for."""

    TURN = "turn"
    HANDSHAKE = "TLS handshake"
    HEADERS = "headers"
    BODY = "body"
    WORK = "work"
    IDLE = "idle"


@dataclass(eq=False)
class Connection:
    """A connection: its peer, its state and since when, and whether its client is known.

    ``close`` ends it at once, ``end`` with an answer, if it can have one. ``has_unread`` says whether bytes of the
    client wait for the server. ``refusal`` is the status with which each request on it is answered, 0 for none.
    ``stalled`` is the time since when its client does not read an answer.
    """

    peer: str
    since: float
    close: Callable[[], None]
    end: Callable[[], None] | None = None
    has_unread: Callable[[], bool] = lambda: False
    state: State = State.HANDSHAKE
    known: bool = False
    refusal: int = 0
    stalled: float | None = None


class _ByPeer:
    """Connections by their peer, in the order in which they were added."""

    def __init__(self) -> None:
        self._peers: dict[str, dict[Connection, None]] = {}
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[Connection]:
        return itertools.chain.from_iterable(self._peers.values())

    def peers(self) -> Iterable[str]:
        """Return the peers that have connections."""
        return self._peers

    def of(self, peer: str) -> dict[Connection, None]:
        """Return the connections of a peer, the oldest first."""
        return self._peers.get(peer, {})

    def add(self, connection: Connection) -> None:
        """Add a connection."""
        self._peers.setdefault(connection.peer, {})[connection] = None
        self._number += 1

    def remove(self, connection: Connection) -> bool:
        """Remove a connection; return whether it was there."""
        own = self.of(connection.peer)
        if connection not in own:
            return False
        del own[connection]
        self._number -= 1
        if not own:
            del self._peers[connection.peer]
        return True

    def oldest_of_most(self) -> Connection | None:
        """Return the oldest connection of the peer that has most of them."""
        own = max(self._peers.values(), key=len, default=None)
        return next(iter(own)) if own else None

    def oldest(self) -> Connection | None:
        """Return the connection that has been in its state for longest."""
        return min((next(iter(own)) for own in self._peers.values()), key=lambda each: each.since, default=None)


class Connections:
    """The connections of a server, within its limits.

    At most ``arrivals`` of them have not begun; of more, the oldest is closed, one without a first message first.
    """

    def __init__(
        self,
        allowed: limits.HttpLimits,
        *,
        time: Callable[[], float],
        log: repeated_logs.RepeatedLog,
        arrivals: int = limits.ARRIVALS,
    ) -> None:
        self._limits = allowed
        self._max_arrivals = arrivals
        self._time = time
        self._log = log
        self._arrived = _ByPeer()
        self._ready = _ByPeer()
        self._begun = _ByPeer()
        self._strangers: Counter[str] = Counter()
        self._number_of_strangers = 0
        self._handshakes = 0
        self._refused: dict[Connection, None] = {}
        self._work: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._arrived) + len(self._ready) + len(self._begun) + len(self._refused)

    def __iter__(self) -> Iterator[Connection]:
        return itertools.chain(self._arrived, self._ready, self._begun, self._refused)

    def arrive(self, peer: str, state: State) -> Connection:
        """Return a new connection, which waits for its first message; another one may have been closed for it."""
        if len(self._arrived) + len(self._ready) >= self._max_arrivals:
            self._close_arrival()
        connection = Connection(peer, self._time(), close=_nothing, state=state)
        self._arrived.add(connection)
        return connection

    def _close_arrival(self) -> bool:
        """Close the oldest connection that has not begun, of the peer that has most; return whether there was one."""
        victim = self._arrived.oldest_of_most() or self._ready.oldest_of_most()
        if victim:
            self._close_for_another(victim)
        return victim is not None

    def complete(self, connection: Connection) -> None:
        """Note that the first message of a connection is complete: from now on it waits for its turn."""
        if self._arrived.remove(connection):
            self.enter(connection, State.TURN)
            self._ready.add(connection)

    def has_waiting(self) -> bool:
        """Return whether connections wait for their turn."""
        return bool(len(self._ready))

    def begin(self, state: State) -> Connection | None:
        """Return the next connection that may begin, in its new state; None while the server is full.

        Other connections may have been closed for it, or it is returned to be refused.
        """
        for peer in sorted(self._ready.peers(), key=self._strangers.__getitem__):
            if len(self._begun.of(peer)) >= self._limits.per_peer:
                has_room = self._displace([peer], SILENCE_TIMEOUT_SECONDS)
            else:
                has_room = self._has_room(peer, state)
                if not has_room:
                    break  # the other peers have more strangers: the server is full for them too
            if has_room:
                connection = next(reversed(self._ready.of(peer)))
                self._ready.remove(connection)
                self._begun.add(connection)
                self._count(connection, 1)
                self.enter(connection, state)
                return connection
        return self._begin_refusal(state)

    def _has_room(self, peer: str, state: State) -> bool:
        """Return whether a connection of a peer that has less than its share may begin; make room if that is due."""
        is_full = len(self._begun) >= self._limits.connections or self._number_of_strangers >= self._limits.strangers
        if not is_full and (state is not State.HANDSHAKE or self._handshakes < HANDSHAKES):
            return True
        only = None if is_full else State.HANDSHAKE
        peers, enough = self._by_strangers(), 2 * self._strangers[peer] + MANY_MORE
        larger = [each for each in peers if self._strangers[each] > enough]
        return self._displace(larger, SHORT_SILENCE_TIMEOUT_SECONDS, only=only) or self._displace(
            peers, SILENCE_TIMEOUT_SECONDS, only=only
        )

    def _by_strangers(self) -> list[str]:
        """Return the peers of connections that have begun, the one with most strangers first."""
        return sorted(self._begun.peers(), key=self._strangers.__getitem__, reverse=True)

    def _begin_refusal(self, state: State) -> Connection | None:
        """Return a connection that has waited for its turn for too long, to be refused; None if there is none."""
        connection = self._ready.oldest()
        if connection is None:
            return None
        is_full = len(self._begun.of(connection.peer)) >= self._limits.per_peer
        counted = self._begun.of(connection.peer) if is_full else self._begun
        waited = self._time() - connection.since
        if waited <= TURN_SECONDS or (waited <= MAX_TURN_SECONDS and any(_is_free(each) for each in counted)):
            return None
        if len(self._refused) >= max(1, min(COURTESY, self._limits.connections // 10)):
            oldest = next(iter(self._refused))
            if not self._is_slow(oldest, SHORT_SILENCE_TIMEOUT_SECONDS):
                return None
            self._end(oldest)
        self._ready.remove(connection)
        connection.refusal = TOO_MANY_REQUESTS if is_full else UNAVAILABLE
        self._log.write(
            logging.WARNING,
            "connections refused",
            "a connection of %s is refused with status %d: the server has %d connections, %d of this address",
            connection.peer,
            connection.refusal,
            len(self._begun),
            len(self._begun.of(connection.peer)),
        )
        self._refused[connection] = None
        self.enter(connection, state)
        return connection

    def displace_some(self) -> None:
        """Close a quarter of the connections, those that are worth least: the process needs their descriptors."""
        for _ in range(1 + len(self) // 4):
            if not self._close_arrival():
                self._displace(self._by_strangers(), 0)

    def _displace(self, peers: Sequence[str], timeout_seconds: float, *, only: State | None = None) -> bool:
        """Close the oldest slow stranger of the first of these peers that has one, or else a known client's idle one.

        Return whether there was one. With ``only``, it has to be in this state.
        """
        candidates = [each for peer in peers for each in self._begun.of(peer) if only is None or each.state is only]
        victim = next((each for each in candidates if self._is_slow(each, timeout_seconds)), None)
        if victim is None:
            idle = [each for each in candidates if self._is_long_idle(each)]
            victim = min(idle, key=lambda each: each.since, default=None)
        if victim is None:
            return False
        self._close_for_another(victim)
        return True

    def _close_for_another(self, victim: Connection) -> None:
        self._log.write(
            logging.WARNING,
            "connections closed for others",
            "a connection of %s is closed to make room for another: it waited %.1f s for its %s",
            victim.peer,
            self._time() - victim.since,
            victim.state.value,
        )
        self._end(victim)

    def _is_slow(self, connection: Connection, timeout_seconds: float) -> bool:
        """Return whether a stranger has kept the server waiting too long; one with a request in work waits itself."""
        if not _is_free(connection):
            return False
        if connection.state is State.IDLE:
            timeout_seconds = 0
        elif connection.state is State.BODY:
            timeout_seconds = min(timeout_seconds, SHORT_SILENCE_TIMEOUT_SECONDS)
        return self._time() - connection.since >= timeout_seconds and not connection.has_unread()

    def _is_long_idle(self, connection: Connection) -> bool:
        age = self._time() - connection.since
        return connection.known and connection.state is State.IDLE and age > DISPLACEABLE_IDLE_SECONDS

    def _end(self, connection: Connection) -> None:
        self.remove(connection)
        connection.close()

    def recognize(self, connection: Connection, *, known: bool = True) -> None:
        """Note that the client of a connection has proven who it is, or that its proof does not count any more."""
        if connection.known is not known:
            is_counted = connection in self._begun.of(connection.peer)
            self._count(connection, -is_counted)
            connection.known = known
            self._count(connection, is_counted)

    def _count(self, connection: Connection, change: int) -> None:
        """Count a connection that has begun, or count it no more, in what is known about it now."""
        if not connection.known:
            self._strangers[connection.peer] += change
            self._number_of_strangers += change
            if not self._strangers[connection.peer]:
                del self._strangers[connection.peer]

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended; a second call does nothing."""
        self._refused.pop(connection, None)
        self._arrived.remove(connection)
        self._ready.remove(connection)
        if self._begun.remove(connection):
            self._count(connection, -1)
            self._handshakes -= connection.state is State.HANDSHAKE

    def enter(self, connection: Connection, state: State) -> None:
        """Note what a connection waits for from now on."""
        if connection in self._begun.of(connection.peer):
            self._handshakes += (state is State.HANDSHAKE) - (connection.state is State.HANDSHAKE)
        connection.state, connection.since = state, self._time()

    def begin_work(self, connection: Connection) -> int:
        """Take a request into work; return 0, or the status with which it is refused."""
        if self._work[connection.peer] >= self._limits.requests_per_peer:
            return TOO_MANY_REQUESTS
        if self._work.total() >= self._limits.requests:
            return UNAVAILABLE
        self._work[connection.peer] += 1
        return 0

    def end_work(self, connection: Connection) -> None:
        """Note the end of a request that ``begin_work`` took."""
        self._work[connection.peer] -= 1
        if not self._work[connection.peer]:
            del self._work[connection.peer]

    def late(self) -> Iterable[Connection]:
        """Return the connections that have taken too long."""
        seconds = {
            State.HANDSHAKE: self._limits.handshake_seconds,
            State.HEADERS: self._limits.header_seconds,
            State.IDLE: self._limits.idle_seconds,
        }
        now, stall = self._time(), self._limits.stall_seconds
        return [
            each
            for each in self
            if (each.state in seconds and now - each.since > seconds[each.state])
            or (each.stalled is not None and now - each.stalled > stall)
        ]


def _is_free(connection: Connection) -> bool:
    """Return whether no request of a stranger is lost with its connection, except one whose answer it does not read."""
    return not connection.known and (connection.state is not State.WORK or connection.stalled is not None)


def _nothing() -> None:
    """Do nothing: the socket is not open yet."""

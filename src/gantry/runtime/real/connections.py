"""The connections of an HTTP server: which is accepted, which makes room for another, which has taken too long.

A connection begins in the state HANDSHAKE, waits for the headers of its first request (HEADERS), for a body (BODY), is
in work (WORK), and then idle until the next request begins (IDLE). A full server closes the oldest connection of a
stranger that is not in work, of the peer that has most strangers, so that a client beside them still gets its answer.

A connection for which there is no room is still accepted, up to ``COURTESY`` of them, and its first request answered
with the reason; it has no other use.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from gantry.runtime import limits, repeated_logs

COURTESY = 32
"""Connections above the limits, at most a tenth of them, which are answered with a refusal."""
DISPLACEABLE_IDLE_SECONDS = 20.0
"""A known client's connection makes room after that time without a request; own clients have closed it by then."""

TOO_MANY_REQUESTS = 429
UNAVAILABLE = 503


class State(Enum):
    """What a connection waits for."""

    HANDSHAKE = "TLS handshake"
    HEADERS = "headers"
    BODY = "body"
    WORK = "work"
    IDLE = "idle"


@dataclass(eq=False)
class Connection:
    """A connection: its peer, its state and since when, and whether its client is known.

    ``close`` ends it at once, ``end`` with an answer, if it can have one. ``refusal`` is the status with which each
    request on it is answered, 0 for none. ``stalled`` is the time since when its client does not read an answer.
    """

    peer: str
    since: float
    close: Callable[[], None]
    end: Callable[[], None] | None = None
    state: State = State.HANDSHAKE
    known: bool = False
    refusal: int = 0
    stalled: float | None = None


class Connections:
    """The connections of a server, within its limits."""

    def __init__(
        self, allowed: limits.HttpLimits, *, time: Callable[[], float], log: repeated_logs.RepeatedLog
    ) -> None:
        self._limits = allowed
        self._time = time
        self._log = log
        self._peers: dict[str, dict[Connection, None]] = {}
        self._strangers: Counter[str] = Counter()
        self._refused: dict[Connection, None] = {}
        self._number = 0
        self._work: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._number + len(self._refused)

    def __iter__(self) -> Iterator[Connection]:
        for own in self._peers.values():
            yield from own
        yield from self._refused

    def accept(self, peer: str) -> Connection:
        """Return a new connection; another one may have been closed for it, or it is one that is refused."""
        connection = Connection(peer, self._time(), close=_nothing)
        own = self._peers.get(peer, {})
        if len(own) >= self._limits.per_peer:
            connection.refusal = 0 if self._displace([peer]) else TOO_MANY_REQUESTS
        elif self._number >= self._limits.connections or self._strangers.total() >= self._limits.strangers:
            connection.refusal = 0 if self.displace() else UNAVAILABLE
        if connection.refusal:
            self._refuse(connection)
        else:
            self._peers.setdefault(peer, {})[connection] = None
            self._strangers[peer] += 1
            self._number += 1
        return connection

    def _refuse(self, connection: Connection) -> None:
        self._log.write(
            logging.WARNING,
            "connections refused",
            "a connection of %s is refused with status %d: the server has %d connections, %d of this address",
            connection.peer,
            connection.refusal,
            self._number,
            len(self._peers.get(connection.peer, {})),
        )
        if len(self._refused) >= max(1, min(COURTESY, self._limits.connections // 10)):
            self._end(next(iter(self._refused)))
        self._refused[connection] = None

    def displace_some(self) -> None:
        """Close a quarter of the connections, those that are worth least: the process needs their descriptors."""
        for _ in range(1 + len(self) // 4):
            self.displace()

    def displace(self) -> bool:
        """Close the connection that is worth least; return whether there was one."""
        return self._displace([peer for peer, _ in self._strangers.most_common()])

    def _displace(self, peers: Sequence[str]) -> bool:
        """Close the oldest stranger of the first of these peers that has one, or else a known client's idle one."""
        connections = [own for peer in peers if (own := self._peers.get(peer))]
        victim = next((each for own in connections for each in own if not each.known and _is_free(each)), None)
        if victim is None:
            idle = [each for own in connections for each in own if self._is_long_idle(each)]
            victim = min(idle, key=lambda each: each.since, default=None)
        if victim is None:
            return False
        self._log.write(
            logging.WARNING,
            "connections closed for others",
            "a connection of %s is closed to make room for another: it waited %.1f s for its %s",
            victim.peer,
            self._time() - victim.since,
            victim.state.value,
        )
        self._end(victim)
        return True

    def _is_long_idle(self, connection: Connection) -> bool:
        age = self._time() - connection.since
        return connection.known and connection.state is State.IDLE and age > DISPLACEABLE_IDLE_SECONDS

    def _end(self, connection: Connection) -> None:
        self.remove(connection)
        connection.close()

    def recognize(self, connection: Connection, *, known: bool = True) -> None:
        """Note that the client of a connection has proven who it is, or that its proof does not count any more."""
        if connection.known is not known:
            connection.known = known
            if connection in self._peers.get(connection.peer, {}):
                self._strangers[connection.peer] += -1 if known else 1

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended; a second call does nothing."""
        self._refused.pop(connection, None)
        own = self._peers.get(connection.peer, {})
        if connection not in own:
            return
        del own[connection]
        self._number -= 1
        self._strangers[connection.peer] -= not connection.known
        if not own:
            del self._peers[connection.peer]
            del self._strangers[connection.peer]

    def enter(self, connection: Connection, state: State) -> None:
        """Note what a connection waits for from now on."""
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
    return connection.state is not State.WORK or connection.stalled is not None


def _nothing() -> None:
    """Do nothing: the socket is not open yet."""

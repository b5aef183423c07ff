"""The connections of an HTTP server: which is accepted, which makes room for another, which has taken too long.

A connection begins in the state HANDSHAKE, waits for the headers of its first request (HEADERS), for a body (BODY), is
in work (WORK), and then idle until the next request begins (IDLE). A full server closes the oldest connection of a
stranger that is not in work, of the peer that has most strangers, so that a client beside them still gets its answer.

A connection for which there is no room is still accepted, up to ``COURTESY`` of them, and its first request answered
with the reason; it has no other use.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
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
        self._all: dict[Connection, None] = {}
        self._work: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._all)

    def accept(self, peer: str) -> Connection:
        """Return a new connection; another one may have been closed for it, or it is one that is refused."""
        connection = Connection(peer, self._time(), close=_nothing)
        counted = [each for each in self._all if not each.refusal]
        own = [each for each in counted if each.peer == peer]
        if len(own) >= self._limits.per_peer:
            connection.refusal = 0 if self._displace(own) else TOO_MANY_REQUESTS
        elif not self._has_room(counted):
            connection.refusal = 0 if self._displace(counted) else UNAVAILABLE
        if connection.refusal:
            self._log.write(
                logging.WARNING,
                "connections refused",
                "a connection of %s is refused with status %d: the server has %d connections, %d of this address",
                peer,
                connection.refusal,
                len(counted),
                len(own),
            )
            refused = [each for each in self._all if each.refusal]
            if len(refused) >= max(1, min(COURTESY, self._limits.connections // 10)):
                self._end(refused[0])
        self._all[connection] = None
        return connection

    def _has_room(self, counted: list[Connection]) -> bool:
        strangers = sum(not each.known for each in counted)
        return len(counted) < self._limits.connections and strangers < self._limits.strangers

    def displace_some(self) -> None:
        """Close a quarter of the connections, those that are worth least: the process needs their descriptors."""
        for _ in range(1 + len(self._all) // 4):
            self._displace(list(self._all))

    def _displace(self, candidates: list[Connection]) -> bool:
        strangers = Counter(each.peer for each in candidates if not each.known)
        victims = [each for each in candidates if self._may_go(each)]
        if not victims:
            return False
        victim = min(victims, key=lambda each: (each.known, -strangers[each.peer], each.since))
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

    def _may_go(self, connection: Connection) -> bool:
        if connection.state is State.WORK:
            return False
        if connection.known:
            return connection.state is State.IDLE and self._age(connection) > DISPLACEABLE_IDLE_SECONDS
        return True

    def _age(self, connection: Connection) -> float:
        return self._time() - connection.since

    def _end(self, connection: Connection) -> None:
        self.remove(connection)
        connection.close()

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self._all.pop(connection, None)

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
            for each in self._all
            if (each.state in seconds and now - each.since > seconds[each.state])
            or (each.stalled is not None and now - each.stalled > stall)
        ]


def _nothing() -> None:
    """Do nothing: the socket is not open yet."""

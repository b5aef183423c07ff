"""Engines: where statements run and who commits.

``Database`` has its own connections, opened on demand and then reused. Each operation is one short transaction; the
work of a transaction that the database rolled back is repeated, a few times. ``Borrowed`` runs in the caller's
transaction, which the caller commits or rolls back.

Work is a function of ``Statements`` that changes nothing else, so that it can be repeated.

Invariant: work whose transaction may have been committed is never repeated; its caller gets an error that says so.
"""

import collections
import contextlib
import re
import sqlite3
from collections.abc import Callable
from typing import Protocol, TypeVar
from urllib import parse

from gantry import errors
from gantry.ipam.sql import faults, statements

T = TypeVar("T")
Work = Callable[[statements.Statements], T]

ATTEMPTS = 8
"""How many times to begin a transaction that the database rolls back on its own."""

TIMEOUT_SECONDS = 10
"""How long to wait for a connection, and for another writer of SQLite."""

_LIBPQ_DEFAULTS = {
    "connect_timeout": TIMEOUT_SECONDS,
    "keepalives_idle": TIMEOUT_SECONDS,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": TIMEOUT_SECONDS * 1000,
}
"""libpq parameters, unless the URL sets them: a server that is gone is detected within half a minute."""

_LOGIN = re.compile(r"//[^/]*@")

URL_HINT = "write sqlite:///var/lib/gantry/ipam.db or postgresql://USER@HOST/DATABASE"


class Connection(Protocol):
    """A connection of the Python Database API (PEP 249), with its optional ``Error``."""

    @property
    def Error(self) -> type[Exception]:  # noqa: N802 - the name is from PEP 249
        """The base class of the errors that the connection raises."""
        ...

    def cursor(self) -> statements.Cursor:
        """Return a new cursor."""
        ...

    def commit(self) -> None:
        """Make the transaction durable."""
        ...

    def rollback(self) -> None:
        """Undo the transaction."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Engine(Protocol):
    """An environment in which the driver's statements run."""

    def change(self, work: Work[T]) -> T:
        """Run work that writes."""
        ...

    def read(self, work: Work[T]) -> T:
        """Run work that only reads; a ``Database`` reads all of it from one snapshot."""
        ...


class Kind(Protocol):
    """A kind of database that a URL can name."""

    name: str
    dialect: statements.Dialect

    def connect(self) -> Connection:
        """Return a new connection."""
        ...

    def begin(self, work: statements.Statements, *, write: bool) -> None:
        """Begin a transaction."""
        ...


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Use a write-ahead log. SQLite does not wait for a connection that sets this mode too, but a transaction does."""
    for _ in range(ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        else:
            return
    connection.execute("PRAGMA journal_mode = WAL")


class Sqlite:
    """An SQLite file, for the processes of one machine."""

    dialect = statements.Dialect.SQLITE

    def __init__(self, path: str) -> None:
        self.name = f"the database {path}"
        self._path = path

    def connect(self) -> Connection:
        """Return a new connection, whose commits are on the disk when they return."""
        try:
            connection = sqlite3.connect(
                self._path, timeout=TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            raise faults.translate(error, self.name) from error
        return connection

    def begin(self, work: statements.Statements, *, write: bool) -> None:
        """Begin a transaction; if it writes, take the write lock first, as others could write after its reads."""
        work.script("BEGIN IMMEDIATE" if write else "BEGIN")


def connect_in_memory(name: str) -> sqlite3.Connection:
    """Return a new connection to a database in memory, which exists as long as any connection to it (simulations)."""
    path = f"file:{name}?mode=memory&cache=shared"
    return sqlite3.connect(path, uri=True, isolation_level=None, check_same_thread=False)


class Postgresql:
    """A PostgreSQL database, for many servers."""

    dialect = statements.Dialect.POSTGRESQL

    def __init__(self, url: str) -> None:
        self.name = f"the database {_LOGIN.sub('//', url.partition('?')[0])}"
        self._url = url

    def connect(self) -> Connection:
        """Return a new connection."""
        try:
            import psycopg
        except ImportError:
            raise errors.EnvironmentFaultError(
                f"the library psycopg, which {self.name} requires, is not installed",
                hint="pip install 'psycopg[binary]>=3.3,<4'",
            ) from None
        try:
            settings = _LIBPQ_DEFAULTS | psycopg.conninfo.conninfo_to_dict(self._url)
            connection = psycopg.connect(psycopg.conninfo.make_conninfo("", **settings))
        except psycopg.ProgrammingError as error:
            raise errors.InvalidError(f"the URL of {self.name} is invalid: {error}", hint=URL_HINT) from error
        except psycopg.Error as error:
            raise faults.translate(error, self.name) from error
        # Compare-and-set must see what others have committed meanwhile.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection

    def begin(self, work: statements.Statements, *, write: bool) -> None:
        """Begin a transaction: the library begins a writing transaction with its first statement."""
        if not write:
            work.run("snapshot")


class Database:
    """A database with its own connections, one for each active thread; create it in each process, after a fork."""

    def __init__(self, kind: Kind) -> None:
        self.name = kind.name
        self._kind = kind
        self._idle: collections.deque[Connection] = collections.deque()

    def change(self, work: Work[T]) -> T:
        """Run work that writes, in a transaction of its own, which is durable when this returns."""
        return self._repeated(work, write=True)

    def read(self, work: Work[T]) -> T:
        """Run work that only reads, from one snapshot."""
        return self._repeated(work, write=False)

    def close(self) -> None:
        """Close the idle connections."""
        with contextlib.suppress(IndexError):
            while True:
                _close(self._idle.pop())

    def _repeated(self, work: Work[T], *, write: bool) -> T:
        for _ in range(ATTEMPTS):
            try:
                return self._once(work, write=write)
            except _RolledBackError as rollback:
                last_error = rollback.error
        raise errors.BusyError(
            f"{self.name} is busy: the transaction failed {ATTEMPTS} times, the last time with: {last_error}",
            hint="try again later",
        ) from last_error

    def _once(self, work: Work[T], *, write: bool) -> T:
        connection = self._connection()
        committing = False
        try:
            running = statements.Statements(connection.cursor(), self._kind.dialect)
            self._kind.begin(running, write=write)
            result = work(running)
            committing = True
            connection.commit()
        except connection.Error as error:
            _close(connection)
            raise self._translated(error, unknown=committing and write) from error
        except BaseException:  # an error of the work or the end of the thread: the connection is good
            self._roll_back(connection)
            raise
        self._idle.append(connection)
        return result

    def _translated(self, error: Exception, *, unknown: bool) -> Exception:
        reaction = faults.reaction(error)
        if reaction is faults.Reaction.LOST:
            # The idle connections are most likely lost too.
            self.close()
            return faults.unknown_outcome(error, self.name) if unknown else _RolledBackError(error)
        return _RolledBackError(error) if reaction is faults.Reaction.AGAIN else faults.translate(error, self.name)

    def _connection(self) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._kind.connect()

    def _roll_back(self, connection: Connection) -> None:
        try:
            connection.rollback()
        except connection.Error:
            _close(connection)
        else:
            self._idle.append(connection)


class _RolledBackError(Exception):
    """The transaction was rolled back and can be repeated."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


def _close(connection: Connection) -> None:
    with contextlib.suppress(connection.Error):
        connection.close()


class Borrowed:
    """A caller's connection: the work is a part of the caller's transaction, which only the caller ends."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        sqlite = isinstance(connection, sqlite3.Connection)
        self._dialect = statements.Dialect.SQLITE if sqlite else statements.Dialect.POSTGRESQL

    def change(self, work: Work[T]) -> T:
        """Run work that writes. After BusyError and EnvironmentFaultError the caller has to roll back."""
        return self._run(work, write=True)

    def read(self, work: Work[T]) -> T:
        """Run work that only reads."""
        return self._run(work, write=False)

    def _run(self, work: Work[T], *, write: bool) -> T:
        try:
            running = statements.Statements(self._connection.cursor(), self._dialect)
            if write and isinstance(self._connection, sqlite3.Connection) and not self._connection.in_transaction:
                # By itself the library begins with the first change, after the reads that the change depends on.
                running.script("BEGIN IMMEDIATE")
            return work(running)
        except self._connection.Error as error:
            raise faults.translate(error, "the caller's database") from error


def open_database(url: str) -> Database:
    """Return the database that a URL names; it connects on first use. InvalidError for other URLs.

    ``sqlite:///var/lib/gantry/ipam.db`` is the file /var/lib/gantry/ipam.db; ``postgresql://`` URLs are
    those of libpq.
    """
    scheme, _, path = url.partition("://")
    if scheme in ("postgresql", "postgres") and path:
        return Database(Postgresql(url))
    if scheme == "sqlite" and path.startswith("/") and path.strip("/"):
        return Database(Sqlite("/" + parse.unquote(path).lstrip("/")))
    raise errors.InvalidError(f"'{url}' is not the URL of a database", hint=URL_HINT)

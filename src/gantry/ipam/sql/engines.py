"""Engines: where statements run and who commits.

``Database`` has connections of its own, made when they are needed and kept for use again; each operation is one short
transaction, and the work of one that lost against another is done anew, a few times. ``Borrowed`` runs in the
transaction of whoever called, and leaves it to them.

Work is a function of ``Statements`` that touches nothing else, so that it can be repeated.

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

TRIES = 8
"""How often a transaction is begun that the database rolled back on its own."""

PATIENCE = 10
"""How many seconds to wait for a connection, and for another writer of SQLite."""

_NOTICING = {
    "connect_timeout": PATIENCE,
    "keepalives_idle": PATIENCE,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": PATIENCE * 1000,
}
"""What libpq is told unless the URL says else, so that a machine that has gone is noticed within half a minute."""

_LOGIN = re.compile(r"//[^/]*@")

URLS = "write sqlite:///var/lib/gantry/ipam.db or postgresql://USER@HOST/DATABASE"


class Connection(Protocol):
    """A connection of the Python Database API (PEP 249), with its optional ``Error``."""

    @property
    def Error(self) -> type[Exception]:  # noqa: N802 - PEP 249 writes it so
        """The root of the errors that it raises."""
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
        """Close it."""
        ...


class Engine(Protocol):
    """Where the driver's statements run."""

    def change(self, work: Work[T]) -> T:
        """Run work that writes."""
        ...

    def read(self, work: Work[T]) -> T:
        """Run work that only reads; what a database of its own tells is all of one moment."""
        ...


class Kind(Protocol):
    """What differs between the databases that a URL can name."""

    name: str
    dialect: statements.Dialect

    def connect(self) -> Connection:
        """Return a new connection."""
        ...

    def begin(self, work: statements.Statements, *, write: bool) -> None:
        """Begin a transaction."""
        ...


class Sqlite:
    """A file of SQLite, for the processes of one machine."""

    dialect = statements.Dialect.SQLITE

    def __init__(self, path: str) -> None:
        self.name = f"the database {path}"
        self._path = path

    def connect(self) -> Connection:
        """Return a new connection; a commit is on the disk when it returns."""
        try:
            connection = sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            raise faults.translate(error, self.name) from error
        return connection

    def begin(self, work: statements.Statements, *, write: bool) -> None:
        """Begin to write at once: who reads first and writes then may find that another one wrote between."""
        work.script("BEGIN IMMEDIATE" if write else "BEGIN")


class Postgresql:
    """A database of PostgreSQL, for many servers."""

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
                f"{self.name} needs the library psycopg", hint="pip install 'gantry[postgresql]'"
            ) from None
        try:
            settings = _NOTICING | psycopg.conninfo.conninfo_to_dict(self._url)
            connection = psycopg.connect(psycopg.conninfo.make_conninfo("", **settings))
        except psycopg.ProgrammingError as error:
            raise errors.InvalidError(f"the URL of {self.name} cannot be read: {error}", hint=URLS) from error
        except psycopg.Error as error:
            raise faults.translate(error, self.name) from error
        # What is compared and set must be compared with what others have committed meanwhile.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection

    def begin(self, work: statements.Statements, *, write: bool) -> None:
        """Let the library begin with the first statement."""
        if not write:
            work.run("snapshot")


class Database:
    """A database with connections of its own, one for each thread that is at work; one per process, made after fork."""

    def __init__(self, kind: Kind) -> None:
        self.name = kind.name
        self._kind = kind
        self._idle: collections.deque[Connection] = collections.deque()

    def change(self, work: Work[T]) -> T:
        """Run work that writes, in a transaction of its own; it is durable when this returns."""
        return self._repeated(work, write=True)

    def read(self, work: Work[T]) -> T:
        """Run work that only reads, all of one moment."""
        return self._repeated(work, write=False)

    def close(self) -> None:
        """Close the connections that are not at work."""
        with contextlib.suppress(IndexError):
            while True:
                _close(self._idle.pop())

    def _repeated(self, work: Work[T], *, write: bool) -> T:
        for _ in range(TRIES):
            try:
                return self._once(work, write=write)
            except _RolledBackError as again:
                failed = again.error
        raise errors.BusyError(
            f"{self.name} is busy: the operation was begun {TRIES} times, at last: {failed}", hint="try again later"
        ) from failed

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
            raise self._failure(error, unknown=committing and write) from error
        except BaseException:  # ours, or the thread's end: the work refused, the connection is good
            self._roll_back(connection)
            raise
        self._idle.append(connection)
        return result

    def _failure(self, error: Exception, *, unknown: bool) -> Exception:
        reaction = faults.reaction(error)
        if reaction is faults.Reaction.LOST:
            # Those that wait for work are most likely gone with it.
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
    """The transaction was not carried out and can be begun anew."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


def _close(connection: Connection) -> None:
    with contextlib.suppress(connection.Error):
        connection.close()


class Borrowed:
    """A connection of the caller: what is done belongs to their transaction, whose end is theirs."""

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
                # By itself the library begins with the first change, after what it was decided by has been read.
                running.script("BEGIN IMMEDIATE")
            return work(running)
        except self._connection.Error as error:
            raise faults.translate(error, "the caller's database") from error


def open_database(url: str) -> Database:
    """Return the database that a URL names; nothing is opened before it is used. InvalidError for other URLs.

    ``sqlite:///var/lib/gantry/ipam.db`` is the file /var/lib/gantry/ipam.db; ``postgresql://`` is what libpq reads.
    """
    scheme, _, rest = url.partition("://")
    if scheme in ("postgresql", "postgres") and rest:
        return Database(Postgresql(url))
    if scheme == "sqlite" and rest.startswith("/") and rest.strip("/"):
        return Database(Sqlite("/" + parse.unquote(rest).lstrip("/")))
    raise errors.InvalidError(f"'{url}' names no database", hint=URLS)

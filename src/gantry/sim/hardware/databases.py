"""The database server of a simulated cluster: SQLite in memory, with the SQL and the transactions of the real driver.

It stands for a PostgreSQL server, which is another program and has a clock of its own. All masters, and another owner
of addresses, use it. It survives all machines. While it is ``down``, no transaction begins; ``unsure`` is the share of
commits whose answer is lost, after half of which nothing was done; ``usually_unsure`` adds to it. After each commit,
at the same moment, ``committed`` is called.
"""

import itertools
import random
from collections.abc import Callable

from gantry import errors
from gantry.ipam.sql import driver, engines, records, requests, statements

URL = "sqlite:///shared/ipam.db"
NAME = "the shared database"
OTHER = "another/owner"
_numbers = itertools.count()


class _Connection:
    """A connection whose commits may lose their answer."""

    def __init__(self, server: "Server", inner: engines.Connection) -> None:
        self._server = server
        self._inner = inner

    @property
    def Error(self) -> type[Exception]:  # noqa: N802 - the name is from PEP 249
        """The base class of the errors that the connection raises."""
        return self._inner.Error

    def cursor(self) -> statements.Cursor:
        """Return a new cursor."""
        return self._inner.cursor()

    def commit(self) -> None:
        """Commit, and perhaps lose the answer, or the commit itself."""
        lost = self._server.loses_answer()
        if lost and self._server.loses_commit():
            self._inner.rollback()
        else:
            self._inner.commit()
            self._server.committed()
        if lost:
            raise errors.EnvironmentFaultError(f"the connection to {NAME} was lost during a commit, outcome unknown")

    def rollback(self) -> None:
        """Undo the transaction."""
        self._inner.rollback()

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()


class Server:
    """The server, and the kind of database (``engines.Kind``) that masters open."""

    name = NAME
    dialect = statements.Dialect.SQLITE

    def __init__(self, source: random.Random, outcomes: random.Random) -> None:
        self.down = False
        self.unsure = 0.0
        self.usually_unsure = 0.0
        self.committed: Callable[[], None] = lambda: None
        self._random = source
        self._outcomes = outcomes
        # The addresses that were acknowledged to the other owner.
        self._taken: set[tuple[str, str]] = set()
        self._name = f"simulation{next(_numbers)}"
        # The database exists as long as a connection to it.
        self._anchor = engines.connect_in_memory(self._name)

    def close(self) -> None:
        """Remove the database."""
        self._anchor.close()

    def open(self, url: str) -> engines.Database:
        """Return the database for a URL; InvalidError for any other URL."""
        if url != URL:
            raise errors.InvalidError(f"'{url}' is not the URL of a database", hint=engines.URL_HINT)
        return engines.Database(self)

    def connect(self) -> engines.Connection:
        """Return a new connection; EnvironmentFaultError while the server is down."""
        self._check()
        inner = engines.connect_in_memory(self._name)
        return _Connection(self, inner)

    def begin(self, work: statements.Statements, *, write: bool) -> None:
        """Begin a transaction; EnvironmentFaultError while the server is down."""
        self._check()
        work.script("BEGIN IMMEDIATE" if write else "BEGIN")

    def _check(self) -> None:
        if self.down:
            raise errors.EnvironmentFaultError(f"{NAME} cannot be reached: connection refused")

    def loses_answer(self) -> bool:
        """Return whether the answer to a commit is lost."""
        if self.unsure > 0 and self._random.random() < self.unsure:
            return True
        return self.usually_unsure > 0 and self._outcomes.random() < self.usually_unsure

    def loses_commit(self) -> bool:
        """Return whether a commit whose answer is lost was not done."""
        return self._outcomes.random() < 0.5

    def robbed(self) -> str:
        """Return an address that the other owner has, but that the database gives to nobody or to somebody else."""
        theirs = {(subnet, address) for subnet, address, owner in self.allocations() if owner == OTHER}
        return min((address for _, address in self._taken - theirs), default="") if self._taken else ""

    def _is_prepared(self) -> bool:
        return bool(self._anchor.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall())

    def allocations(self) -> list[tuple[str, str, str]]:
        """Return the subnet, the address and the owner of all allocations."""
        if not self._is_prepared():
            return []
        reading = statements.Statements(self._anchor.cursor(), self.dialect)
        return [
            (subnet, str(records.read(address)), owner) for subnet, address, owner, _ in reading.all_rows("everything")
        ]

    def take(self) -> str:
        """Let another owner allocate or release an address of a random subnet; return what it did."""
        if self.down or not self._is_prepared():
            return ""
        other = driver.Driver(engines.Database(self), below=self._random.randrange)
        own = [(subnet, address) for subnet, address, owner in self.allocations() if owner == OTHER]
        try:
            subnets = sorted(other.subnets(), key=lambda subnet: subnet.id)
            if own and self._random.random() < 0.4:
                subnet, address = self._random.choice(own)
                self._taken.discard((subnet, address))
                other.deallocate(subnet, address, owner=OTHER)
                return f"releases {address}"
            if subnets:
                subnet = self._random.choice(subnets).id
                address = other.allocate(subnet, requests.AnyAddress(), owner=OTHER)
                self._taken.add((subnet, address))
                return f"allocates {address}"
        except errors.GantryError as error:
            return f"allocates nothing: {error}"
        return ""

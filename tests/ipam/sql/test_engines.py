"""Where statements run: transactions of the caller, and databases that cannot be had."""

import concurrent.futures
import contextlib
import sqlite3
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from tests import postgres
from tests.ipam.sql import workers

from gantry import errors
from gantry.ipam.sql import allocation, availability, driver, engines, requests, schema, statements

CUT_AT_COMMIT = """
CREATE FUNCTION pg_temp.cut() RETURNS trigger AS $$ BEGIN
    PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$ LANGUAGE plpgsql;
CREATE TEMPORARY TABLE last (number int);
CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON last DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_temp.cut();
INSERT INTO last VALUES (1);
"""

ANY, NEXT = requests.AnyAddress(), requests.NextAddress()


@pytest.fixture
def ipam(database: engines.Database) -> driver.Driver:
    ipam = driver.Driver(database, below=lambda _: 0)
    ipam.add_subnet("s", cidr="10.0.0.0/24", pools=["10.0.0.1-10.0.0.9"])
    return ipam


@pytest.fixture
def connection(url: str) -> Iterator[engines.Connection]:
    opened = workers.connect(url)
    yield opened
    opened.close()


def test_changes_in_a_callers_transaction_are_rolled_back_with_it(
    ipam: driver.Driver, connection: engines.Connection
) -> None:
    theirs = ipam.on(engines.Borrowed(connection))
    kept = theirs.allocate("s", NEXT, owner="port1")
    connection.commit()

    assert theirs.deallocate("s", kept)
    theirs.allocate("s", ANY)
    theirs.allocate_many("s", 3)
    theirs.allocate("s", requests.SpecificAddress("10.0.0.200"))
    theirs.update_subnet("s", cidr="10.0.0.0/24", pools=["10.0.0.7-10.0.0.9"])
    assert len(theirs.allocations("s")) == 5
    connection.rollback()

    assert [each.address for each in ipam.allocations("s")] == [kept]
    assert not ipam.check(ipam.allocations("s"))


def test_a_callers_transaction_stays_usable_after_a_refusal(
    ipam: driver.Driver, connection: engines.Connection
) -> None:
    theirs = ipam.on(engines.Borrowed(connection))
    first = theirs.allocate("s", NEXT)
    for request, error in (
        (requests.SpecificAddress(first), errors.NotUniqueError),
        (requests.SpecificAddress("10.0.1.1"), errors.InvalidError),
    ):
        with pytest.raises(error):
            theirs.allocate("s", request)
    with pytest.raises(errors.NoRoomError):
        theirs.allocate_many("s", 9)
    with pytest.raises(errors.WrongStateError):
        theirs.remove_subnet("s")
    with pytest.raises(errors.NotFoundError):
        theirs.allocate("t", ANY)
    with pytest.raises(errors.ExistsError):
        theirs.add_subnet("s", cidr="10.0.0.0/24", pools=[])
    theirs.allocate("s", ANY)
    connection.commit()

    assert len(ipam.allocations("s")) == 2
    assert not ipam.check(ipam.allocations("s"))


def test_an_error_of_a_callers_database_is_translated() -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        theirs = driver.Driver(engines.Borrowed(connection), below=lambda _: 0)
        for call in (theirs.subnets, lambda: theirs.allocate("s", ANY)):
            with pytest.raises(
                errors.ConfigurationError,
                match=r"the caller's database does not have the tables of the IPAM driver: no such table: .*; create",
            ) as raised:
                call()
            assert isinstance(raised.value.__cause__, sqlite3.OperationalError)


def test_tables_can_be_made_in_a_callers_database(empty_url: str) -> None:
    connection = workers.connect(empty_url)
    assert schema.prepare(engines.Borrowed(connection)) == schema.steps()
    connection.commit()
    connection.close()
    schema.check(engines.open_database(empty_url))


def noted(method: Callable[..., object], sent: list[str]) -> Callable[..., object]:
    """Return a method that notes the name of each statement."""

    def noting(db: statements.Statements, name: str, /, *rows: object, **values: object) -> object:
        sent.append(name)
        return method(db, name, *rows, **values)

    return noting


def test_any_address_takes_three_statements_however_full_the_subnet_is(
    ipam: driver.Driver, database: engines.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ipam.add_subnet("big", cidr="10.0.0.0/22", pools=["10.0.0.0/22"])
    taken = ipam.allocate_many("big", 1000)
    for address in taken[::150]:
        ipam.deallocate("big", address)
    sent: list[str] = []
    for name in ("first_row", "all_rows", "run", "many"):
        monkeypatch.setattr(statements.Statements, name, noted(getattr(statements.Statements, name), sent))

    for owner in ("", "port1"):
        for _ in range(3):
            sent.clear()
            ipam.allocate("big", ANY, owner=owner, key=str(len(ipam.allocations("big"))))
            assert [name for name in sent if name not in ("allocations", "snapshot")] == [
                "pick", "shorten" if "shorten" in sent else "use_up", "enter"
            ]  # fmt: skip


def test_a_worker_that_loses_every_race_reports_the_subnet(
    ipam: driver.Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "take", lambda *_, **__: False)
    for request in (ANY, NEXT, requests.SpecificAddress("10.0.0.5")):
        with pytest.raises(
            errors.BusyError, match="other requests took the addresses of subnet s first, 64 times; try again"
        ):
            ipam.allocate("s", request)
    assert ipam.allocations("s") == []


def test_a_worker_that_loses_a_race_splits_the_range_and_both_continue_apart(
    ipam: driver.Driver, database: engines.Database, second: engines.Database
) -> None:
    ipam.add_subnet("t", cidr="10.0.0.0/30", pools=[])
    database.change(lambda db: db.many("add_range", [{"subnet": "t", "first": "0a000000", "last": "0a0000ff"}]))
    other = driver.Driver(second, below=lambda _: 0)
    quicker = iter([True])
    plain = availability.take

    def take(db: object, *args: object, **named: object) -> bool:
        """Let another worker be quicker, once."""
        if next(quicker, False):
            database.close()
            return False
        return plain(db, *args, **named)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(availability, "take", take)
        assert ipam.allocate("t", ANY) == "10.0.0.128"
    assert [other.allocate("t", ANY), ipam.allocate("t", ANY)] == ["10.0.0.0", "10.0.0.129"]
    assert ipam.lost_races == 1


def test_a_range_is_split_under_the_lock_of_its_subnet(
    ipam: driver.Driver, database: engines.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ipam.add_subnet("t", cidr="10.0.0.0/24", pools=[])
    database.change(lambda db: db.many("add_range", [{"subnet": "t", "first": "0a000010", "last": "0a00001f"}]))
    database.change(lambda db: db.run("mark_fresh", subnet="t"))
    quicker, take = iter([True]), availability.take
    monkeypatch.setattr(availability, "take", lambda *args, **named: not next(quicker, False) and take(*args, **named))
    sent: list[str] = []
    for name in ("first_row", "run"):
        monkeypatch.setattr(statements.Statements, name, noted(getattr(statements.Statements, name), sent))
    assert ipam.allocate("t", ANY) == "10.0.0.24"
    assert sent[-4:] == ["pick", "share", "shorten", "enter"]


def test_an_address_goes_back_to_the_ranges_under_the_lock_of_its_subnet(
    ipam: driver.Driver, database: engines.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = ipam.allocate("s", NEXT)
    first = {"subnet": "s", "first": "0a000001", "last": "0a000001"}
    database.change(lambda db: db.many("add_range", [first]))
    sent: list[str] = []
    for name in ("first_row", "run"):
        monkeypatch.setattr(statements.Statements, name, noted(getattr(statements.Statements, name), sent))
    assert (taken, ipam.allocate("s", NEXT)) == ("10.0.0.1", "10.0.0.2")
    assert sent[sent.index("enter") :][:3] == ["enter", "share", "give"]


def test_an_address_that_is_released_while_it_is_requested_is_in_no_range(
    ipam: driver.Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = requests.SpecificAddress("10.0.0.5")
    ipam.allocate("s", request)
    enter = allocation.Target.enter

    def enter_after_a_release(target: allocation.Target, db: statements.Statements, address: str) -> bool:
        assert db.run("leave", subnet="s", address=address, owner="")
        assert db.run("give", subnet="s", address=address)
        return enter(target, db, address)

    with monkeypatch.context() as patch:
        patch.setattr(allocation.Target, "enter", enter_after_a_release)
        assert ipam.allocate("s", request) == "10.0.0.5"
    assert not ipam.check(ipam.allocations("s"))
    assert "10.0.0.5" not in ipam.allocate_many("s", 8)


@pytest.mark.parametrize(
    "url", ["", "ipam.db", "sqlite://", "sqlite:///", "sqlite://ipam.db", "mysql://h/d", "postgresql:"]
)
def test_a_url_of_another_scheme_is_refused(url: str) -> None:
    with pytest.raises(errors.InvalidError, match="is not the URL of a database; write sqlite:///"):
        engines.open_database(url)


@pytest.mark.parametrize(
    "url",
    ["postgresql://user:secret@127.0.0.1:1/db?password=secret", "sqlite:///nowhere/at/all/ipam.db"],
)
def test_a_database_that_is_not_there_is_a_fault_of_the_environment(url: str) -> None:
    with pytest.raises(errors.EnvironmentFaultError, match="the database") as raised:
        driver.Driver(engines.open_database(url), below=lambda _: 0).subnets()
    assert "secret" not in str(raised.value)


def test_a_url_that_postgresql_cannot_read_is_refused() -> None:
    with pytest.raises(errors.InvalidError, match="is invalid"):
        driver.Driver(engines.open_database("postgresql://h/d?nonsense=1"), below=lambda _: 0).subnets()


def test_without_its_library_postgresql_is_said_to_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        errors.EnvironmentFaultError,
        match=r"the library psycopg, which .* requires, is not installed; pip install 'psycopg\[binary\]>=3.3,<4'",
    ):
        driver.Driver(engines.open_database("postgresql://h/d"), below=lambda _: 0).subnets()


def test_a_locked_file_is_a_busy_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "TIMEOUT_SECONDS", 0.1)
    database = engines.open_database(f"sqlite://{tmp_path}/ipam.db")
    schema.prepare(database)
    locking = sqlite3.connect(tmp_path / "ipam.db", isolation_level=None)
    locking.execute("BEGIN IMMEDIATE")

    with pytest.raises(errors.BusyError, match=r"ipam\.db is busy: database is locked; try again later"):
        driver.Driver(database, below=lambda _: 0).allocate("s", ANY)
    locking.execute("ROLLBACK")
    locking.close()
    with pytest.raises(errors.NotFoundError):
        driver.Driver(database, below=lambda _: 0).allocate("s", ANY)


class ContendedConnection(sqlite3.Connection):
    """A connection whose changes of the journal mode happen while another connection has the lock, ``locks`` times."""

    locks = 0

    def execute(self, sql: str) -> sqlite3.Cursor:  # type: ignore[override]
        (path,) = [row[2] for row in super().execute("PRAGMA database_list")]
        if "journal_mode" not in sql or self.locks == 0:
            return super().execute(sql)
        type(self).locks -= 1
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as locking:
            locking.execute("BEGIN EXCLUSIVE")
            return super().execute(sql)


@pytest.mark.parametrize(("locks", "is_opened"), [(1, True), (engines.ATTEMPTS, True), (engines.ATTEMPTS + 1, False)])
def test_a_new_file_that_another_program_has_locked_is_opened_when_the_lock_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: int, is_opened: bool
) -> None:
    monkeypatch.setattr(engines, "TIMEOUT_SECONDS", 0)
    monkeypatch.setattr(ContendedConnection, "locks", locks)
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=ContendedConnection))
    kind = engines.Sqlite(f"{tmp_path}/ipam.db")
    if is_opened:
        connection = kind.connect()
        assert isinstance(connection, sqlite3.Connection)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert not connection.in_transaction
        connection.close()
    else:
        with pytest.raises(errors.BusyError, match=r"ipam\.db is busy: database is locked"):
            kind.connect()
    assert ContendedConnection.locks == 0


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ipam.db").write_bytes(b"x" * 4096)
    with pytest.raises(errors.ConfigurationError, match="damaged or is not a database"):
        driver.Driver(engines.open_database(f"sqlite://{tmp_path}/ipam.db"), below=lambda _: 0).subnets()


@pytest.fixture(params=[pytest.param("", marks=postgres.NEEDS)])
def guest_url(request: pytest.FixtureRequest, server: postgres.Server) -> str:
    """A database with the tables, for a user who may only read them."""
    url = server.create("guarded")
    schema.prepare(engines.open_database(url))
    server.run("guarded", "CREATE ROLE guest LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest")
    return url.replace(f"{postgres.USER}@", "guest@")


def test_a_user_without_the_right_to_write_is_refused(guest_url: str) -> None:
    ipam = driver.Driver(engines.open_database(guest_url), below=lambda _: 0)
    assert ipam.subnets() == []
    with pytest.raises(errors.EnvironmentFaultError, match=r"permission denied .*; grant the permissions"):
        ipam.add_subnet("s", cidr="10.0.0.0/24", pools=[])


@pytest.fixture(params=[pytest.param("", marks=postgres.NEEDS)])
def serializable_url(request: pytest.FixtureRequest, server: postgres.Server) -> str:
    """A database whose administrator has set another isolation of transactions than PostgreSQL's own default."""
    url = server.create("serializable")
    server.run("serializable", "ALTER DATABASE serializable SET default_transaction_isolation = 'serializable'")
    schema.prepare(engines.open_database(url))
    return url


def test_a_change_reads_what_others_have_committed_and_a_read_is_one_snapshot_that_cannot_write(
    serializable_url: str,
) -> None:
    database, second = engines.open_database(serializable_url), engines.open_database(serializable_url)
    other = driver.Driver(second, below=lambda _: 0)
    counts: list[int] = []

    def work(db: statements.Statements) -> None:
        counts.append(len(db.all_rows("subnets")))
        other.add_subnet(f"s{len(counts)}", cidr="10.0.0.0/24", pools=[])
        counts.append(len(db.all_rows("subnets")))

    database.change(work)
    database.read(work)
    assert counts == [0, 1, 1, 1]
    with pytest.raises(errors.EnvironmentFaultError, match=r"refused access: .* in a read-only transaction"):
        database.read(lambda db: db.run("mark_fresh", subnet="s1"))
    database.close()
    second.close()


@pytest.fixture(params=[pytest.param("", marks=postgres.NEEDS)])
def served(request: pytest.FixtureRequest, server: postgres.Server) -> engines.Database:
    return engines.open_database(server.url(postgres.USER))


@pytest.mark.parametrize("error", [psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure])
def test_a_transaction_that_the_database_rolls_back_is_repeated_a_few_times(
    served: engines.Database, error: type[psycopg.Error]
) -> None:
    tried: list[int] = []

    def work(_db: statements.Statements) -> int:
        tried.append(1)
        if len(tried) < successful:
            raise error("lost")
        return len(tried)

    successful = engines.ATTEMPTS
    assert served.change(work) == engines.ATTEMPTS
    successful = 1000
    with pytest.raises(
        errors.BusyError, match=f"the transaction failed {engines.ATTEMPTS} times, the last time with: lost"
    ):
        served.change(work)


def test_an_idle_connection_that_was_cut_is_replaced(served: engines.Database, server: postgres.Server) -> None:
    ask = partial(served.read, lambda db: db.first_row("steps_of_postgresql"))
    ask()
    server.run(postgres.USER, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    assert ask() is None


def test_a_commit_whose_answer_is_lost_is_not_repeated_and_says_so(served: engines.Database) -> None:
    tried = []

    def work(db: statements.Statements) -> None:
        tried.append(1)
        db.script(CUT_AT_COMMIT)

    with pytest.raises(errors.EnvironmentFaultError, match="was lost during a commit, whose outcome is unknown"):
        served.change(work)
    assert len(tried) == 1


class CutConnection:
    """A connection that the server has cut: nothing can be rolled back."""

    Error = psycopg.Error

    def __init__(self) -> None:
        self.is_closed = False

    def cursor(self) -> statements.Cursor:
        return sqlite3.connect(":memory:").cursor()

    def commit(self) -> None:
        pass

    def rollback(self) -> None:
        raise psycopg.OperationalError("the connection is lost")

    def close(self) -> None:
        self.is_closed = True


class CutKind:
    """A kind of database that cuts all connections; ``connections`` has them in order."""

    name, dialect = "the database", statements.Dialect.POSTGRESQL

    def __init__(self) -> None:
        self.connections: list[CutConnection] = []

    def connect(self) -> engines.Connection:
        self.connections.append(CutConnection())
        return self.connections[-1]

    def begin(self, work: statements.Statements, *, write: bool) -> None:
        pass


@pytest.mark.parametrize(("failures", "is_successful"), [(engines.ATTEMPTS - 1, True), (engines.ATTEMPTS, False)])
def test_work_that_is_rolled_back_begins_again_on_a_new_connection_each_time(
    failures: int, is_successful: bool
) -> None:
    kind = CutKind()
    tried: list[int] = []

    def work(_db: statements.Statements) -> str:
        tried.append(1)
        if len(tried) <= failures:
            raise psycopg.errors.DeadlockDetected(f"deadlock {len(tried)}")
        return "done"

    if is_successful:
        assert engines.Database(kind).change(work) == "done"
    else:
        with pytest.raises(
            errors.BusyError,
            match=f"the database is busy: the transaction failed {engines.ATTEMPTS} times, "
            f"the last time with: deadlock {engines.ATTEMPTS}; try again later",
        ) as raised:
            engines.Database(kind).change(work)
        assert isinstance(raised.value.__cause__, psycopg.errors.DeadlockDetected)
    assert len(tried) == len(kind.connections) == engines.ATTEMPTS
    assert [connection.is_closed for connection in kind.connections[:failures]] == [True] * failures


def test_a_connection_on_which_nothing_can_be_rolled_back_is_closed() -> None:
    kind = CutKind()
    with pytest.raises(ZeroDivisionError):
        engines.Database(kind).change(lambda _: 1 // 0)
    assert [connection.is_closed for connection in kind.connections] == [True]


def test_when_a_connection_is_lost_the_idle_ones_are_closed_too() -> None:
    kind = CutKind()
    database = engines.Database(kind)
    database.read(lambda _: database.read(lambda _: None))
    lost = iter([True])

    def work(_db: statements.Statements) -> int:
        if next(lost, False):
            raise psycopg.OperationalError("the connection is lost")
        return 7

    assert database.read(work) == 7
    assert [connection.is_closed for connection in kind.connections] == [True, True, False]


def test_many_programs_open_one_new_file_at_once(tmp_path: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for number in range(50):
            databases = [engines.open_database(f"sqlite:///{tmp_path}/{number}.db") for _ in range(8)]
            answers = pool.map(lambda each: each.read(lambda db: 1), databases, timeout=60)
            assert [*answers] == [1] * 8
            for database in databases:
                database.close()

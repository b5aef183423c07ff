"""The reaction to errors of databases, and what callers receive."""

import sqlite3

import psycopg
import pytest

from gantry import errors
from gantry.ipam.sql import faults

AGAIN, LOST, FINAL = faults.Reaction


class PgcodeError(Exception):
    """An error of a driver that names its SQLSTATE ``pgcode``, as psycopg2 does."""

    pgcode = "40001"


def of_sqlite(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("a text")
    error.sqlite_errorcode = code
    return error


BUSY = errors.BusyError, "is busy"
UNREACHABLE = errors.EnvironmentFaultError, "cannot be reached"
REFUSED = errors.EnvironmentFaultError, "refused access"
UNPREPARED = errors.ConfigurationError, "does not have the tables of the IPAM driver"
DAMAGED = errors.ConfigurationError, "is damaged or is not a database"
FAILED = errors.StorageError, "failed"

TABLE: list[tuple[Exception, faults.Reaction, tuple[type[errors.GantryError], str]]] = [
    *((each("a text"), AGAIN, BUSY) for each in (
        psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable,
        PgcodeError,
    )),
    *((each("a text"), LOST, UNREACHABLE) for each in (
        psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ConnectionFailure,
        psycopg.errors.ConnectionException, psycopg.errors.ConnectionDoesNotExist, psycopg.errors.AdminShutdown,
        psycopg.errors.CrashShutdown, psycopg.errors.CannotConnectNow, psycopg.errors.IdleInTransactionSessionTimeout,
    )),
    *((each("a text"), FINAL, REFUSED) for each in (
        psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction,
    )),
    *((each("a text"), FINAL, UNPREPARED) for each in (
        psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn,
    )),
    *((each("a text"), FINAL, DAMAGED) for each in (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted)),
    *((each("a text"), FINAL, FAILED) for each in (
        psycopg.errors.UniqueViolation, psycopg.errors.DiskFull, psycopg.DataError, psycopg.DatabaseError,
        sqlite3.OperationalError,
    )),
    *((of_sqlite(code), FINAL, BUSY) for code in (
        sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_SNAPSHOT, sqlite3.SQLITE_LOCKED,
    )),
    *((of_sqlite(code), FINAL, REFUSED) for code in (
        sqlite3.SQLITE_READONLY, sqlite3.SQLITE_READONLY_DIRECTORY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_AUTH,
    )),
    (of_sqlite(sqlite3.SQLITE_ERROR), FINAL, UNPREPARED),
    *((of_sqlite(code), FINAL, DAMAGED) for code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)),
    *((of_sqlite(code), FINAL, FAILED) for code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "reaction", "translated"),
    TABLE,
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_the_code_of_an_error_decides_the_reaction_and_what_the_caller_receives(
    error: Exception, reaction: faults.Reaction, translated: tuple[type[errors.GantryError], str]
) -> None:
    assert faults.reaction(error) is reaction
    kind, text = translated
    answer = faults.translate(error, "the database d")
    assert type(answer) is kind
    assert answer.message.startswith(f"the database d {text}: a text")


def test_an_error_without_a_text_is_reported_by_its_kind() -> None:
    answer = faults.translate(psycopg.DataError(), "the database d")
    assert (type(answer), str(answer)) == (errors.StorageError, "the database d failed: DataError")


def test_a_commit_whose_answer_is_lost_has_an_unknown_outcome() -> None:
    answer = faults.unknown_outcome(psycopg.OperationalError("gone"), "the database d")
    assert isinstance(answer, errors.EnvironmentFaultError)
    assert answer.message.startswith(
        "the connection to the database d was lost during a commit, whose outcome is unknown: gone"
    )

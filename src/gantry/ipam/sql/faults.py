"""Translates errors of databases to Gantry's errors, and determines the reaction to each.

PostgreSQL's drivers report a SQLSTATE (none when the connection is lost), SQLite a result code. Whether an operation is
repeated depends on the reaction alone, never on the text.
"""

import sqlite3
from enum import Enum

from gantry import errors

PREPARE_HINT = "create or upgrade its tables: gantry-ipam prepare"


class Reaction(Enum):
    """The reaction to an error of the database."""

    AGAIN = "the database rolled back the transaction because of another transaction: repeat it"
    LOST = "the connection is lost: repeat the transaction with another connection"
    FINAL = "report the error to the caller"


_AGAIN = {"40001", "40P01", "55P03"}
_LOST = {"", "08000", "08003", "08006", "57P01", "57P02", "57P03", "25P03"}
_REFUSED = {
    "42501",
    "25006",
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_AUTH,
}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_UNPREPARED = {"42P01", "42703", sqlite3.SQLITE_ERROR}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, "XX001", "XX002"}


def _code(error: Exception) -> str | int:
    """Return the SQLSTATE, empty if the connection is lost, or the result code of SQLite without its extension."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", -1) & 0xFF
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if state is None and type(error).__name__ not in ("OperationalError", "InterfaceError"):
        return "unknown"
    return str(state or "")


def reaction(error: Exception) -> Reaction:
    """Return the reaction to an error of a database driver."""
    code = _code(error)
    if code in _AGAIN:
        return Reaction.AGAIN
    return Reaction.LOST if code in _LOST else Reaction.FINAL


def translate(error: Exception, where: str) -> errors.GantryError:
    """Return Gantry's error for an error of a database driver; ``where`` names the database, without its password."""
    code, text = _code(error), str(error).strip() or type(error).__name__
    if code in _AGAIN | _LOCKED:
        return errors.BusyError(f"{where} is busy: {text}", hint="try again later")
    if code in _LOST:
        return errors.EnvironmentFaultError(
            f"{where} cannot be reached: {text}", hint="check that the database server runs"
        )
    if code in _REFUSED:
        return errors.EnvironmentFaultError(
            f"{where} refused access: {text}", hint="grant the permissions, or correct the settings"
        )
    if code in _UNPREPARED:
        return errors.ConfigurationError(
            f"{where} does not have the tables of the IPAM driver: {text}", hint=PREPARE_HINT
        )
    if code in _DAMAGED:
        return errors.ConfigurationError(
            f"{where} is damaged or is not a database: {text}", hint="restore it from a backup"
        )
    return errors.StorageError(f"{where} failed: {text}")


def unknown_outcome(error: Exception, where: str) -> errors.GantryError:
    """Return the error for a connection that was lost during a commit."""
    return errors.EnvironmentFaultError(
        f"the connection to {where} was lost during a commit, whose outcome is unknown: {error}".strip(),
        hint="repeat the request with the same owner and key; a check finds unused allocations",
    )

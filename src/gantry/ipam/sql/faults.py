"""Errors of databases, as ours: which reaction each asks for.

PostgreSQL's drivers tell a SQLSTATE (none when the connection is gone), SQLite a result code. Whether an operation is
tried again depends on the reaction alone, never on the text.
"""

import sqlite3
from enum import Enum

from gantry import errors

PREPARE = "gantry-ipam prepare makes and upgrades its tables"


class Reaction(Enum):
    """What may be done about an error of the database."""

    AGAIN = "the transaction lost against another one and was rolled back: try it again"
    LOST = "the connection is gone: try again with another one"
    FINAL = "tell the caller"


_AGAIN = {"40001", "40P01", "55P03"}
_LOST = {"", "08000", "08003", "08006", "57P01", "57P02", "57P03"}
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
    """Return the SQLSTATE, empty where the connection is gone, or the result code of SQLite without its extension."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", -1) & 0xFF
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if state is None and type(error).__name__ not in ("OperationalError", "InterfaceError"):
        return "unknown"
    return str(state or "")


def reaction(error: Exception) -> Reaction:
    """Return what may be done about an error of a driver."""
    code = _code(error)
    if code in _AGAIN:
        return Reaction.AGAIN
    return Reaction.LOST if code in _LOST else Reaction.FINAL


def translate(error: Exception, where: str) -> errors.GantryError:
    """Return our error for one of a driver; ``where`` names the database, without its password."""
    code, text = _code(error), str(error).strip() or type(error).__name__
    if code in _AGAIN | _LOCKED:
        return errors.BusyError(f"{where} is busy: {text}", hint="try again later")
    if code in _LOST:
        return errors.EnvironmentFaultError(f"{where} cannot be reached: {text}", hint="is it running?")
    if code in _REFUSED:
        return errors.EnvironmentFaultError(
            f"{where} refuses it: {text}", hint="grant the rights, or mend the settings"
        )
    if code in _UNPREPARED:
        return errors.ConfigurationError(f"{where} does not have the driver's tables: {text}", hint=PREPARE)
    if code in _DAMAGED:
        return errors.ConfigurationError(f"{where} is damaged or no database: {text}", hint="restore it from a backup")
    return errors.StorageError(f"{where} failed: {text}")


def unknown_outcome(error: Exception, where: str) -> errors.GantryError:
    """Return the error for a connection that was lost while the transaction was being committed."""
    return errors.EnvironmentFaultError(
        f"the connection to {where} was lost while it committed: the change was made or not: {error}".strip(),
        hint="ask again with the same owner and key; a check finds what nobody uses",
    )

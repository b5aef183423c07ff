"""The SQL statements of the driver, by name: read from statements.sql once, and translated for the engine.

One text serves both engines. Parameters are ``:name`` in the file and for SQLite, ``%(name)s`` for PostgreSQL. Row
locks with their time limit (set_config), and the sort order (COLLATE "C"), are for PostgreSQL only: SQLite has one
writer at a time, and sorts by bytes. Every value that a statement reads is text.
"""

import functools
import importlib.resources
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Protocol

Row = Sequence[str]
Values = Mapping[str, str | int]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)
_PARAMETER = re.compile(r":([a-z]+)")
_POSTGRESQL_ONLY = re.compile(r' COLLATE "C"| FOR (SHARE|UPDATE)|, set_config\([^)]*\)')


class Dialect(Enum):
    """The SQL dialect of an engine."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"

    def write(self, text: str) -> str:
        """Translate a text of statements.sql or of the schema for this engine."""
        if self is Dialect.SQLITE:
            return _POSTGRESQL_ONLY.sub("", text)
        return _PARAMETER.sub(r"%(\1)s", text)


class Cursor(Protocol):
    """A cursor of the Python Database API (PEP 249)."""

    @property
    def rowcount(self) -> int:
        """How many rows the last statement changed."""
        ...

    def execute(self, text: str, values: Values = ..., /) -> object:
        """Run one statement."""
        ...

    def executemany(self, text: str, values: Sequence[Values], /) -> object:
        """Run one statement with each of the values."""
        ...

    def fetchone(self) -> Row | None:
        """Return the next row of the last statement."""
        ...

    def fetchall(self) -> Sequence[Row]:
        """Return all rows of the last statement."""
        ...


def resource(*path: str) -> str:
    """Return the text of a file beside this module."""
    return importlib.resources.files(__package__).joinpath(*path).read_text()


@functools.cache
def texts(dialect: Dialect) -> dict[str, str]:
    """Return all statements, by name."""
    _, *parts = _NAME.split(resource("statements.sql"))
    bodies = (dialect.write(_COMMENT.sub("", body)).strip() for body in parts[1::2])
    return dict(zip(parts[::2], bodies, strict=True))


class Statements:
    """Statements that run in one transaction."""

    def __init__(self, cursor: Cursor, dialect: Dialect) -> None:
        self.dialect = dialect
        self._cursor = cursor
        self._texts = texts(dialect)

    def first_row(self, name: str, /, **values: str | int) -> Row | None:
        """Return the first row of a statement, or None."""
        self._cursor.execute(self._texts[name], values)
        return self._cursor.fetchone()

    def all_rows(self, name: str, /, **values: str | int) -> Sequence[Row]:
        """Return all rows of a statement."""
        self._cursor.execute(self._texts[name], values)
        return self._cursor.fetchall()

    def run(self, name: str, /, **values: str | int) -> int:
        """Run a statement; return how many rows it changed."""
        self._cursor.execute(self._texts[name], values)
        return self._cursor.rowcount

    def many(self, name: str, rows: Iterable[Values]) -> int:
        """Run a statement with each of the rows; return how many rows it changed in total."""
        values = list(rows)
        if not values:
            return 0
        self._cursor.executemany(self._texts[name], values)
        return self._cursor.rowcount

    def script(self, text: str) -> None:
        """Run the statements of a text, each of which ends with a semicolon at the end of a line."""
        for statement in filter(str.strip, _COMMENT.sub("", text).split(";\n")):
            self._cursor.execute(self.dialect.write(statement))

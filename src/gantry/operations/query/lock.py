"""Getters of the fields of locks."""

from gantry.operations.query import cells

Row = tuple[str, str | None, list[str] | None, list[tuple[str, list[str]]], list[tuple[str, list[tuple[str, str]]]]]
"""Name, mode, owners, pending requests (mode and owners), and waiting jobs (with the jobs they wait for and why)."""

GETTERS: dict[str, cells.Getter[Row]] = {
    "name": lambda _, row: row[0],
    "mode": lambda _, row: row[1],
    "owner": lambda _, row: row[2],
    "pending": lambda _, row: [list(entry) for entry in row[3]],
    "waits": lambda _, row: [list(entry) for entry in row[4]],
}

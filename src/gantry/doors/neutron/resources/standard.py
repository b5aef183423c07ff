"""Attributes that all resources have: identity, project, tags, revision, times; functions that their modules share.

``revision_number`` counts the changes of an object from 0 (``serial_no`` does from 1).
"""

from collections.abc import Callable, Sequence

import msgspec

from gantry.doors.neutron import access, attributes, values


def plain(name: str, default: object = None) -> Callable[[attributes.Row], object]:
    """Return a function that returns a field of a row; the master omits a field that has its default."""
    return lambda row: row.get(name, default)


def text(
    name: str,
    about: str,
    *,
    field: str = "",
    sort: bool = False,
    limit: int = values.NAME_LENGTH,
    filtered: bool = True,
) -> attributes.Attribute:
    """Return an attribute with any text, by default empty."""
    field = field or name
    return attributes.Attribute(
        name, about, (field,), plain(field, ""), post=True, put=True, default="", validate=values.text(limit),
        filter=filtered, sort=sort, field=field,
    )  # fmt: skip


def flag(
    name: str, about: str, *, field: str = "", default: bool, put: bool = True, reserved: object = attributes.UNSET
) -> attributes.Attribute:
    """Return a boolean attribute; only administrators may set the value ``reserved``."""
    field = field or name
    return attributes.Attribute(
        name, about, (field,), plain(field, default), post=True, put=put, default=default, convert=values.boolean,
        filter=True, sort=True, reserved=reserved,
    )  # fmt: skip


def constant(name: str, value: object, about: str, *, filtered: bool = False) -> attributes.Attribute:
    """Return an attribute for a feature that the cluster does not have: only its constant value may be set."""
    return attributes.Attribute(
        name, about, (), lambda row: value, post=True, put=True,
        convert=values.boolean if isinstance(value, bool) else lambda requested: requested,
        validate=values.only(value), filter=filtered,
    )  # fmt: skip


def read_only(
    name: str,
    about: str,
    *fields: str,
    show: Callable[[attributes.Row], object],
    filtered: bool = False,
    sort: bool = False,
) -> attributes.Attribute:
    """Return a read-only attribute."""
    return attributes.Attribute(name, about, fields, show, filter=filtered, sort=sort)


def number(value: object) -> int:
    """Return a number of a row."""
    return msgspec.convert(value, int)


def seconds(row: attributes.Row, name: str) -> str:
    """Return a time of a row as the API writes it."""
    return access.timestamp(msgspec.convert(row.get(name, 0.0), float))


def tags(row: attributes.Row) -> list[str]:
    """Return the tags of a row, sorted."""
    return sorted(msgspec.convert(row.get("tags", ()), list[str]))


ID = attributes.Attribute("id", "The UUID", ("uuid",), plain("uuid"), filter=True, sort=True, field="uuid")
DESCRIPTION = text("description", "A description", limit=values.DESCRIPTION_LENGTH)
PROJECT = attributes.Attribute(
    "project_id", "The project that owns it; by default that of the user, and only an administrator may set another",
    ("project",),
    plain("project", ""), post=True, validate=values.text(values.PROJECT_LENGTH), filter=True, sort=True,
    field="project",
)  # fmt: skip
TENANT = attributes.Attribute(
    "tenant_id", "The older name of `project_id`", ("project",), plain("project", ""), sort=True
)
TAGS = attributes.Attribute("tags", "Set by `/tags`", ("tags",), tags)
REVISION = attributes.Attribute(
    "revision_number", "The number of its changes", ("serial_no",), lambda row: number(row.get("serial_no", 1)) - 1,
    convert=values.integer, filter=True,
)  # fmt: skip
CREATED = read_only("created_at", "When it was created", "ctime", show=lambda row: seconds(row, "ctime"))
UPDATED = read_only("updated_at", "When it was last changed", "mtime", show=lambda row: seconds(row, "mtime"))

STANDARD = (TAGS, CREATED, UPDATED, REVISION)


def rows_of(result: object) -> list[attributes.Row]:
    """Convert a result of a job to rows."""
    rows: list[attributes.Row] = msgspec.convert(result, list[dict[str, object]])
    return rows


def results_of(requested: Sequence[attributes.Values], results: list[object]) -> list[attributes.Row]:
    """Return the objects of a job: the result of each opcode, or the list that is the result of its only opcode."""
    del requested
    return rows_of(results[0] if isinstance(results[0], list) else results)

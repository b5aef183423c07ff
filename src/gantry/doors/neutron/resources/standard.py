"""The attributes that all resources have, and what their modules share: identity, project, tags, revision, times.

``revision_number`` counts the changes of an object from 0 (``serial_no`` does from 1).
"""

from collections.abc import Callable, Sequence

import msgspec

from gantry.doors.neutron import access, attributes, values


def plain(name: str, default: object = None) -> Callable[[attributes.Row], object]:
    """Return what shows a field as it is; a default is left out by the master."""
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
    """Return an attribute that is any text, empty when it is left out."""
    field = field or name
    return attributes.Attribute(
        name, about, (field,), plain(field, ""), post=True, put=True, default="", validate=values.text(limit),
        filter=filtered, sort=sort, field=field,
    )  # fmt: skip


def flag(
    name: str, about: str, *, field: str = "", default: bool, put: bool = True, reserved: object = attributes.UNSET
) -> attributes.Attribute:
    """Return an attribute that is true or false; the value ``reserved`` is for administrators to give."""
    field = field or name
    return attributes.Attribute(
        name, about, (field,), plain(field, default), post=True, put=put, default=default, convert=values.boolean,
        filter=True, sort=True, reserved=reserved,
    )  # fmt: skip


def constant(name: str, value: object, about: str) -> attributes.Attribute:
    """Return an attribute of things that this cluster has not: it is always the same, and may be given as that."""
    return attributes.Attribute(name, about, (), lambda row: value, post=True, put=True, validate=values.only(value))


def shown(
    name: str, about: str, *fields: str, show: Callable[[attributes.Row], object], filtered: bool = False
) -> attributes.Attribute:
    """Return an attribute that is read and never given."""
    return attributes.Attribute(name, about, fields, show, filter=filtered)


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
DESCRIPTION = text("description", "What it is for", limit=values.DESCRIPTION_LENGTH)
PROJECT = attributes.Attribute(
    "project_id", "Whose it is; that of who asks, unless an administrator says another", ("project",),
    plain("project", ""), post=True, validate=values.text(values.PROJECT_LENGTH), filter=True, sort=True,
    field="project",
)  # fmt: skip
TENANT = attributes.Attribute("tenant_id", "The older name of `project_id`", ("project",), plain("project", ""))
TAGS = attributes.Attribute("tags", "Set by `/tags`", ("tags",), tags)
REVISION = attributes.Attribute(
    "revision_number", "How often it was changed", ("serial_no",), lambda row: number(row.get("serial_no", 1)) - 1,
    convert=values.integer, filter=True,
)  # fmt: skip
CREATED = shown("created_at", "When it was made", "ctime", show=lambda row: seconds(row, "ctime"))
UPDATED = shown("updated_at", "When it was changed last", "mtime", show=lambda row: seconds(row, "mtime"))

STANDARD = (TAGS, CREATED, UPDATED, REVISION)


def results(given: object) -> list[attributes.Row]:
    """Return the rows in a result of a job."""
    rows: list[attributes.Row] = msgspec.convert(given, list[dict[str, object]])
    return rows


def made(wanted: Sequence[attributes.Values], given: list[object]) -> list[attributes.Row]:
    """Return the objects of a job: the results of its opcodes, or a list of them that is the result of the only one."""
    del wanted
    return results(given[0] if isinstance(given[0], list) else given)

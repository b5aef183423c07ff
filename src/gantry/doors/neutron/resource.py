"""The definition of a resource; each module of ``resources`` declares one, and ``collection`` serves them.

A resource has a table of attributes, functions that return the opcodes to create, change and remove objects, and a
table that converts errors of the master to faults.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from gantry import errors
from gantry.doors.neutron import attributes, faults, master

_MISSING = re.compile(r"no such (?P<noun>[a-z ]+): (?P<name>[^\s;,]+)")
UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""The pattern of a UUID."""

_NOUNS = {"network": "Network", "subnet": "Subnet", "port": "Port", "subnet pool": "SubnetPool"}


@dataclass(frozen=True)
class Refusal:
    """The fault for an error of the master of a class, whose text matches the ``pattern``; the first match counts.

    ``message`` may contain ``{id}``, ``{text}`` for the master's text, ``{uuids}`` for the UUIDs in this text, the
    groups of the pattern, and the attributes of the request with two underscores for a colon. If one request creates
    several objects, they are the attributes of the first that contains a group's text.
    """

    error: type[errors.GantryError]
    status: int
    kind: str
    message: str = "{text}"
    pattern: str = ""


@dataclass(frozen=True)
class Resource:
    """A kind of object; ``kind`` is its name in queries of the master, ``title`` its name in messages.

    ``create_ops`` returns the opcodes for new objects, which already have an ``id``; ``results`` returns the objects in
    the results of the job. ``needs`` has the fields that a change needs, ``computed`` the fields that no job's result
    has. ``for_admins`` hides the resource from other users. With ``inside``, users may create objects in networks that
    they see or own. ``nulls`` are attributes without a value that only the answer to a POST includes, as null. With
    ``counts_empty_changes`` a PUT without attributes counts as a change (recorded). ``managed`` is the field of each
    object that says whether the resource exists in this cluster; empty if it always does.
    """

    name: str
    collection: str
    title: str
    kind: str
    table: attributes.Table
    create_ops: Callable[[Sequence[attributes.Values]], list[master.Op]]
    results: Callable[[Sequence[attributes.Values], list[object]], list[attributes.Row]]
    change_op: Callable[[attributes.Row, attributes.Values], master.Op]
    remove_op: Callable[[attributes.Row], master.Op]
    refusals: Sequence[Refusal] = ()
    needs: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    for_admins: bool = False
    inside: Literal["", "seen", "owned"] = ""
    nulls: tuple[str, ...] = ()
    counts_empty_changes: bool = False
    managed: str = ""

    @property
    def not_found(self) -> str:
        """Return the type of the fault for an object that does not exist."""
        return "".join(word.capitalize() for word in self.title.split()) + "NotFound"

    def missing(self, key: str | None) -> faults.FaultError:
        """Return the fault for an object that does not exist."""
        return faults.FaultError(404, self.not_found, f"{self.title} {key} could not be found.")

    def fault(self, error: errors.GantryError, *objects: attributes.Values) -> faults.FaultError:
        """Return the fault for an error of the master, for a request with the values of these objects."""
        requested = objects[0]
        if invalid := _INVALID_FIELD.match(str(error)):
            return self._invalid(invalid["path"], invalid["reason"])
        for row in self.refusals:
            match = re.search(row.pattern, error.message)
            if isinstance(error, row.error) and match:
                requested = next((each for each in objects if _has_any(each, match.groups())), requested)
                uuids = ", ".join(uuid for uuid in re.findall(UUID, error.message) if uuid != requested.get("id"))
                words = {name.replace(":", "__"): value for name, value in requested.items()}
                words |= {"text": str(error), "uuids": uuids}
                message = row.message.format_map(_Words({**words, **match.groupdict()}))
                return faults.FaultError(row.status, row.kind, message)
        missing = _MISSING.search(error.message)
        if isinstance(error, errors.NotFoundError) and missing:
            noun, name = missing["noun"], missing["name"]
            if name == requested.get("id"):
                return self.missing(name)
            if noun in _NOUNS:
                return faults.FaultError(
                    404, f"{_NOUNS[noun]}NotFound", f"{noun.capitalize()} {name} could not be found."
                )
        return faults.of_error(error)

    def _invalid(self, path: str, reason: str) -> faults.FaultError:
        """Return the fault for an opcode's invalid field, under the name of its attribute if there is one."""
        names = [name for name in re.findall(r"[a-z_]\w*", path) if name not in (self.collection, "ports", "subnets")]
        known = (each for name in reversed(names) for each in self.table.values() if name in (each.name, *each.fields))
        attribute = next(known, None)
        return faults.invalid(attribute.name, reason) if attribute else faults.invalid_input(reason)


def _has_any(requested: attributes.Values, texts: Iterable[str | None]) -> bool:
    """Return whether one of the texts is a value of a request, at any depth."""
    content = repr(requested)
    return any(text and repr(text) in content for text in texts)


_INVALID_FIELD = re.compile(r"opcode not valid: (?P<path>[\w.\[\]-]+): (?P<reason>[^;]*)")
"""The master's error for a field of an opcode: its names are not those of this API."""


class _Words(dict[str, object]):
    """The values for a message; an unknown name is replaced by an empty text."""

    def __missing__(self, key: str) -> str:
        return ""

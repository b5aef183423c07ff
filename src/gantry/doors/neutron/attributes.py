"""Tables of the attributes of resources, and the conversion and validation of bodies by a table.

A table defines for each attribute whether a POST or PUT may set it, its default, the conversion and validation of its
value, whether lists can be filtered and sorted by it, and its value in answers. ``read_post`` and ``read_put`` apply a
table to a body, in the order and with the messages of the recorded service (contracts/neutron-api.md#attributes);
everything else that depends on an attribute uses the same table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from gantry.doors.neutron import faults

Row = Mapping[str, object]
"""An object of the master: fields of a query or of a job's result, by name; a missing field has its default."""

Values = dict[str, object]
"""Attributes of a request, converted and checked."""

Converter = Callable[[object], object]
Validator = Callable[[object], str | None]
"""Returns the reason for which a value is refused, None if it is valid."""


@dataclass(frozen=True)
class Check:
    """A validator with the JSON schema of what it accepts, for the description of the API."""

    refuse: Validator
    schema: Mapping[str, object]

    def __call__(self, value: object) -> str | None:
        """Return the reason for which a value is refused, None if it is valid."""
        return self.refuse(value)


class Absent(Enum):
    """The default of an attribute without a value: a POST must set it, or it stays unset."""

    REQUIRED = "required"
    UNSET = "unset"


REQUIRED: Final = Absent.REQUIRED
UNSET: Final = Absent.UNSET


def _same(value: object) -> object:
    return value


@dataclass(frozen=True)
class Attribute:
    """An attribute; ``show`` reads the master's ``fields``; ``field`` is the master's field with the same value.

    ``parts`` says how the master filters a list of objects by ``key=value``: a key, an operator and the master's field.

    Only administrators can set, read and filter by an attribute with ``admin``, and only they can set the value
    ``reserved``. An attribute that is not ``listed`` can be set, but is not in answers.
    """

    name: str
    text: str
    fields: tuple[str, ...] = ()
    show: Callable[[Row], object] = lambda row: None
    post: bool = False
    put: bool = False
    default: object = UNSET
    convert: Converter = _same
    validate: Validator = lambda value: None
    filter: bool = False
    sort: bool = False
    admin: bool = False
    reserved: object = UNSET
    listed: bool = True
    field: str = ""
    parts: Sequence[tuple[str, str, str]] = ()


Table = Mapping[str, Attribute]


def table(*attributes: Attribute) -> Table:
    """Return attributes by name, in their order."""
    return {each.name: each for each in attributes}


def read_post(attributes: Table, body: Row) -> Values:
    """Return the values of a POST; FaultError 400."""
    _check_known(attributes, body)
    values: Values = {}
    for attribute in attributes.values():
        if not attribute.post:
            if attribute.name in body:
                raise faults.bad_request(f"Attribute '{attribute.name}' not allowed in POST")
        elif attribute.name in body:
            values[attribute.name] = body[attribute.name]
        elif attribute.default is REQUIRED:
            raise faults.bad_request(f"Failed to parse request. Required attribute '{attribute.name}' not specified")
        elif attribute.default is not UNSET:
            values[attribute.name] = attribute.default
    return {name: convert_value(attributes[name], value) for name, value in values.items()}


def read_put(attributes: Table, body: Row) -> Values:
    """Return the values of a PUT, which has only the attributes to change; FaultError 400."""
    _check_known(attributes, body)
    for name in body:
        if not attributes[name].put:
            raise faults.bad_request(f"Cannot update read-only attribute {name}")
    return {name: convert_value(attributes[name], value) for name, value in body.items()}


def convert_value(attribute: Attribute, value: object) -> object:
    """Convert and validate a value of an attribute; FaultError 400 if it is refused."""
    value = attribute.convert(value)
    reason = attribute.validate(value)
    if reason:
        raise faults.invalid(attribute.name, reason)
    return value


def _check_known(attributes: Table, body: Row) -> None:
    unknown = [name for name in body if name not in attributes]
    if unknown:
        message = f"Unrecognized attribute(s) '{', '.join(unknown)}'"
        raise faults.bad_request(faults.with_nearest(message, unknown[0], attributes))


def represent(attributes: Sequence[Attribute], row: Row) -> dict[str, object]:
    """Return the representation of an object, without attributes whose value is ``UNSET``."""
    cells = ((each.name, each.show(row)) for each in attributes)
    return {name: cell for name, cell in cells if cell is not UNSET}

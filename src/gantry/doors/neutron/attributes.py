"""What the attributes of a resource are: tables of ``Attribute``, and the checks that read them.

A table says once, for each attribute, whether it may be given in a POST or a PUT, what it is when it is left out, how
a value is converted and which ones are refused, whether lists may be filtered and sorted by it, and how it is shown.
``created`` and ``changed`` apply a table to a body, in the order and with the words of the recorded service
(contracts/neutron-api.md#attributes); everything else that depends on an attribute reads the same rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from gantry.doors.neutron import faults

Row = Mapping[str, object]
"""An object of the master: fields of a query or of a job's result, by name; what is not there has its default."""

Values = dict[str, object]
"""Attributes of a request, converted and checked."""

Converter = Callable[[object], object]
Validator = Callable[[object], str | None]
"""Says why a value is refused."""


class Absent(Enum):
    """What an attribute is that a POST leaves out, where it has no default."""

    REQUIRED = "required"
    UNSET = "unset"


REQUIRED: Final = Absent.REQUIRED
UNSET: Final = Absent.UNSET


def _same(value: object) -> object:
    return value


@dataclass(frozen=True)
class Attribute:
    """A row of a table; ``fields`` are the master's fields that ``show`` looks at, ``field`` the one it is equal to.

    An attribute with ``admin`` is set, seen and filtered by administrators alone, the one value ``reserved`` given by
    them alone. One that is not ``listed`` may be given, but is not shown.
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


Table = Mapping[str, Attribute]


def table(*attributes: Attribute) -> Table:
    """Return attributes by name, in their order."""
    return {one.name: one for one in attributes}


def created(attributes: Table, body: Row) -> Values:
    """Return the values of a POST; FaultError 400."""
    _check_known(attributes, body)
    values: Values = {}
    for one in attributes.values():
        if not one.post:
            if one.name in body:
                raise faults.bad_request(f"Attribute '{one.name}' not allowed in POST")
        elif one.name in body:
            values[one.name] = body[one.name]
        elif one.default is REQUIRED:
            raise faults.bad_request(f"Failed to parse request. Required attribute '{one.name}' not specified")
        elif one.default is not UNSET:
            values[one.name] = one.default
    return {name: converted(attributes[name], value) for name, value in values.items()}


def changed(attributes: Table, body: Row) -> Values:
    """Return the values of a PUT, which has only what is to change; FaultError 400."""
    _check_known(attributes, body)
    for name in body:
        if not attributes[name].put:
            raise faults.bad_request(f"Cannot update read-only attribute {name}")
    return {name: converted(attributes[name], value) for name, value in body.items()}


def converted(attribute: Attribute, value: object) -> object:
    """Return a value as its attribute has it; FaultError 400 for one that is refused."""
    value = attribute.convert(value)
    reason = attribute.validate(value)
    if reason:
        raise faults.invalid(attribute.name, reason)
    return value


def _check_known(attributes: Table, body: Row) -> None:
    unknown = [name for name in body if name not in attributes]
    if unknown:
        raise faults.bad_request(f"Unrecognized attribute(s) '{', '.join(unknown)}'")


def shown(attributes: Sequence[Attribute], row: Row) -> dict[str, object]:
    """Return an object as clients see it; what an attribute shows as ``UNSET`` is left out."""
    cells = ((one.name, one.show(row)) for one in attributes)
    return {name: cell for name, cell in cells if cell is not UNSET}

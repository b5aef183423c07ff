"""Converters and validators of attributes, with the messages of the recorded service.

A converter returns the value in the type of the attribute, or raises a fault of type InvalidInput; a validator returns
None, or the reason for which a converted value is refused. The tables in ``resources`` use both.

See contracts/neutron-api.md#attributes.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence

from gantry.doors.neutron import attributes, faults

NAME_LENGTH = 255
DESCRIPTION_LENGTH = 255
PROJECT_LENGTH = 255
TAG_LENGTH = 255

_TRUE = ("true", "1")
_FALSE = ("false", "0")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")


def boolean(value: object) -> bool:
    """Convert a boolean, which may be text or a number."""
    if isinstance(value, bool):
        return value
    text = str(value).lower() if isinstance(value, str | int) else ""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise faults.invalid_input(f"'{value}' cannot be converted to boolean.")


def integer(value: object) -> int:
    """Convert an integer, which may be text; a boolean and the integer part of a fraction are accepted (recorded)."""
    if isinstance(value, int | float | str):
        try:
            return int(value)
        except (ValueError, OverflowError):
            pass
    raise faults.invalid_input(f"'{value}' is not an integer.")


def integer_or_none(value: object) -> int | None:
    """Convert an integer or null."""
    return None if value is None else integer(value)


def mac_form(value: object) -> object:
    """Convert a MAC address to the usual form: lower case, with colons."""
    return value.lower().replace("-", ":") if isinstance(value, str) else value


def list_for_none(value: object) -> object:
    """Convert null to an empty list."""
    return [] if value is None else value


def text(limit: int) -> attributes.Check:
    """Refuse a value that is not a text, or longer than ``limit``."""

    def check(value: object) -> str | None:
        if not isinstance(value, str):
            return f"'{value}' is not a valid string."
        return f"'{value}' exceeds maximum length of {limit}." if len(value) > limit else None

    return attributes.Check(check, {"type": "string", "maxLength": limit})


def between(minimum: int, maximum: int) -> attributes.Check:
    """Refuse a value that is not an integer in a range."""

    def check(value: object) -> str | None:
        if not isinstance(value, int):
            return f"'{value}' is not an integer"
        if value < minimum:
            return f"'{value}' is too small - must be at least '{minimum}'."
        return f"'{value}' is too large - must be no larger than '{maximum}'." if value > maximum else None

    return attributes.Check(check, {"type": "integer", "minimum": minimum, "maximum": maximum})


def one_of(*known: object) -> attributes.Check:
    """Refuse all but the known values."""
    return attributes.Check(
        lambda value: None if value in known and value is not True else f"{value} is not in valid_values.",
        {"enum": list(known)},
    )


def or_none(check: attributes.Validator) -> attributes.Check:
    """Accept null, and the values that ``check`` accepts."""
    return attributes.Check(
        lambda value: None if value is None else check(value), {"anyOf": [{"type": "null"}, schema(check)]}
    )


def only(value: object) -> attributes.Check:
    """Accept only this value, for an attribute whose feature the cluster does not have."""
    return attributes.Check(
        lambda requested: None if requested == value else f"'{requested}' is not supported, only '{value}' is.",
        {"const": value},
    )


def is_uuid(value: object) -> bool:
    """Return whether a value is a UUID in the form that the master writes."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def uuid(value: object) -> str | None:
    """Refuse a value that is not a UUID."""
    return None if is_uuid(value) else f"'{value}' is not a valid UUID."


def mac(value: object) -> str | None:
    """Refuse a value that is not a MAC address."""
    return None if isinstance(value, str) and _MAC.fullmatch(value) else f"'{value}' is not a valid MAC address."


def address(value: object) -> str | None:
    """Refuse a value that is not an IP address."""
    try:
        if isinstance(value, str) and "%" not in value:
            ipaddress.ip_address(value)
            return None
    except ValueError:
        pass
    return f"'{value}' is not a valid IP address."


def version(value: object) -> int:
    """Return the IP version of a subnet that ``cidr`` accepts."""
    return ipaddress.ip_interface(str(value)).version


def cidr(value: object) -> str | None:
    """Refuse a value that is not a CIDR; host bits may be set."""
    try:
        if isinstance(value, str) and "/" in value:
            ipaddress.ip_interface(value)
            return None
    except ValueError:
        pass
    return f"'{value}' is not a valid IP subnet."


def list_of(check: attributes.Validator, *, maximum: int = 1024, unique: bool = True) -> attributes.Check:
    """Refuse a value that is not a list of items that ``check`` accepts; with ``unique`` refuse duplicates."""

    def check_all(value: object) -> str | None:
        if not isinstance(value, list):
            return f"'{value}' is not a list."
        if len(value) > maximum:
            return f"the list has {len(value)} items, {maximum} is the most."
        reason = next(filter(None, map(check, value)), None)
        if reason or not unique:
            return reason
        duplicate = next((item for index, item in enumerate(value) if item in value[:index]), None)
        return None if duplicate is None else f"Duplicate items in the list: '{duplicate}'."

    return attributes.Check(
        check_all, {"type": "array", "items": schema(check), "maxItems": maximum, "uniqueItems": unique}
    )


def record(required: Mapping[str, attributes.Validator], **optional: attributes.Validator) -> attributes.Check:
    """Refuse a value that is not an object with these keys."""
    known = {**required, **optional}

    def check(value: object) -> str | None:
        if not isinstance(value, dict):
            return f"'{value}' is not a dictionary."
        wrong = [name for name in value if name not in known]
        missing = [name for name in required if name not in value]
        if wrong or missing:
            return f"'{value}' has {_names('unexpected', wrong)}{_names('not', missing)}."
        return next(filter(None, (known[name](item) for name, item in value.items())), None)

    properties = {name: schema(each) for name, each in known.items()}
    return attributes.Check(
        check,
        {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False},
    )


_FORMATS: Mapping[object, Mapping[str, object]] = {
    uuid: {"type": "string", "format": "uuid"},
    mac: {"type": "string", "pattern": f"^{_MAC.pattern}$"},
    address: {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
    cidr: {"type": "string", "pattern": "/"},
    boolean: {"type": "boolean"},
    integer: {"type": "integer"},
    integer_or_none: {"type": ["integer", "null"]},
}


def schema(check: attributes.Validator | attributes.Converter) -> Mapping[str, object]:
    """Return the JSON schema of the values that a validator accepts or a converter returns; empty if it is unknown."""
    return check.schema if isinstance(check, attributes.Check) else _FORMATS.get(check, {})


def _names(word: str, names: Sequence[str]) -> str:
    return f"{word} {', '.join(names)}" if names else ""

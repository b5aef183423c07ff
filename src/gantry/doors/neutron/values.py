"""Converters and validators of attributes, with the words of the recorded service.

A converter returns the value as the attribute has it, or raises a fault of type InvalidInput; a validator returns
None, or the reason for which a converted value is refused. Both are cells of the tables in ``resources``.

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
    """Return a truth value, which may be text or a number."""
    if isinstance(value, bool):
        return value
    text = str(value).lower() if isinstance(value, str | int) else ""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise faults.invalid_input(f"'{value}' cannot be converted to boolean.")


def integer(value: object) -> int:
    """Return a number, which may be text; a truth value and the whole part of a fraction pass (recorded)."""
    if isinstance(value, int | float | str):
        try:
            return int(value)
        except (ValueError, OverflowError):
            pass
    raise faults.invalid_input(f"'{value}' is not an integer.")


def integer_or_none(value: object) -> int | None:
    """Return a number, or None where none is given."""
    return None if value is None else integer(value)


def lower(value: object) -> object:
    """Return a text in small letters."""
    return value.lower() if isinstance(value, str) else value


def list_for_none(value: object) -> object:
    """Return an empty list for null."""
    return [] if value is None else value


def text(limit: int) -> attributes.Validator:
    """Refuse what is no text, or a longer one."""

    def check(value: object) -> str | None:
        if not isinstance(value, str):
            return f"'{value}' is not a valid string."
        return f"'{value}' exceeds maximum length of {limit}." if len(value) > limit else None

    return check


def between(least: int, most: int) -> attributes.Validator:
    """Refuse a number outside of a range."""

    def check(value: object) -> str | None:
        if not isinstance(value, int):
            return f"'{value}' is not an integer"
        if value < least:
            return f"'{value}' is too small - must be at least '{least}'."
        return f"'{value}' is too large - must be no larger than '{most}'." if value > most else None

    return check


def one_of(*known: object) -> attributes.Validator:
    """Refuse what is none of the values."""
    return lambda value: None if value in known and value is not True else f"{value} is not in valid_values."


def or_none(check: attributes.Validator) -> attributes.Validator:
    """Let null pass, and what ``check`` lets pass."""
    return lambda value: None if value is None else check(value)


def only(value: object) -> attributes.Validator:
    """Let the one value pass that asks for nothing this cluster has not."""
    return lambda given: None if given == value else f"'{given}' is not supported, only '{value}' is."


def is_uuid(value: object) -> bool:
    """Tell whether this is a UUID as the master writes them."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def uuid(value: object) -> str | None:
    """Refuse what is no UUID."""
    return None if is_uuid(value) else f"'{value}' is not a valid UUID."


def mac(value: object) -> str | None:
    """Refuse what is no MAC address."""
    return None if isinstance(value, str) and _MAC.fullmatch(value) else f"'{value}' is not a valid MAC address."


def address(value: object) -> str | None:
    """Refuse what is no IP address."""
    try:
        if isinstance(value, str) and "%" not in value:
            ipaddress.ip_address(value)
            return None
    except ValueError:
        pass
    return f"'{value}' is not a valid IP address."


def version(value: object) -> int:
    """Return the IP version of a subnet that ``cidr`` lets pass."""
    return ipaddress.ip_interface(str(value)).version


def cidr(value: object) -> str | None:
    """Refuse what is no subnet; host bits may be set."""
    try:
        if isinstance(value, str) and "/" in value:
            ipaddress.ip_interface(value)
            return None
    except ValueError:
        pass
    return f"'{value}' is not a valid IP subnet."


def listed(check: attributes.Validator, *, most: int = 1024, unique: bool = True) -> attributes.Validator:
    """Refuse what is no list of what ``check`` lets pass, or has something twice where that is not ``unique``."""

    def check_all(value: object) -> str | None:
        if not isinstance(value, list):
            return f"'{value}' is not a list."
        if len(value) > most:
            return f"the list has {len(value)} items, {most} is the most."
        reason = next(filter(None, map(check, value)), None)
        if reason or not unique:
            return reason
        again = next((one for index, one in enumerate(value) if one in value[:index]), None)
        return None if again is None else f"Duplicate items in the list: '{again}'."

    return check_all


def record(needed: Mapping[str, attributes.Validator], **optional: attributes.Validator) -> attributes.Validator:
    """Refuse what is no object with these keys."""
    known = {**needed, **optional}

    def check(value: object) -> str | None:
        if not isinstance(value, dict):
            return f"'{value}' is not a dictionary."
        wrong = [name for name in value if name not in known]
        missing = [name for name in needed if name not in value]
        if wrong or missing:
            return f"'{value}' has {_names('unexpected', wrong)}{_names('not', missing)}."
        return next(filter(None, (known[name](one) for name, one in value.items())), None)

    return check


def _names(word: str, names: Sequence[str]) -> str:
    return f"{word} {', '.join(names)}" if names else ""

"""Parsers of option values: they turn text into the structures of opcodes, and do not check the meaning.

    key=value,key2=value2      a dictionary; ``no_key`` is false, ``-key`` null, a bare ``key`` true
    ident:key=value,...        the same, for the object ``ident``

A backslash makes a following comma or backslash literal. All functions raise InvalidError with the text or the invalid
key (contracts/commands.md#device-options). ``subnets`` has the grammar of ``--subnet`` and ``--pool``, ``devices`` that
of ``--disk`` and ``--net`` of new instances, ``changes`` that of ``--disk`` and ``--net`` of existing instances.
"""

import math
import re
from collections.abc import Sequence

from gantry.cli import errors

Values = dict[str, str | bool | None]
Parameters = dict[str, str | bool | int]
Structure = dict[str, object]

SIZES = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
TRUTH = {"yes": True, "true": True, "no": False, "false": False}
RESET = "default"
"""The word that resets a parameter to its default."""

AUTO = "auto"
"""The word for the cluster's default disk size (contracts/commands.md#device-options)."""

MEMORY = ("memory", "maxmem", "minmem")
NIC_KEYS = ("mac", "network", "mode", "link", "vlan", "bridge", "name", "port")
DISK_KEYS = (*("size", "mode", "access", "name", "vg", "metavg", "adopt", "path", "format", "provider", "spindles"),)
MODES = ("r", "w", "ro", "rw")
"""Values of ``access`` that are modes; other values say how a guest reaches an external disk."""


def pieces(text: str) -> list[str]:
    """Split at the commas without a backslash before them."""
    parts = [""]
    characters = iter(text)
    for character in characters:
        if character == "\\":
            follower = next(characters, "")
            parts[-1] += follower if follower in (",", "\\") else character + follower
        elif character == ",":
            parts.append("")
        else:
            parts[-1] += character
    return parts


def key_values(text: str) -> Values:
    """Parse ``key=value,no_key,-key,key``; an empty text is an empty dictionary."""
    values: Values = {}
    for piece in pieces(text) if text else []:
        key, has_value, value_text = piece.partition("=")
        value: str | bool | None = value_text if has_value else True
        if not has_value and key.startswith("no_"):
            key, value = key.removeprefix("no_"), False
        elif not has_value and key.startswith("-"):
            key, value = key.removeprefix("-"), None
        if not key:
            raise errors.InvalidError(f"{text!r} is not of the form key=value,key2=value2", key=key)
        if key in values:
            raise errors.InvalidError(f"{text!r} sets {key} twice", key=key)
        values[key] = value
    return values


def parameters(text: str) -> Parameters:
    """Parse parameters in the form of opcodes; null becomes the word that resets a parameter."""
    return {key: RESET if value is None else value for key, value in key_values(text).items()}


def backend(text: str) -> Parameters:
    """Parse backend parameters; memory may have a unit."""
    backend_parameters = parameters(text)
    for key in MEMORY:
        value = backend_parameters.get(key)
        if isinstance(value, str) and value[-1:].isalpha() and value != RESET:
            backend_parameters[key] = size(value)
    return backend_parameters


def key_position(error: errors.InvalidError, text: str, start: int) -> int:
    """Return the last position of an error's key in a text, at or after ``start``; ``start`` without a key."""
    if error.key is None:
        return start
    matches = re.finditer(rf"(?<![^,])(?:no_|-)?{re.escape(error.key)}(?![^=,])", text[start:])
    return max((start + match.start() for match in matches), default=start)


def hypervisor(text: str) -> tuple[str, Parameters]:
    """Parse ``[HYPERVISOR:]key=value,...``, or a hypervisor alone; an omitted hypervisor has an empty name."""
    ident, colon, values = text.partition(":")
    if "=" in ident or "," in ident:
        return "", parameters(text)
    return ident, parameters(values) if colon else {}


def size(text: str) -> int:
    """Return a size in MiB, rounded up; the unit k, m, g or t may follow the number, otherwise it is in MiB."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    mebibytes = math.ceil(float(match[1]) * SIZES[match[2] or "m"]) if match else 0
    if mebibytes <= 0:
        raise errors.InvalidError(
            f"{text!r} is not a size: it must be above 0, in MiB or with the unit k, m, g or t, as in 10g"
        )
    return mebibytes


def seconds(text: str) -> int:
    """Return a duration in seconds; the unit s, m, h, d or w may follow the number, otherwise it is in seconds."""
    match = re.fullmatch(r"(\d+)([smhdw]?)", text.strip().lower())
    if not match:
        raise errors.InvalidError(f"{text!r} is not a duration: write a number with the unit s, m, h, d or w, as in 2w")
    return int(match[1]) * SECONDS[match[2] or "s"]


def truth(value: str | bool | None, *, name: str) -> bool:
    """Return whether a value means yes; ``name`` is the key, for the error."""
    boolean = value if isinstance(value, bool) else TRUTH.get((value or "").lower())
    if boolean is None:
        raise errors.InvalidError(f"{name}={value} is not valid: write {name}=yes or {name}=no")
    return boolean


def words(text: str) -> list[str]:
    """Return the words of a list, without empty words and surrounding spaces."""
    return [piece.strip() for piece in pieces(text) if piece.strip()]


def within(text: str, *, minimum: int | None, maximum: int | None) -> int:
    """Return an integer between two bounds; a bound may be None."""
    value = -number(text[1:]) if text.startswith("-") else number(text)
    if minimum is not None and value < minimum:
        raise errors.InvalidError(f"{text} is too small: the minimum is {minimum}")
    if maximum is not None and value > maximum:
        raise errors.InvalidError(f"{text} is too large: the maximum is {maximum}")
    return value


def number(text: str) -> int:
    """Return a non-negative integer."""
    if not re.fullmatch(r"\d{1,18}", text):
        raise errors.InvalidError(f"{text!r} is not a number")
    return int(text)


def disk(values: Values, *, subject: str) -> Structure:
    """Return a disk to create; beside ``provider``, unknown keys are parameters of the provider."""
    fields = _disk_texts(values, subject=subject)
    size_text = str(fields.get("size", AUTO))
    return {**fields, "size": size_text if size_text == AUTO else size(size_text)}


def disk_change(values: Values, *, subject: str) -> Structure:
    """Return the fields of a disk to change or to attach; ``-name`` is ``name=none``."""
    plain: Values = {key: "none" if value is None else value for key, value in values.items()}
    return _disk_texts(plain, subject=subject, keys=(*DISK_KEYS, "uuid"))


def _disk_texts(values: Values, *, subject: str, keys: Sequence[str] = DISK_KEYS) -> Structure:
    own = {key: value for key, value in values.items() if "provider" in values and key not in keys}
    plain = {key: value for key, value in values.items() if key not in own}
    _check_keys(plain, keys, subject=subject)
    fields = _texts(plain, subject=subject)
    if fields.get("access") in MODES:
        # The 2.0 design calls ``mode`` so (contracts/commands.md#device-options).
        fields["mode"] = fields.pop("access")
    if "spindles" in fields:
        fields["spindles"] = number(str(fields["spindles"]))
    return fields | ({"params": _texts(own, subject=subject)} if own else {})


def nic(values: Values, *, subject: str) -> Structure:
    """Return a NIC to create: ``ip``, ``ip0``, ``ip1`` ... become a list, and a bare word is the network's name.

    See contracts/networks.md#several-addresses-of-a-nic.
    """
    addresses = _listed(_addresses(values, subject=subject), subject=subject)
    bare = [key for key, value in values.items() if value is True]
    if bare and "network" not in values:
        del values[bare[0]]
        values["network"] = bare[0]
    _check_keys(values, NIC_KEYS, subject=subject)
    fields = _texts(values, subject=subject)
    if fields.get("bridge") == "auto":
        # The 2.0 design calls the default bridge so (contracts/commands.md#device-options); a NIC without a bridge has
        # the default bridge.
        del fields["bridge"]
    return {**fields, "ip": addresses} if addresses else fields


def nic_change(values: Values, *, subject: str) -> Structure:
    """Return the fields of a NIC to change: ``ip``, ``ip1`` ... become a dictionary by number.

    ``-name`` is ``name=none``.
    """
    plain: Values = {key: "none" if value is None else value for key, value in values.items()}
    numbered = _addresses(plain, subject=subject)
    _check_keys(plain, NIC_KEYS, subject=subject)
    fields = _texts(plain, subject=subject)
    return {**fields, "ip": {str(index): text for index, text in numbered.items()}} if numbered else fields


def _addresses(values: Values, *, subject: str) -> dict[int, str]:
    numbered: dict[int, str] = {}
    for key in [key for key in values if re.fullmatch(r"ip\d*", key)]:
        value = values.pop(key)
        index = int(key.removeprefix("ip") or 0)
        if not isinstance(value, str) or not value:
            raise errors.InvalidError(
                f"{subject}: {key} has no address; write an address or a pool, as in {key}=pool", key=key
            )
        if index in numbered:
            raise errors.InvalidError(f"{subject}: ip and ip0 are the same address; give one of them", key=key)
        numbered[index] = value
    return numbered


def _listed(numbered: dict[int, str], *, subject: str) -> list[str]:
    if sorted(numbered) != list(range(len(numbered))):
        raise errors.InvalidError(f"{subject}: ip0, ip1 ... must start at 0 without gaps", key=f"ip{max(numbered)}")
    return [] if list(numbered.values()) == ["none"] else [numbered[index] for index in range(len(numbered))]


def _check_keys(values: Values, known: Sequence[str], *, subject: str) -> None:
    unknown = [key for key in values if key not in known]
    if unknown:
        import difflib

        similar = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {similar[0]}?" if similar else f"valid keys: {', '.join(known)}" + _ip_hint(known)
        keys = "key" if len(unknown) == 1 else "keys"
        raise errors.InvalidError(f"{subject}: unknown {keys} {', '.join(unknown)}", hint=hint, key=unknown[0])


def _ip_hint(known: Sequence[str]) -> str:
    return ", ip, ip0, ip1 ..." if known is NIC_KEYS else ""


def _texts(values: Values, *, subject: str) -> Structure:
    valueless = [key for key, value in values.items() if not isinstance(value, str) or not value]
    if valueless:
        raise errors.InvalidError(f"{subject}: {', '.join(valueless)} has no value", key=valueless[0])
    return dict(values)

"""The grammar of option values: text becomes the structures that opcodes take. Grammar only, no meaning.

    key=value,key2=value2      a dictionary; ``no_key`` is false, ``-key`` null, a bare ``key`` true
    ident:key=value,...        the same with what it is about in front

A backslash before a comma or a backslash takes it literally. Everything raises InvalidError that shows the text or has
the key that is wrong (contracts/commands.md#device-options). ``subnets`` has the
grammar of ``--subnet`` and ``--pool``, ``devices`` that of ``--disk`` and ``--net`` around their values, ``changes``
the same where they are changed.
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
"""The word that takes a parameter's setting back."""

AUTO = "auto"
"""The size of a disk that has the cluster's default (contracts/commands.md#device-options)."""

MEMORY = ("memory", "maxmem", "minmem")
NIC_KEYS = ("mac", "network", "mode", "link", "vlan", "bridge", "name")
DISK_KEYS = (*("size", "mode", "access", "name", "vg", "metavg", "adopt", "path", "format", "provider", "spindles"),)
MODES = ("r", "w", "ro", "rw")
"""What ``access`` may say as a mode; otherwise it is how a guest reaches an external disk."""


def pieces(text: str) -> list[str]:
    """Split at the commas that no backslash protects."""
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
        key, has_value, given = piece.partition("=")
        value: str | bool | None = given if has_value else True
        if not has_value and key.startswith("no_"):
            key, value = key.removeprefix("no_"), False
        elif not has_value and key.startswith("-"):
            key, value = key.removeprefix("-"), None
        if not key:
            raise errors.InvalidError(f"{text!r} is not of the form key=value,key2=value2", key=key)
        if key in values:
            raise errors.InvalidError(f"{text!r} gives {key} twice", key=key)
        values[key] = value
    return values


def parameters(text: str) -> Parameters:
    """Parse parameters as opcodes take them; null becomes the word that takes a setting back."""
    return {key: RESET if value is None else value for key, value in key_values(text).items()}


def backend(text: str) -> Parameters:
    """Parse backend parameters; memory may have a unit."""
    given = parameters(text)
    for key in MEMORY:
        value = given.get(key)
        if isinstance(value, str) and value[-1:].isalpha() and value != RESET:
            given[key] = size(value)
    return given


def place_of(error: errors.InvalidError, text: str, start: int) -> int:
    """Return where the key stands that an error is about, the last time it does; ``start`` if it is about no key."""
    if error.key is None:
        return start
    found = re.finditer(rf"(?<![^,])(?:no_|-)?{re.escape(error.key)}(?![^=,])", text[start:])
    return max((start + one.start() for one in found), default=start)


def hypervisor(text: str) -> tuple[str, Parameters]:
    """Parse ``[HYPERVISOR:]key=value,...``, or a hypervisor alone; its name is empty when it was not given."""
    ident, colon, rest = text.partition(":")
    if "=" in ident or "," in ident:
        return "", parameters(text)
    return ident, parameters(rest) if colon else {}


def size(text: str) -> int:
    """Return MiB: a number, with the unit k, m, g or t behind it if not MiB; parts of a MiB count as whole."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    mebibytes = math.ceil(float(found[1]) * SIZES[found[2] or "m"]) if found else 0
    if mebibytes <= 0:
        raise errors.InvalidError(
            f"{text!r} is not a size: it has to be above 0, in MiB or with the unit k, m, g or t, as in 10g"
        )
    return mebibytes


def seconds(text: str) -> int:
    """Return seconds: a number, with the unit s, m, h, d or w behind it if not seconds."""
    found = re.fullmatch(r"(\d+)([smhdw]?)", text.strip().lower())
    if not found:
        raise errors.InvalidError(f"{text!r} is not a time: a number with the unit s, m, h, d or w, as in 2w")
    return int(found[1]) * SECONDS[found[2] or "s"]


def truth(value: str | bool | None, *, name: str) -> bool:
    """Return whether a value means yes."""
    found = value if isinstance(value, bool) else TRUTH.get((value or "").lower())
    if found is None:
        raise errors.InvalidError(f"{name}={value} is neither yes nor no")
    return found


def words(text: str) -> list[str]:
    """Return the pieces of a list, without empty ones and the blanks around them."""
    return [piece.strip() for piece in pieces(text) if piece.strip()]


def within(text: str, *, least: int | None, most: int | None) -> int:
    """Return a whole number between two bounds; a bound may be None."""
    value = -number(text[1:]) if text.startswith("-") else number(text)
    if least is not None and value < least:
        raise errors.InvalidError(f"{text} is too small: the minimum is {least}")
    if most is not None and value > most:
        raise errors.InvalidError(f"{text} is too large: the maximum is {most}")
    return value


def number(text: str) -> int:
    """Return a whole number that is not negative."""
    if not re.fullmatch(r"\d{1,18}", text):
        raise errors.InvalidError(f"{text!r} is not a number")
    return int(text)


def disk(values: Values, *, place: str) -> Structure:
    """Return a disk to make; what else follows a provider is the provider's own."""
    given = _disk_texts(values, place=place)
    size_text = str(given.get("size", AUTO))
    return {**given, "size": size_text if size_text == AUTO else size(size_text)}


def disk_change(values: Values, *, place: str) -> Structure:
    """Return what changes of a disk, or which one is attached; ``-name`` is ``name=none``."""
    plain: Values = {key: "none" if value is None else value for key, value in values.items()}
    return _disk_texts(plain, place=place, keys=(*DISK_KEYS, "uuid"))


def _disk_texts(values: Values, *, place: str, keys: Sequence[str] = DISK_KEYS) -> Structure:
    own = {key: value for key, value in values.items() if "provider" in values and key not in keys}
    plain = {key: value for key, value in values.items() if key not in own}
    _check_keys(plain, keys, place=place)
    given = _texts(plain, place=place)
    if given.get("access") in MODES:
        # The word of the 2.0 design for ``mode`` (contracts/commands.md#device-options).
        given["mode"] = given.pop("access")
    if "spindles" in given:
        given["spindles"] = number(str(given["spindles"]))
    return given | ({"params": _texts(own, place=place)} if own else {})


def nic(values: Values, *, place: str) -> Structure:
    """Gather ``ip``, ``ip0``, ``ip1`` ... into a list; a bare word is the network's name.

    See contracts/networks.md#several-addresses-of-a-nic.
    """
    addresses = _listed(_addresses(values, place=place), place=place)
    bare = [key for key, value in values.items() if value is True]
    if bare and "network" not in values:
        del values[bare[0]]
        values["network"] = bare[0]
    _check_keys(values, NIC_KEYS, place=place)
    given = _texts(values, place=place)
    if given.get("bridge") == "auto":
        # The default bridge in the 2.0 design (contracts/commands.md#device-options), which is what a NIC gets without
        # one.
        del given["bridge"]
    return {**given, "ip": addresses} if addresses else given


def nic_change(values: Values, *, place: str) -> Structure:
    """Gather ``ip``, ``ip0``, ``ip1`` ... into a dictionary by their numbers; ``-name`` is ``name=none``."""
    plain: Values = {key: "none" if value is None else value for key, value in values.items()}
    numbered = _addresses(plain, place=place)
    _check_keys(plain, NIC_KEYS, place=place)
    given = _texts(plain, place=place)
    return {**given, "ip": {str(index): text for index, text in numbered.items()}} if numbered else given


def _addresses(values: Values, *, place: str) -> dict[int, str]:
    numbered: dict[int, str] = {}
    for key in [key for key in values if re.fullmatch(r"ip\d*", key)]:
        value = values.pop(key)
        index = int(key.removeprefix("ip") or 0)
        if not isinstance(value, str) or not value:
            raise errors.InvalidError(f"{place}: {key} has no address, as in {key}=pool", key=key)
        if index in numbered:
            raise errors.InvalidError(f"{place}: ip and ip0 are the same address, both are given", key=key)
        numbered[index] = value
    return numbered


def _listed(numbered: dict[int, str], *, place: str) -> list[str]:
    if sorted(numbered) != list(range(len(numbered))):
        raise errors.InvalidError(f"{place}: ip0, ip1 ... start at 0 and have no gaps", key=f"ip{max(numbered)}")
    return [] if list(numbered.values()) == ["none"] else [numbered[index] for index in range(len(numbered))]


def _check_keys(values: Values, known: Sequence[str], *, place: str) -> None:
    unknown = [key for key in values if key not in known]
    if unknown:
        import difflib

        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}" + _ip_hint(known)
        raise errors.InvalidError(f"{place}: unknown {', '.join(unknown)}", hint=hint, key=unknown[0])


def _ip_hint(known: Sequence[str]) -> str:
    return ", ip, ip0, ip1 ..." if known is NIC_KEYS else ""


def _texts(values: Values, *, place: str) -> Structure:
    wrong = [key for key, value in values.items() if not isinstance(value, str) or not value]
    if wrong:
        raise errors.InvalidError(f"{place}: {', '.join(wrong)} has no value", key=wrong[0])
    return dict(values)

"""The grammar of ``--subnet`` and ``--pool``: text becomes the structures of opcodes, without a check of the meaning.

The constants below are the forms that error texts list. An identifier may be an IPv6 CIDR or range with colons of its
own, so the action is the last word with a colon before the first comma. Values have the syntax of ``syntax``: a
backslash makes a following comma literal, ``no_dhcp`` is ``dhcp=no``, and ``-gateway`` is ``gateway=none``.

Invalid text raises ``cli.errors.MalformedError``, which shows the text, marks the position and lists the valid forms
(contracts/networks.md#subnets, contracts/networks.md#pools).
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gantry.cli import errors
from gantry.cli.grammar import syntax

ADD_SUBNET = ("add:cidr=CIDR[,gateway=ADDRESS][,dhcp=yes|no][,name=NAME][,pool]",)
CHANGE_SUBNET = (
    *ADD_SUBNET,
    "IDENT:modify[,cidr=CIDR][,gateway=ADDRESS|none]",
    "IDENT:modify[,dhcp=yes|no][,name=NAME|none]",
    "IDENT:remove          IDENT is a CIDR, a name or a UUID",
)
ADD_POOL = (
    "add:RANGE[,name=NAME]          FIRST-LAST, an address or a CIDR",
    "add:start=ADDRESS,size=COUNT[,name=NAME]",
    "add:subnet=IDENT[,name=NAME]   all of a subnet, by CIDR, name or UUID",
)
CHANGE_POOL = (
    *ADD_POOL,
    "IDENT:modify,name=NAME|none    IDENT is a pool's name or range",
    "IDENT:remove",
    "remove:RANGE",
)
SUBNET_KEYS = ("cidr", "gateway", "dhcp", "name", "pool")
POOL_KEYS = ("range", "start", "size", "end", "subnet", "name")
FLAGS = ("dhcp", "pool")
REMOVABLE = ("gateway", "name")
NONE = "none"

_ACTION = re.compile(r"([^,=]*):(modify|remove)(?=,|$)")
_PIECE = re.compile(r"(?:\\.|[^,])*", re.DOTALL)
_ESCAPE = re.compile(r"\\([,\\])")
_ADDRESS = r"\s*(?=[^-/]*[.:])[0-9A-Fa-f.:]+(?:%[^-/]*)?\s*"
# The form of a range; the master checks its addresses.
_RANGE = re.compile(f"{_ADDRESS}(?:-{_ADDRESS}|/.*)?", re.ASCII)


_CIDR = re.compile(r"[0-9A-Fa-f.:]+/[0-9]", re.ASCII)
_SHORT_RANGE = re.compile(r"(\d+\.\d+\.\d+)\.(\d+)-(\d+)", re.ASCII)


class Entry(NamedTuple):
    """A ``key=value``, the positions where it and its value begin, and the value as in ``syntax.Values``."""

    start: int
    value_start: int
    key: str
    value: str | bool | None


class _Reader:
    """An option's value during parsing."""

    def __init__(self, option: str, text: str, forms: Sequence[str]) -> None:
        self.text = text
        self._option = option
        self._forms = forms

    def error(self, position: int, problem: str) -> errors.MalformedError:
        return errors.MalformedError(self._option, self.text, position=position, problem=problem, forms=self._forms)

    def pieces(self, start: int) -> Iterator[tuple[int, str]]:
        """Yield each text between commas, with its position."""
        while start <= len(self.text):
            match = _PIECE.match(self.text, start)
            assert match
            yield start, _ESCAPE.sub(r"\1", match[0])
            start = match.end() + 1

    def values(self, start: int, keys: Sequence[str], *, bare: str = "") -> syntax.Structure:
        """Parse ``key=value,...`` to the end, with booleans for flags.

        ``start`` is the position of the first key; ``bare`` is the key of a first value without a key.
        """
        values: syntax.Structure = {}
        for position, piece in self.pieces(start):
            has_key = "=" in piece or position > start or not bare
            entry = _entry(position, piece) if has_key else Entry(position, position, bare, piece)
            if entry.key not in keys:
                problem = f"unknown key {entry.key!r}" if entry.key else "a key is missing"
                raise self.error(position, f"{problem}; valid keys: {', '.join(keys)}")
            if entry.key in values:
                raise self.error(position, f"{entry.key} is set twice")
            values[entry.key] = self._value(entry)
        return values

    def _value(self, entry: Entry) -> str | bool:
        if entry.key in FLAGS:
            try:
                return syntax.truth(entry.value, name=entry.key)
            except errors.InvalidError as error:
                raise self.error(entry.value_start, error.message) from None
        if entry.value is None and entry.key in REMOVABLE:
            return NONE
        if not isinstance(entry.value, str) or not entry.value:
            raise self.error(entry.value_start, f"{entry.key} has no value")
        if entry.key == "range":
            value = full_range(entry.value)
            self.check_range(entry.value_start, value)
            return value
        return entry.value

    def check_range(self, position: int, value: str) -> None:
        if not _RANGE.fullmatch(value):
            raise self.error(position, f"{value!r} is not an address range")

    def no_action(self) -> errors.MalformedError:
        head = self.text.partition(",")[0]
        position = head.rfind(":") + 1
        return self.error(position, f"{head[position:]!r} is not an action; the actions are add:, modify and remove")


def _entry(start: int, piece: str) -> Entry:
    key, has_value, value = piece.partition("=")
    if has_value:
        return Entry(start, start + len(key) + 1, key, value)
    end = start + len(piece)
    if key.startswith("no_"):
        return Entry(start, end, key.removeprefix("no_"), False)
    return Entry(start, end, key.removeprefix("-"), None if key.startswith("-") else True)


def full_range(text: str) -> str:
    """Return a range with its whole last address: 192.0.2.30-40 is 192.0.2.30-192.0.2.40."""
    match = _SHORT_RANGE.fullmatch(text)
    return f"{match[1]}.{match[2]}-{match[1]}.{match[3]}" if match else text


def ranges(text: str) -> list[str]:
    """Parse addresses and ranges that are separated by commas."""
    return [full_range(word) for word in syntax.words(text)]


def subnet(text: str) -> syntax.Structure:
    """Parse a subnet of a new network; the prefix ``add:`` may be omitted."""
    return _added_subnet(_Reader("--subnet", text, ADD_SUBNET))


def _added_subnet(reader: _Reader) -> syntax.Structure:
    start = 4 if reader.text.startswith("add:") else 0
    values = reader.values(start, SUBNET_KEYS, bare="cidr" if _CIDR.match(reader.text, start) else "")
    if "cidr" not in values:
        raise reader.error(len(reader.text), "the subnet has no cidr")
    return values


def subnet_change(text: str) -> syntax.Structure:
    """Parse an action on the subnets of a network."""
    reader = _Reader("--subnet", text, CHANGE_SUBNET)
    if match := _ACTION.match(text):
        return _action(reader, match, ("cidr", "gateway", "dhcp", "name"))
    if not text.startswith("add:"):
        raise reader.no_action()
    return {"action": "add", **_added_subnet(reader)}


def _action(reader: _Reader, match: re.Match[str], keys: Sequence[str]) -> syntax.Structure:
    """Return the change or removal of the object before the action."""
    if not match[1]:
        raise reader.error(0, f"the name of the object before :{match[2]} is missing")
    action = {"action": match[2], "ident": match[1]}
    if match[2] == "modify":
        if match.end() == len(reader.text):
            raise reader.error(match.end(), "no value to modify")
        return {**action, **reader.values(match.end() + 1, keys)}
    if match.end() < len(reader.text):
        raise reader.error(match.end(), "remove does not take values")
    return {**action}


def pool(text: str) -> syntax.Structure:
    """Parse a pool of a new network; the prefix ``add:`` may be omitted."""
    return _added_pool(_Reader("--pool", text, ADD_POOL))


def _added_pool(reader: _Reader) -> syntax.Structure:
    start = 4 if reader.text.startswith("add:") else 0
    values = reader.values(start, POOL_KEYS, bare="range")
    ends: syntax.Structure = {key: values.pop(key) for key in ("start", "size", "end") if key in values}
    if len({"range", "subnet"} & values.keys()) + bool(ends) != 1:
        raise reader.error(start, "give either a range or a subnet of the pool")
    return {**values, "range": _ends(reader, ends)} if ends else values


def _ends(reader: _Reader, ends: syntax.Structure) -> syntax.Structure:
    size = str(ends.get("size", ""))
    if "start" not in ends or (size and not size.isdecimal()):
        key = "size=" if "start" in ends else ""
        raise reader.error(max(reader.text.find(key), 0), "a range needs start=ADDRESS, and size=COUNT or end=ADDRESS")
    return {**ends, "size": int(size)} if size else ends


def pool_change(text: str) -> syntax.Structure:
    """Parse an action on the pools of a network."""
    reader = _Reader("--pool", text, CHANGE_POOL)
    if match := _ACTION.match(text):
        return _action(reader, match, ("name",))
    if text.startswith("add:"):
        return {"action": "add", **_added_pool(reader)}
    if not text.startswith("remove:"):
        raise reader.no_action()
    (_, removed), *more = reader.pieces(len("remove:"))
    if not removed or more:
        raise reader.error(more[0][0] - 1 if more else len(text), "remove: takes exactly one range")
    removed = full_range(removed)
    reader.check_range(len("remove:"), removed)
    return {"action": "remove", "range": removed}

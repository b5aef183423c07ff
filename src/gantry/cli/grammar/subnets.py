"""The grammar of ``--subnet`` and ``--pool``: text becomes the structures that opcodes take. Grammar only, no meaning.

The forms stand below as people are shown them. An identifier may be a CIDR or a range of IPv6 and have colons of its
own, so the action is looked for behind it, and before the first comma. Values are written as in ``syntax``: a backslash
before a comma takes it literally, ``no_dhcp`` is ``dhcp=no``, and ``-gateway`` is ``gateway=none``.

What is not understood raises ``cli.errors.MalformedError``, which shows the text, points at the place and lists the
forms (contracts/networks.md#subnets, contracts/networks.md#pools).
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gantry.cli import errors
from gantry.cli.grammar import syntax

ADD_SUBNET = ("add:cidr=CIDR[,gateway=ADDRESS][,dhcp=yes|no][,name=NAME][,pool]",)
CHANGE_SUBNET = (
    *ADD_SUBNET,
    "IDENT:modify[,cidr=CIDR][,gateway=ADDRESS|none][,dhcp=yes|no][,name=NAME|none]",
    "IDENT:remove          IDENT is a CIDR, a name or a UUID",
)
ADD_POOL = (
    "add:RANGE[,name=NAME]          RANGE is FIRST-LAST, one address or a CIDR",
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

_ABOUT = re.compile(r"([^,=]*):(modify|remove)(?=,|$)")
_PIECE = re.compile(r"(?:\\.|[^,])*", re.DOTALL)
_ESCAPE = re.compile(r"\\([,\\])")
_ADDRESS = r"\s*(?=[^-/]*[.:])[0-9A-Fa-f.:]+(?:%[^-/]*)?\s*"
# What has the form of a range; whether its addresses are any is the master's to say.
_RANGE = re.compile(f"{_ADDRESS}(?:-{_ADDRESS}|/.*)?", re.ASCII)


class Entry(NamedTuple):
    """A ``key=value``, where it and its value begin; ``value`` as ``syntax.Values`` has it."""

    at: int
    behind: int
    key: str
    value: str | bool | None


class _Text:
    """An option's value that is being read."""

    def __init__(self, option: str, text: str, forms: Sequence[str]) -> None:
        self.text = text
        self._option = option
        self._forms = forms

    def fault(self, at: int, what: str) -> errors.MalformedError:
        return errors.MalformedError(self._option, self.text, at=at, what=what, forms=self._forms)

    def pieces(self, start: int) -> Iterator[tuple[int, str]]:
        """Yield what stands between the commas, and where."""
        while start <= len(self.text):
            found = _PIECE.match(self.text, start)
            assert found
            yield start, _ESCAPE.sub(r"\1", found[0])
            start = found.end() + 1

    def values(self, start: int, keys: Sequence[str], *, bare: str = "") -> syntax.Structure:
        """Read ``key=value,...`` to the end, with truth for flags; ``bare`` is the key of a first value without one."""
        found: syntax.Structure = {}
        for at, piece in self.pieces(start):
            entry = _entry(at, piece) if "=" in piece or at > start or not bare else Entry(at, at, bare, piece)
            if entry.key not in keys:
                what = f"there is no {entry.key!r}" if entry.key else "a key is missing"
                raise self.fault(at, f"{what} here, but {', '.join(keys)}")
            if entry.key in found:
                raise self.fault(at, f"{entry.key} is given twice")
            found[entry.key] = self._value(entry)
        return found

    def _value(self, entry: Entry) -> str | bool:
        if entry.key in FLAGS:
            try:
                return syntax.truth(entry.value, name=entry.key)
            except errors.InvalidError as error:
                raise self.fault(entry.behind, error.message) from None
        if entry.value is None and entry.key in REMOVABLE:
            return NONE
        if not isinstance(entry.value, str) or not entry.value:
            raise self.fault(entry.behind, f"{entry.key} has no value")
        if entry.key == "range":
            self.check_range(entry.behind, entry.value)
        return entry.value

    def check_range(self, at: int, value: str) -> None:
        if not _RANGE.fullmatch(value):
            raise self.fault(at, f"{value!r} is no range")

    def no_action(self) -> errors.MalformedError:
        head = self.text.partition(",")[0]
        at = head.rfind(":") + 1
        return self.fault(at, f"{head[at:]!r} is no action, as add:, modify and remove are")


def _entry(at: int, piece: str) -> Entry:
    key, has_value, value = piece.partition("=")
    if has_value:
        return Entry(at, at + len(key) + 1, key, value)
    behind = at + len(piece)
    if key.startswith("no_"):
        return Entry(at, behind, key.removeprefix("no_"), False)
    return Entry(at, behind, key.removeprefix("-"), None if key.startswith("-") else True)


def subnet(text: str) -> syntax.Structure:
    """Parse a subnet of a network to be; ``add:`` in front may be left out."""
    return _added_subnet(_Text("--subnet", text, ADD_SUBNET))


def _added_subnet(given: _Text) -> syntax.Structure:
    values = given.values(4 if given.text.startswith("add:") else 0, SUBNET_KEYS)
    if "cidr" not in values:
        raise given.fault(len(given.text), "the subnet has no cidr")
    return values


def subnet_change(text: str) -> syntax.Structure:
    """Parse an action on the subnets of a network."""
    given = _Text("--subnet", text, CHANGE_SUBNET)
    found = _ABOUT.match(text)
    if found:
        return _about(given, found, ("cidr", "gateway", "dhcp", "name"))
    if not text.startswith("add:"):
        raise given.no_action()
    return {"action": "add", **_added_subnet(given)}


def _about(given: _Text, found: re.Match[str], keys: Sequence[str]) -> syntax.Structure:
    """Return a change or the removal of what stands before the action."""
    if not found[1]:
        raise given.fault(0, "it does not say which one")
    named = {"action": found[2], "ident": found[1]}
    if found[2] == "modify":
        if found.end() == len(given.text):
            raise given.fault(found.end(), "there is nothing to modify")
        return {**named, **given.values(found.end() + 1, keys)}
    if found.end() < len(given.text):
        raise given.fault(found.end(), "nothing follows remove")
    return {**named}


def pool(text: str) -> syntax.Structure:
    """Parse a pool of a network to be; ``add:`` in front may be left out."""
    return _added_pool(_Text("--pool", text, ADD_POOL))


def _added_pool(given: _Text) -> syntax.Structure:
    start = 4 if given.text.startswith("add:") else 0
    values = given.values(start, POOL_KEYS, bare="range")
    ends: syntax.Structure = {key: values.pop(key) for key in ("start", "size", "end") if key in values}
    if len({"range", "subnet"} & values.keys()) + bool(ends) != 1:
        raise given.fault(start, "a pool is a range or a subnet, one of them")
    return {**values, "range": _ends(given, ends)} if ends else values


def _ends(given: _Text, ends: syntax.Structure) -> syntax.Structure:
    size = str(ends.get("size", ""))
    if "start" not in ends or (size and not size.isdecimal()):
        key = "size=" if "start" in ends else ""
        raise given.fault(max(given.text.find(key), 0), "a range has start=ADDRESS, and size=COUNT or end=ADDRESS")
    return {**ends, "size": int(size)} if size else ends


def pool_change(text: str) -> syntax.Structure:
    """Parse an action on the pools of a network."""
    given = _Text("--pool", text, CHANGE_POOL)
    found = _ABOUT.match(text)
    if found:
        return _about(given, found, ("name",))
    if text.startswith("add:"):
        return {"action": "add", **_added_pool(given)}
    if not text.startswith("remove:"):
        raise given.no_action()
    (_, removed), *more = given.pieces(len("remove:"))
    if not removed or more:
        raise given.fault(more[0][0] - 1 if more else len(text), "remove: is followed by a range and nothing else")
    given.check_range(len("remove:"), removed)
    return {"action": "remove", "range": removed}

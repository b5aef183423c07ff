"""Filters as people type them become the prefix lists that queries take (contracts/query.md#text-filters).

    expression   conjunction ("or" conjunction)*
    conjunction  negation ("and" negation)*
    negation     "not" negation | "(" expression ")" | condition
    condition    field | field OPERATOR value | value ["not"] "in" field
    OPERATOR     == = != < <= > >=   =~ !~ (m/re/flags)   =* !* (glob)
    value        number or quoted text

A field alone asks whether it is true. ``and`` and ``or`` of many parts become one list, so that long filters stay flat.
"""

import re
from collections.abc import Callable, Sequence

from gantry.cli import errors

Filter = list[object]

CHARACTERS = frozenset("()[]{}<>=!~/'\"\\ \t")
"""One of these makes a list command's only argument a filter."""

TOKEN = re.compile(
    r"""\s*(?:
    (?P<operator> == | =~ | =\* | != | !~ | !\* | <= | >= | [=<>()] )
    | (?P<regex> m (?P<edge> [/\#^|] ) (?P<pattern> (?:\\.|(?!(?P=edge)).)* ) (?P=edge) (?P<flags> [a-z]* ) )
    | (?P<text> "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )
    | (?P<number> -?\d+ (?:\.\d+)? (?![\w.]) )
    | (?P<word> [A-Za-z_] [\w./]* )
    )""",
    re.VERBOSE | re.DOTALL,
)
COMPARISONS = ("=", "==", "!=", "<", "<=", ">", ">=")


def looks_like(arguments: Sequence[str]) -> bool:
    """Tell whether the arguments of a list command are a filter rather than names."""
    return len(arguments) == 1 and not CHARACTERS.isdisjoint(arguments[0])


def glob(field: str, pattern: str) -> Filter:
    """Match names with ``*`` and ``?``; a host name matches without its domain too."""
    body = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return ["=~", field, rf"^{body}(\..*)?$"]


def any_of(field: str, values: Sequence[str | int], *, operator: str = "=") -> Filter | None:
    """Choose what has one of the values; nothing is chosen by no values, so there is no filter for it."""
    return ["|", *([operator, field, value] for value in values)] if values else None


def all_of(*parts: Filter | None) -> Filter | None:
    """Join filters; None lets everything pass."""
    given = [part for part in parts if part is not None]
    return given[0] if len(given) == 1 else ["&", *given] if given else None


def parse(text: str) -> Filter:
    """Parse a filter; raises CommandError that shows the place."""
    parser = _Parser(text)
    result = parser.expression()
    if parser.kind != "end":
        raise parser.error("the end, and, or")
    return result


class _Parser:
    """Recursive descent; ``kind`` and ``token`` are what comes next."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._start = 0
        self.kind = ""
        self.token = ""
        self._match: re.Match[str] | None = None
        self._advance()

    def error(self, wanted: str) -> errors.CommandError:
        seen = repr(self.token) if self.token else "the end"
        return errors.CommandError(
            f"the filter is not understood at character {self._start + 1}: {seen} where {wanted} should be",
            hint='write it like \'status == "running" and not "web" in tags\'',
        )

    def expression(self) -> Filter:
        return self._chain("or", "|", self._conjunction)

    def _conjunction(self) -> Filter:
        return self._chain("and", "&", self._negation)

    def _chain(self, word: str, operator: str, part: Callable[[], Filter]) -> Filter:
        parts = [part()]
        while self._take("word", word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else [operator, *parts]

    def _negation(self) -> Filter:
        if self._take("word", "not"):
            return ["!", self._negation()]
        if self._take("operator", "("):
            inner = self.expression()
            if not self._take("operator", ")"):
                raise self.error("a closing bracket")
            return inner
        return self._condition()

    def _condition(self) -> Filter:
        if self.kind in ("text", "number"):
            value = self._value()
            negated = self._take("word", "not")
            if not self._take("word", "in"):
                raise self.error("in")
            contains: Filter = ["=[]", self._field(), value]
            return ["!", contains] if negated else contains
        field = self._field()
        operator = self.token if self.kind == "operator" else ""
        if operator in COMPARISONS:
            self._advance()
            return [operator, field, self._value()]
        if operator in ("=~", "!~", "=*", "!*"):
            self._advance()
            found: Filter = ["=~", field, self._regex()] if operator[1] == "~" else glob(field, self._quoted())
            return ["!", found] if operator[0] == "!" else found
        return ["?", field]

    def _field(self) -> str:
        if self.kind != "word" or self.token in ("and", "or", "not", "in"):
            raise self.error("a field or a quoted value")
        return self._pass()

    def _value(self) -> str | int | float:
        if self.kind == "number":
            token = self._pass()
            return float(token) if "." in token else int(token)
        return self._quoted()

    def _quoted(self) -> str:
        if self.kind != "text":
            raise self.error("a number or a quoted text")
        return re.sub(r"\\(.)", r"\1", self._pass()[1:-1], flags=re.DOTALL)

    def _regex(self) -> str:
        if self.kind == "text":
            return self._quoted()
        if self.kind != "regex" or self._match is None:
            raise self.error("a regular expression like m/web.*/i")
        pattern, flags, edge = self._match["pattern"], self._match["flags"], self._match["edge"]
        self._advance()
        pattern = pattern.replace("\\" + edge, edge)
        try:
            re.compile(f"(?{flags}:{pattern})" if flags else pattern)
        except re.error as error:
            raise errors.CommandError(f"{pattern!r} is no regular expression: {error}") from None
        return f"(?{flags}:{pattern})" if flags else pattern

    def _take(self, kind: str, token: str) -> bool:
        if self.kind == kind and self.token == token:
            self._advance()
            return True
        return False

    def _pass(self) -> str:
        token = self.token
        self._advance()
        return token

    def _advance(self) -> None:
        rest = self._text[self._position :]
        self._start = self._position + len(rest) - len(rest.lstrip())
        self._match = TOKEN.match(self._text, self._position)
        if self._match is None:
            self.kind, self.token = ("fault", rest.strip()) if rest.strip() else ("end", "")
            return
        kinds = ("operator", "regex", "text", "number", "word")
        self.kind = next(kind for kind in kinds if self._match[kind] is not None)
        self.token = self._match[self.kind]
        self._position = self._match.end()

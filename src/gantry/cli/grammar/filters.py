"""The grammar of text filters, which become the prefix lists of queries (contracts/query.md#text-filters).

    expression   conjunction ("or" conjunction)*
    conjunction  negation ("and" negation)*
    negation     "not" negation | "(" expression ")" | condition
    condition    field | field OPERATOR value | value ["not"] "in" field
    OPERATOR     == = != < <= > >=   =~ !~ (m/re/flags)   =* !* (glob)
    value        number or quoted text

A field alone matches if its value is true. Chains of ``and`` and of ``or`` become one list, so that long filters are
not nested deeply.
"""

import re
from collections.abc import Callable, Sequence

from gantry.cli import errors

Filter = list[object]

CHARACTERS = frozenset("()[]{}<>=!~/'\"\\ \t")
"""A single argument of a list command with one of these characters is a filter."""

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
    """Return whether the arguments of a list command are a filter rather than names."""
    return len(arguments) == 1 and not CHARACTERS.isdisjoint(arguments[0])


def glob(field: str, pattern: str) -> Filter:
    """Return a filter for names that match a pattern with ``*`` and ``?``; the domain may be omitted."""
    body = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return ["=~", field, rf"^{body}(\..*)?$"]


def any_of(field: str, values: Sequence[str | int], *, operator: str = "=") -> Filter | None:
    """Return a filter for objects with one of the values; None if there are no values."""
    return ["|", *([operator, field, value] for value in values)] if values else None


def all_of(*parts: Filter | None) -> Filter | None:
    """Return the conjunction of filters; None matches everything."""
    conditions = [part for part in parts if part is not None]
    return conditions[0] if len(conditions) == 1 else ["&", *conditions] if conditions else None


def parse(text: str) -> Filter:
    """Parse a filter; raises CommandError with the position of a syntax error."""
    parser = _Parser(text)
    result = parser.expression()
    if parser.kind != "end":
        raise parser.error("'and', 'or' or the end")
    return result


class _Parser:
    """A recursive descent parser; ``kind`` and ``token`` describe the next token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._start = 0
        self.kind = ""
        self.token = ""
        self._match: re.Match[str] | None = None
        self._advance()

    def error(self, expected: str) -> errors.CommandError:
        token = repr(self.token) if self.token else "the end"
        return errors.CommandError(
            f"syntax error in the filter at character {self._start + 1}: expected {expected}, got {token}",
            hint='write a filter like \'status == "running" and not "web" in tags\'',
        )

    def expression(self) -> Filter:
        return self._chain("or", "|", self._conjunction)

    def _conjunction(self) -> Filter:
        return self._chain("and", "&", self._negation)

    def _chain(self, word: str, operator: str, part: Callable[[], Filter]) -> Filter:
        parts = [part()]
        while self._skip("word", word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else [operator, *parts]

    def _negation(self) -> Filter:
        if self._skip("word", "not"):
            return ["!", self._negation()]
        if self._skip("operator", "("):
            inner = self.expression()
            if not self._skip("operator", ")"):
                raise self.error("a closing bracket")
            return inner
        return self._condition()

    def _condition(self) -> Filter:
        if self.kind in ("text", "number"):
            value = self._value()
            negated = self._skip("word", "not")
            if not self._skip("word", "in"):
                raise self.error("'in'")
            contains: Filter = ["=[]", self._field(), value]
            return ["!", contains] if negated else contains
        field = self._field()
        operator = self.token if self.kind == "operator" else ""
        if operator in COMPARISONS:
            self._advance()
            return [operator, field, self._value()]
        if operator in ("=~", "!~", "=*", "!*"):
            self._advance()
            match: Filter = ["=~", field, self._regex()] if operator[1] == "~" else glob(field, self._quoted())
            return ["!", match] if operator[0] == "!" else match
        return ["?", field]

    def _field(self) -> str:
        if self.kind != "word" or self.token in ("and", "or", "not", "in"):
            raise self.error("a field or a quoted value")
        return self._next()

    def _value(self) -> str | int | float:
        if self.kind == "number":
            token = self._next()
            return float(token) if "." in token else int(token)
        return self._quoted()

    def _quoted(self) -> str:
        if self.kind != "text":
            raise self.error("a number or a quoted text")
        return re.sub(r"\\(.)", r"\1", self._next()[1:-1], flags=re.DOTALL)

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
            raise errors.CommandError(f"{pattern!r} is not a regular expression: {error}") from None
        return f"(?{flags}:{pattern})" if flags else pattern

    def _skip(self, kind: str, token: str) -> bool:
        if self.kind == kind and self.token == token:
            self._advance()
            return True
        return False

    def _next(self) -> str:
        token = self.token
        self._advance()
        return token

    def _advance(self) -> None:
        remaining = self._text[self._position :]
        self._start = self._position + len(remaining) - len(remaining.lstrip())
        self._match = TOKEN.match(self._text, self._position)
        if self._match is None:
            self.kind, self.token = ("fault", remaining.strip()) if remaining.strip() else ("end", "")
            return
        kinds = ("operator", "regex", "text", "number", "word")
        self.kind = next(kind for kind in kinds if self._match[kind] is not None)
        self.token = self._match[self.kind]
        self._position = self._match.end()

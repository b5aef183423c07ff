"""Hostile messages by number: each is drawn from a seed made of a name and the number, so a number repeats it.

A message begins as one that an OpenAPI or JSON schema describes (``Schemas.sample``); most are then spoiled: a value of
another type or beyond every limit, a key twice or too many, bytes cut, changed or repeated, names and queries in odd
percent-encodings. Drawing one takes 0.1 ms, a tenth of what Hypothesis needs; what it cannot do is shrink.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib import parse

Json = dict[str, object]

DEEP = (
    b"[" * 90 + b"]" * 90,
    b"[" * 101 + b"]" * 101,
    b"[" * 5000 + b"]" * 5000,
    b"[" * 50_000,
    b'{"a":' * 3000 + b"1",
)
NUMBERS = (
    b"1e999",
    b"-1e999",
    b"1e308",
    b"-0.0",
    b"0.1",
    b"1e-400",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"2147483648",
    b"-1",
    b"0",
    b"1",
    b"65536",
    b"9" * 19,
    b"9" * 39,
    b"9" * 300,
    b"9" * 400,
    b"9" * 4400,
    b"1." + b"9" * 400,
)
STRINGS = (
    b'"\\ud800"',
    b'"\\u0000"',
    b'"\\uffff"',
    b'"\xff"',
    b'"\\"',
    b'"' + b"a" * 70_000 + b'"',
    b'"%s%n{0}{x}"',
    b'""',
    b'" "',
    b'"../../etc/passwd"',
    b'"' + b"9" * 4400 + b'"',
    b'"\xf0\x9f\xa6\x86"',
    b'"1\\n2"',
    b'"true"',
    b'"NaN"',
    b'"\\u0000\\ud83e\\udd86"',
)
LITERALS = (
    b"null",
    b"true",
    b"false",
    b"NaN",
    b"Infinity",
    b"[]",
    b"{}",
    b"",
    b"]",
    b'{"a":1,"a":2}',
    b'{"":{}}',
    b"[null]",
    b"[[]]",
    b"[{}]",
)
YAML = (
    b"!!int one",
    b"!!timestamp one",
    b"!!binary AAAA",
    b"&a [*a]",
    b".inf",
    b"0x" + b"f" * 5000,
    b"59:" * 2000 + b"1",
    b"2026-01-01",
    b"{<<: [1]}",
)
TOKENS = (*NUMBERS, *STRINGS, *LITERALS, *DEEP, *YAML)

TEXTS = (
    "",
    " ",
    "0",
    "1",
    "-1",
    "9" * 18,
    "9" * 19,
    "9" * 4400,
    "1e9",
    "%00",
    "%",
    "%ff",
    "%zz",
    "%2e%2e",
    "..",
    "a%2Fb",
    "a/b",
    "*",
    "node1",
    "vm1",
    "net1",
    "default",
    "x" * 300,
    "x" * 5000,
    "%D9%A3",
    "%F0%9F%A6%86",
    "%ED%A0%80",
    "true",
    "null",
    "None",
    "[",
    "a,b",
    "a=b",
    "a in (b",
    "!",
    "name",
    "0x1f",
    "192.0.2.0/24",
    "2001:db8::1",
    "192.0.2.999",
    "fe80::1%25eth0",
    "11111111-1111-1111-1111-111111111111",
    "%0d%0a",
    "application/json;as=Table",
    "metadata.name%3Da",
    "a%20in%20(b)",
    "YQ==",
    "{}",
    "{0.__class__}",
    "$(id)",
    "All",
    "1;2",
    "+",
)
KEYS = ("a\0b", "a\r\nX-Injected: b", "\x7f")
"""Keys of objects, which may have what no URL has."""

HEADER_VALUES = (
    "",
    " ",
    "*/*",
    "application/json",
    "application/yaml",
    "text/html",
    "a/b;q=x",
    ";;;,,,=",
    "*/*;q=1e999",
    "x" * 8000,
    "é",
    "�",
    "application/json;charset=utf-16",
    "multipart/form-data",
    '"1-2"',
    "W/*",
    "*",
    "Basic",
    "Basic !",
    "Basic Og==",
    "Basic /w==",
    "Bearer x",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "9" * 4400,
)


class Chance(random.Random):
    """Random choices of one message."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(f"{name}:{number}")

    def one_in(self, count: int) -> bool:
        return self.randrange(count) == 0


@dataclass(frozen=True)
class Raw:
    """Bytes in the place of a JSON value."""

    token: bytes


@dataclass
class Schemas:
    """Values that JSON schemas describe; ``known`` are texts that mean something to the server.

    ``fitting`` has texts for the properties of these names.
    """

    definitions: Mapping[str, object]
    known: Sequence[str] = ("node1", "vm1", "net1", "default")
    prefix: str = "#/components/schemas/"
    fitting: Mapping[str, Sequence[object]] = field(default_factory=dict)

    def sample(self, chance: Chance, schema: object, depth: int = 0) -> object:
        """Return a value that fits, or nearly fits, a schema."""
        if not isinstance(schema, dict) or depth > 6:
            return chance.choice(self.known)
        if "$ref" in schema:
            name = str(schema["$ref"]).removeprefix(self.prefix).removeprefix("#/$defs/")
            return self.sample(chance, self.definitions.get(name), depth + 1)
        for several in ("anyOf", "oneOf", "allOf"):
            if several in schema and "type" not in schema:
                return self.sample(chance, chance.choice(schema[several]), depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return chance.choice(schema["enum"])
        return self._of_type(chance, schema, depth)

    def _of_type(self, chance: Chance, schema: Json, depth: int) -> object:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = chance.choice(kind)
        match kind:
            case "object":
                return self._object(chance, schema, depth)
            case "array" if isinstance(schema.get("prefixItems"), list):
                return [self.sample(chance, item, depth + 1) for item in schema["prefixItems"]]  # type: ignore[attr-defined]
            case "array":
                count = chance.choice((0, 1, 1, 2, 3))
                return [self.sample(chance, schema.get("items"), depth + 1) for _ in range(count)]
            case "integer" | "number":
                return chance.choice((0, 1, 2, 4, 64, 128, 1024, -1))
            case "boolean":
                return chance.one_in(2)
            case "null":
                return None
        return chance.choice(self.known)

    def _object(self, chance: Chance, schema: Json, depth: int) -> Json:
        properties = schema.get("properties")
        value: Json = {}
        if isinstance(properties, dict):
            required = schema.get("required", [])
            for name, inner in properties.items():
                if (isinstance(required, list) and name in required) or chance.one_in(4 + len(properties) // 4):
                    fits = self.fitting.get(name) if not chance.one_in(4) else None
                    value[name] = chance.choice(fits) if fits else self.sample(chance, inner, depth + 1)
        inner = schema.get("additionalProperties")
        if isinstance(inner, dict) and chance.one_in(2):
            value[chance.choice(self.known)] = self.sample(chance, inner, depth + 1)
        return value


def spoiled(chance: Chance, value: object) -> object:
    """Replace one part of a value by a token that hardly any parser expects."""
    if isinstance(value, dict) and value and not chance.one_in(4):
        key = chance.choice(list(value))
        return {**value, key: spoiled(chance, value[key])}
    if isinstance(value, list) and value and not chance.one_in(4):
        index = chance.randrange(len(value))
        return [*value[:index], spoiled(chance, value[index]), *value[index + 1 :]]
    if isinstance(value, dict) and chance.one_in(3):
        return {**value, chance.choice(KEYS if chance.one_in(2) else TEXTS): Raw(chance.choice(TOKENS))}
    return Raw(chance.choice(TOKENS))


def encoded(value: object) -> bytes:
    """Return a value with its raw tokens as JSON."""
    tokens: list[bytes] = []

    def placed(inner: object) -> object:
        if isinstance(inner, Raw):
            tokens.append(inner.token)
            return f"\ue000{len(tokens) - 1}\ue000"
        if isinstance(inner, dict):
            return {key: placed(item) for key, item in inner.items()}
        return [placed(item) for item in inner] if isinstance(inner, list) else inner

    data = json.dumps(placed(value), ensure_ascii=False).encode(errors="replace")
    for index, token in enumerate(tokens):
        data = data.replace(f'"\ue000{index}\ue000"'.encode(), token)
    return data


def edited(chance: Chance, data: bytes) -> bytes:
    """Return bytes with a part cut, changed, repeated or inserted."""
    if not data:
        return bytes(chance.randrange(256) for _ in range(chance.randrange(30)))
    first, second = sorted((chance.randrange(len(data)), chance.randrange(len(data) + 1)))
    match chance.randrange(6):
        case 0:
            return data[:first]
        case 1:
            return data[:first] + bytes([data[first] ^ (1 << chance.randrange(8))]) + data[first + 1 :]
        case 2:
            return data[:second] + data[first:]
        case 3:
            return data[:first] + chance.choice(TOKENS) + data[first:]
        case 4:
            return data[:first] + data[min(second, first + 10) :]
    return data[:first] + bytes(chance.randrange(256) for _ in range(8)) + data[first:]


def body(chance: Chance, value: object) -> bytes:
    """Return the JSON of a value, spoiled in most cases."""
    match chance.randrange(10):
        case 0 | 1 | 2:
            return encoded(value)
        case 3 | 4 | 5 | 6:
            return encoded(spoiled(chance, value))
        case 7:
            return encoded(spoiled(chance, spoiled(chance, value)))
        case 8:
            return edited(chance, encoded(value))
    return chance.choice(TOKENS)


def text(chance: Chance, known: Sequence[str]) -> str:
    """Return a part of a URL, mostly one that is known."""
    return parse.quote(chance.choice(known), safe="") if known and not chance.one_in(6) else chance.choice(TEXTS)


def query(chance: Chance, names: Sequence[str], known: Sequence[str]) -> str:
    """Return a query, mostly with the names that the server reads."""
    match chance.randrange(24):
        case 0:
            return "?" + "&".join(f"{chance.choice(names or ['a'])}=1" for _ in range(1500))
        case 1:
            return "?" + chance.choice(("&&&", "=", "a=b=c;d", "%", "%00=%00", "%ff=%ff", "a" * 7000, "a&a=1&a="))
        case choice if choice < 10 or not names:
            return ""
    pairs = (f"{chance.choice(names)}={text(chance, known)}" for _ in range(chance.choice((1, 1, 1, 2, 3))))
    return "?" + "&".join(pairs)


def headers(chance: Chance, names: Sequence[str]) -> dict[str, str]:
    """Return odd headers, mostly none."""
    if not chance.one_in(4):
        return {}
    return {chance.choice(names): chance.choice(HEADER_VALUES) for _ in range(chance.choice((1, 1, 2)))}

"""Documents on stdout: indented ``key: value`` text for people, which is also YAML.

This module formats YAML itself because the standard library does not; a test loads the text with a YAML library.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence

# Text that YAML loads without quotes: it does not begin with an indicator, and does not contain one that ends it.
PLAIN = re.compile(r"[A-Za-z0-9_/.(](?:[\w./@%+*(),=;~ -]|:(?! |$))*(?<! )", re.ASCII)
# Plain scalars that YAML 1.1 or 1.2 resolves to another type than text.
RESOLVED = re.compile(
    r"""(?ix) true|false|yes|no|on|off|null|none|y|n
    | [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])*(?:\.[0-9_]*)?(?:e[-+]?[0-9]+)? | [-+]?\.[0-9_]+(?:e[-+]?[0-9]+)?
    | [-+]?0x[0-9a-f_]+ | [-+]?0[bo][0-7_]+ | [-+]?\.(?:inf|nan) | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*"""
)
# Characters that JSON strings may contain, but that YAML forbids or treats as line breaks.
UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")


class Verbatim(str):
    """Text without quotes although YAML loads it as another type, such as a time."""


def document(value: object) -> str:
    """Return a value as a YAML document."""
    return "\n".join(_lines(value))


def moment(value: object) -> Verbatim:
    """Return a time as text: from seconds since the epoch, or a job's pair of seconds and microseconds; else N/A."""
    match value:
        case [int(seconds), int(micro)]:
            return Verbatim(f"{clock(seconds)}.{micro:06d}")
        case int() | float():
            return Verbatim(clock(value))
    return Verbatim("N/A")


def clock(seconds: float) -> str:
    """Return seconds since the epoch as local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def minute(value: object) -> Verbatim:
    """Return a time as text without its seconds, for narrow tables."""
    return Verbatim(moment(value)[: len("2026-05-04 13:00")])


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _entry(f"{scalar(key)}:", inner)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for inner in value:
            if _is_nested(inner):
                first, *rest = _lines(inner)
                yield f"- {first}"
                yield from (f"  {line}" for line in rest)
            else:
                yield f"- {scalar(inner)}"
    else:
        yield scalar(value)


def _entry(key: str, value: object) -> Iterator[str]:
    if _is_nested(value):
        yield key
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{key} {scalar(value)}"


def _is_nested(value: object) -> bool:
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str) and len(value) > 0


def scalar(value: object) -> str:
    """Return a single value, or an empty list or mapping, as YAML."""
    if isinstance(value, str) and not isinstance(value, Verbatim):
        return value if PLAIN.fullmatch(value) and not RESOLVED.fullmatch(value) else _quoted(value)
    if value is None:
        return "null"
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        return "{}" if isinstance(value, Mapping) else "[]"
    return str(value)


def _quoted(text: str) -> str:
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))

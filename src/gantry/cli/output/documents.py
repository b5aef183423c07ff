"""Documents on stdout: indented ``key: value`` text that people read and YAML loads.

Written by hand because the standard library has no YAML; the test holds it against a real one.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence

# Plain text that YAML takes as it stands: no indicator in front, and inside none that ends it.
PLAIN = re.compile(r"[A-Za-z0-9_/.(](?:[\w./@%+*(),=;~ -]|:(?! |$))*(?<! )", re.ASCII)
# What YAML 1.1 and 1.2 take for something else than text.
RESOLVED = re.compile(
    r"""(?ix) true|false|yes|no|on|off|null|none|y|n
    | [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])*(?:\.[0-9_]*)?(?:e[-+]?[0-9]+)? | [-+]?\.[0-9_]+(?:e[-+]?[0-9]+)?
    | [-+]?0x[0-9a-f_]+ | [-+]?0[bo][0-7_]+ | [-+]?\.(?:inf|nan) | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*"""
)
# Allowed in JSON texts but not in YAML, or taken for the end of a line there.
UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")


class Verbatim(str):
    """Text that is shown without quotes although YAML takes it for something else, like a time."""


def document(value: object) -> str:
    """Return a value as a document."""
    return "\n".join(_lines(value))


def moment(value: object) -> Verbatim:
    """Show a time: seconds since the epoch, or the pair of seconds and microseconds of jobs; ``-`` without one."""
    match value:
        case [int(seconds), int(micro)]:
            return Verbatim(f"{clock(seconds)}.{micro:06d}")
        case int() | float():
            return Verbatim(clock(value))
    return Verbatim("N/A")


def clock(seconds: float) -> str:
    """Return local time as text."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def minute(value: object) -> Verbatim:
    """Show a time without its seconds, where a table would be too wide."""
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
    """Return a single value."""
    if isinstance(value, str) and not isinstance(value, Verbatim):
        return value if PLAIN.fullmatch(value) and not RESOLVED.fullmatch(value) else _quoted(value)
    if value is None:
        return "null"
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        return "{}" if isinstance(value, Mapping) else "[]"
    return str(value)


def _quoted(text: str) -> str:
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))

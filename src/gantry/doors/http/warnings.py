"""Warnings in the header of an answer (RFC 7234, section 5.5), with texts that may come from the client.

    Warning: 299 - "unknown field \\"spec.a\\\\x00b\\""

A name in a text is quoted as Go's ``%q`` does it, as other Kubernetes API servers write it, so no text has a control
character, which a header may not have. Long texts are cut, as clients limit the length of headers.
"""

from collections.abc import Iterator, Sequence

from gantry.runtime import http_interface

TEXT_CHARACTERS = 256
"""Of each text, if all together are longer than ``ALL_CHARACTERS``."""
ALL_CHARACTERS = 4096

_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def quoted(text: str) -> str:
    """Return a text in quotes, with everything that is not printable escaped.

    >>> print(quoted('a"b'), quoted("a\\x00\\r\\n\\x7f"), quoted("ä\\u200b"))
    "a\\"b" "a\\x00\\r\\n\\x7f" "ä\\u200b"
    """
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    number = ord(character)
    if character.isprintable():
        return character
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def header(agent: str, texts: Sequence[str]) -> str:
    """Return the value of the header; of many long texts, as many as fit.

    >>> print(header("-", ['unknown field "a"', "b"]))
    299 - "unknown field \\"a\\"", 299 - "b"
    """
    return ", ".join(f'299 {agent} "{_in_quotes(text)}"' for text in _shortened(texts))


def _in_quotes(text: str) -> str:
    return http_interface.header_text(text).replace("\\", "\\\\").replace('"', '\\"')


def _shortened(texts: Sequence[str]) -> Iterator[str]:
    if sum(map(len, texts)) <= ALL_CHARACTERS:
        yield from texts
        return
    characters = 0
    for text in texts:
        yield text[:TEXT_CHARACTERS]
        characters += min(len(text), TEXT_CHARACTERS)
        if characters > ALL_CHARACTERS:
            return

"""PKCS#11 URIs (RFC 7512): where a key is, as one line of text that says it for one token and one module.

The attributes of the path select the token and the key; of the query there is ``module-path`` alone, which must be
given. The PIN is not in the URI: the file with the URI is copied to all master candidates.
"""

import re
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import NamedTuple

SCHEME = "pkcs11:"

TOKEN_ATTRIBUTES = ("token", "manufacturer", "model", "serial")
"""The attributes that select a token; they are compared with what the token says of itself."""

_KEY_ATTRIBUTES = ("object", "id", "type")
_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


class KeyUri(NamedTuple):
    """A private key in a token: the module (a shared library), the attributes of its token, its label and its ID."""

    module: str
    token: Mapping[str, str]
    label: str | None
    id: bytes | None

    def __str__(self) -> str:
        """Return the names of token and key for messages."""
        names = {**self.token, "object": self.label, "id": self.id and "".join(f"%{each:02X}" for each in self.id)}
        return SCHEME + ";".join(f"{name}={value}" for name, value in names.items() if value is not None)


def parse(uri: str) -> KeyUri:
    """Parse a URI; ValueError for one that does not name exactly one module, and a token and a key."""
    if not uri.startswith(SCHEME) or len(uri.split()) != 1 or not uri.isascii():
        raise ValueError("this is not a PKCS#11 URI on one line, with spaces and letters beyond ASCII as %XX")
    path, _, query = uri.removeprefix(SCHEME).partition("?")
    module = _module(_pairs(query.split("&"), ("module-path",)))
    attributes = _pairs(path.split(";"), TOKEN_ATTRIBUTES + _KEY_ATTRIBUTES)
    token = {name: _text(name, attributes[name]) for name in TOKEN_ATTRIBUTES if name in attributes}
    if not token:
        raise ValueError("the PKCS#11 URI names no token: add token=LABEL")
    if attributes.get("type", b"private") != b"private":
        raise ValueError("the PKCS#11 URI names another object than a private key: write type=private, or no type")
    label = _text("object", attributes["object"]) if "object" in attributes else None
    key_id = attributes.get("id")
    if label is None and key_id is None:
        raise ValueError("the PKCS#11 URI names no key: add object=LABEL or id=%XX")
    return KeyUri(module, token, label, key_id)


def _pairs(texts: Iterable[str], known: Iterable[str]) -> dict[str, bytes]:
    pairs: dict[str, bytes] = {}
    for text in filter(None, texts):
        name, _, value = text.partition("=")
        if name in ("pin-value", "pin-source"):
            raise ValueError(f"the PKCS#11 URI has {name}, but the PIN belongs into the file with the secret alone")
        if name not in known:
            raise ValueError(
                f"the PKCS#11 URI has {name!r}, which Gantry does not support there: remove this attribute"
            )
        if name in pairs:
            raise ValueError(f"the PKCS#11 URI has {name} twice")
        if not value or _PERCENT.search(value):
            raise ValueError(f"the PKCS#11 URI has an invalid value of {name}: {value!r}")
        pairs[name] = urllib.parse.unquote_to_bytes(value)
    return pairs


def _text(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueError(f"the PKCS#11 URI has a value of {name} that is not UTF-8: {value!r}") from None


def _module(query: Mapping[str, bytes]) -> str:
    module = _text("module-path", query.get("module-path", b""))
    if not module.startswith("/"):
        raise ValueError("the PKCS#11 URI has no absolute path of the module: end it with ?module-path=/PATH/MODULE.so")
    return module

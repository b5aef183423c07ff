"""The format of answers: JSON or YAML, as the client accepts, and the ETag, which identifies a version.

See contracts/remote-api.md#representation for Accept and ETag. The ETag of an object has its serial number and a digest
of the body, since some fields come from nodes and change while the object does not.
"""

import hashlib
from collections.abc import Sequence

import msgspec
import yaml

JSON = "application/json"
YAML = "application/yaml"

_CONTENT_TYPES = {
    JSON: JSON,
    "application/*": JSON,
    "*/*": JSON,
    YAML: YAML,
    "application/x-yaml": YAML,
    "text/yaml": YAML,
    "text/x-yaml": YAML,
}


def content_type(accept: str) -> str | None:
    """Return the content type for an Accept header, None if it accepts neither JSON nor YAML.

    >>> content_type("text/html, application/yaml;q=0.9, */*;q=0.1")
    'application/yaml'
    """
    if not accept.strip():
        return JSON
    preferences = sorted(map(_preference, accept.split(",")), key=lambda preference: -preference[1])
    return next((_CONTENT_TYPES[kind] for kind, weight in preferences if weight > 0 and kind in _CONTENT_TYPES), None)


def _preference(text: str) -> tuple[str, float]:
    kind, *parameters = (part.strip().lower() for part in text.split(";"))
    weights = [part[2:] for part in parameters if part.startswith("q=")]
    try:
        return kind, float(weights[0]) if weights else 1.0
    except ValueError:
        return kind, 0.0


def encode(value: object, kind: str) -> bytes:
    """Encode a value as JSON or YAML, with a newline at the end."""
    if kind == YAML:
        text: str = yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=True)
        return text.encode()
    return msgspec.json.encode(value) + b"\n"


def tag(body: bytes, version: object) -> str:
    """Return the ETag of a body with an object of this version; None if the body is not a single object."""
    digest = hashlib.sha256(body).hexdigest()[:16]
    return f'"{digest}"' if version is None else f'"{version}-{digest}"'


def is_version(version: object, tags: str) -> bool:
    """Return whether one of the tags of an If-Match header is of this version, with any digest."""
    names = [each.strip().removeprefix("W/").strip('"') for each in tags.split(",")]
    return any(name == "*" or name.partition("-")[0] == str(version) for name in names)


def is_known(own: str, known: Sequence[str]) -> bool:
    """Return whether a tag is among those of an If-None-Match header."""
    names = [each.strip().removeprefix("W/") for each in ",".join(known).split(",")]
    return "*" in names or own in names

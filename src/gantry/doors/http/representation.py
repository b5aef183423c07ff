"""How an answer is written: JSON or YAML as the client accepts, and the tag that names its version.

Accept and ETag are those of contracts/remote-api.md#representation. The tag of an object is its serial number and a
digest of what is sent, since some fields come from nodes and change without the object.
"""

import hashlib
from collections.abc import Sequence

import msgspec
import yaml

JSON = "application/json"
YAML = "application/yaml"

_WRITERS = {
    JSON: JSON,
    "application/*": JSON,
    "*/*": JSON,
    YAML: YAML,
    "application/x-yaml": YAML,
    "text/yaml": YAML,
    "text/x-yaml": YAML,
}


def chosen(accept: str) -> str | None:
    """Return the content type for an Accept header, None when it asks for nothing that we write.

    >>> chosen("text/html, application/yaml;q=0.9, */*;q=0.1")
    'application/yaml'
    """
    if not accept.strip():
        return JSON
    wanted = sorted((_preference(one) for one in accept.split(",")), key=lambda one: -one[1])
    return next((_WRITERS[kind] for kind, weight in wanted if weight > 0 and kind in _WRITERS), None)


def _preference(text: str) -> tuple[str, float]:
    kind, *parameters = (part.strip().lower() for part in text.split(";"))
    weights = [part[2:] for part in parameters if part.startswith("q=")]
    try:
        return kind, float(weights[0]) if weights else 1.0
    except ValueError:
        return kind, 0.0


def written(value: object, kind: str) -> bytes:
    """Return a value in one of our content types, with a newline at its end."""
    if kind == YAML:
        text: str = yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=True)
        return text.encode()
    return msgspec.json.encode(value) + b"\n"


def tag(body: bytes, version: object) -> str:
    """Return the ETag of a body that shows an object of this version (None: no one object)."""
    digest = hashlib.sha256(body).hexdigest()[:16]
    return f'"{digest}"' if version is None else f'"{version}-{digest}"'


def is_version(version: object, wanted: str) -> bool:
    """Tell whether one of the tags of an If-Match header is of this version, whatever else it stands for."""
    names = [one.strip().removeprefix("W/").strip('"') for one in wanted.split(",")]
    return any(one == "*" or one.partition("-")[0] == str(version) for one in names)


def is_known(own: str, known: Sequence[str]) -> bool:
    """Tell whether a tag is among those of an If-None-Match header."""
    names = [one.strip().removeprefix("W/") for one in ",".join(known).split(",")]
    return "*" in names or own in names

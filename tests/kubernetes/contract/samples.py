"""The manifests of ``tests/kubernetes/samples``, in the namespace of a test."""

import json
from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml
from tests.kubernetes.apiserver import api

HERE = Path(__file__).parent.parent / "samples"
SITE = "site-a"


class Invalid(NamedTuple):
    """A manifest that must be rejected: by which layer, with which message."""

    layer: str
    expect: str
    body: api.Json


def names(folder: str) -> list[str]:
    return sorted(path.stem for path in (HERE / folder).glob("*.yaml"))


def valid(name: str, namespace: str) -> list[api.Json]:
    return _documents((HERE / f"valid/{name}.yaml").read_text(), namespace)


def design(name: str, namespace: str, **uids: str) -> list[api.Json]:
    """Return objects of Metal3's design, with the UIDs of their owners by kind (samples/design/README.md)."""
    documents = _documents((HERE / f"design/{name}.yaml").read_text(), namespace)
    for document in documents:
        metadata = document["metadata"]
        assert isinstance(metadata, dict)
        for owner in metadata.get("ownerReferences", []):
            owner["uid"] = uids[owner["kind"]]
    return documents


def expected(name: str, namespace: str) -> dict[str, dict[str, object]]:
    (document,) = _documents((HERE / f"expected/{name}.yaml").read_text(), namespace)
    return {key: value for key, value in document.items() if isinstance(value, dict)}


def expected_text(name: str, namespace: str) -> api.Json:
    """Parse rendered data, as YAML."""
    return msgspec.convert(yaml.safe_load((HERE / f"expected/{name}").read_text().replace(SITE, namespace)), api.Json)


def invalid(name: str, namespace: str) -> Invalid:
    text = (HERE / f"invalid/{name}.yaml").read_text()
    answer = dict(line.removeprefix("# ").split(": ", 1) for line in text.splitlines() if line.startswith("# "))
    (body,) = _documents(text, namespace)
    return Invalid(answer["layer"], answer["expect"], body)


def _documents(text: str, namespace: str) -> list[api.Json]:
    documents = list(yaml.safe_load_all(text.replace(SITE, namespace)))
    return [msgspec.convert(json.loads(json.dumps(document)), api.Json) for document in documents]

"""Hand-made configurations of the old lineage, and single changes of them."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent.parent / "samples"
V2 = (FOLDER / "config-2.0.json").read_bytes()
V3 = (FOLDER / "config-3.0.json").read_bytes()


def put(data: bytes, path: Sequence[str], value: object) -> bytes:
    """Return a configuration with another value at a path."""
    tree = parent = msgspec.json.decode(data)
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    return msgspec.json.encode(tree)

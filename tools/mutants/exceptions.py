"""The mutants that may survive, each with the reason: ``tools/mutants/survivors.toml``.

A mutant is named by its file and scope and the text of its lines before and after, so that an entry stays valid
wherever the lines move to, and ends when they change.
"""

import tomllib
from pathlib import Path

import msgspec

Key = tuple[str, str, str]

FILE = Path(__file__).with_name("survivors.toml")


class Survivor(msgspec.Struct, forbid_unknown_fields=True):
    """An entry: the place as ``file::scope``, the lines, and why no test can or need notice."""

    place: str
    before: str
    after: str
    reason: str


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    survivor: list[Survivor] = []


def read(file: Path = FILE) -> dict[Key, str]:
    """Return the reasons by the keys of mutations."""
    document = msgspec.convert(tomllib.loads(file.read_text()), _Document)
    return {(entry.place, entry.before, entry.after): entry.reason for entry in document.survivor}

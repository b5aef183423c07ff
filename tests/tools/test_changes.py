"""The notes of changes: a note that lies in the wrong place would be in no changelog."""

import tomllib
from collections import Counter

from tools.packaging.tree import CHECKOUT

CHANGES = CHECKOUT / "changes"
NO_NOTES = {"README.md", "template.md"}


def test_each_note_has_a_topic_a_type_and_a_number_of_its_own() -> None:
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["towncrier"]
    topics = {section["path"] for section in settings["section"]}
    types = {kind["directory"] for kind in settings["type"]}
    notes = [path.relative_to(CHANGES) for path in CHANGES.rglob("*") if path.is_file()]
    notes = [note for note in notes if str(note) not in NO_NOTES]
    for note in notes:
        topic, name = note.parts
        number, kind, suffix = name.split(".")
        assert topic in topics, note
        assert number.isdigit(), note
        assert kind in types, note
        assert suffix == "md", note
        assert (kind == "summary") == (topic == "release"), note
    numbers = Counter(note.name.split(".")[0] for note in notes)
    assert [number for number, count in numbers.items() if count > 1] == []

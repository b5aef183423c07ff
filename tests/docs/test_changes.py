"""The change notes are such that the next release can gather them."""

import re
import tomllib

from tests.docs import pages

from gantry import __version__

CHANGES = pages.CHECKOUT / "changes"
BESIDE = {"README.md", "template.md"}


def test_each_note_has_a_topic_a_known_type_a_number_of_its_own_and_a_text() -> None:
    config = tomllib.loads((pages.CHECKOUT / "pyproject.toml").read_text())["tool"]["towncrier"]
    topics = "|".join(section["path"] for section in config["section"])
    types = "|".join(kind["directory"] for kind in config["type"])
    notes = [path for path in CHANGES.rglob("*") if path.is_file() and path.name not in BESIDE]
    names = [str(note.relative_to(CHANGES)) for note in notes]
    # A note in another place, or with another name, would be in no changelog.
    wrong = [name for name in names if not re.fullmatch(rf"({topics})/\d{{3,}}\.({types})\.md", name)]
    assert not wrong, f"not TOPIC/NNN.TYPE.md with one of the topics {topics} and one of the types {types}: {wrong}"
    assert not [name for name in names if name.startswith("release/") != name.endswith(".summary.md")]
    numbers = [note.name.partition(".")[0] for note in notes]
    assert len(numbers) == len(set(numbers)), f"a number is used twice: {sorted(numbers)}"
    assert not [note.name for note in notes if not note.read_text().strip()]


def test_the_changelog_has_the_present_version_and_the_mark_where_the_next_one_goes() -> None:
    config = tomllib.loads((pages.CHECKOUT / "pyproject.toml").read_text())["tool"]["towncrier"]
    text = (pages.CHECKOUT / "CHANGELOG.md").read_text()
    assert text.count(config["start_string"]) == 1
    newest = re.search(r"^## (\S+) - \d{4}-\d\d-\d\d$", text, flags=re.MULTILINE)
    assert newest
    assert newest[1] == __version__

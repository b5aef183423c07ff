"""The language check finds idioms in texts and names that say nothing, and only those."""

from pathlib import Path

import pytest

from tools import language


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("Write it anew.", "anew"),
        ("The value is no number of a disk.", "is no number of"),
        ('f"{name!r} is no disk"', "} is no disk"),
        ("a list, be it none", "be it"),
        ("Return so many addresses.", "so many"),
        ("The node is told of the change.", "is told"),
        ("Tell whether a range matches.", "tell whether"),
        ("an address that is held by nobody", "by nobody"),
        ("Give back a lock.", "give back"),
        ("Do what it is asked.", "what it is asked"),
        ("QEMU has no word of its own for that.", "has no word of"),
        ("Take no notice of an error.", "take no notice"),
        ("what comes of it", "comes of"),
        ("a resting address", "resting"),
        ("A stream that is waited for.", "is waited for"),
        ("what is wanted", "is wanted"),
        ("A node promises the epoch once.", "promises the epoch"),
        ("The epoch was promised to n2.", "epoch was promised"),
        ("The journal's newest segment is lost.", "journal's newest segment"),
        ("Old segments of the journal are removed.", "segments of the journal"),
    ],
)
def test_an_idiom_is_reported_with_its_line(text: str, phrase: str) -> None:
    (finding,) = language.idioms(f"\n\n{text}\n")
    assert finding.line == 3
    assert finding.message.startswith(f"{phrase!r}: write ")


@pytest.mark.parametrize("gap", ["\n", "\n    # ", '"\n    f"', ' "\n    "'])
def test_an_idiom_that_continues_on_the_next_line_is_reported(gap: str) -> None:
    assert [finding.message.partition(":")[0] for finding in language.idioms(f"it was{gap}told")] == ["'was told'"]


@pytest.mark.parametrize(
    "text",
    [
        "There is no address of the node.",
        "there\n        is no address of the node",
        "'x' is no longer a disk",
        "the fail-over of an instance",
        "The master tells nodes.",
        "the interest rests on",
        "lib/promise says that epoch 3 was granted",
    ],
)
def test_plain_english_passes(text: str) -> None:
    assert not list(language.idioms(text))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def told(): ...", "function 'told'"),
        ("async def _given_back(): ...\nasync def _give_back(): ...", "function '_give_back'"),
        ("class Place: ...", "class 'Place'"),
        ("def count(one, *, size): ...", "argument 'one'"),
        ("lambda found: 0", "argument 'found'"),
        ("PATIENCE = 5", "constant 'PATIENCE'"),
        ("STOP_PATIENCE = 5", "constant 'STOP_PATIENCE'"),
        ("LONG_PAUSE = 5", "constant 'LONG_PAUSE'"),
        ("class Ports:\n    PAUSE = 5", "constant 'PAUSE'"),
        ("class DiskAnew: ...", "class 'DiskAnew'"),
        ("def count():\n    made = 1", "local 'made'"),
        ("def count():\n    left = 1", "local 'left'"),
        ("sizes = [one for one in range(3)]", "local 'one'"),
        ("class Sizes:\n    total = sum(one for one in range(3))", "local 'one'"),
        ("def count(value):\n    match value:\n        case [*others]: ...", "local 'others'"),
        ("def count(value):\n    match value:\n        case str() as given: ...", "local 'given'"),
        ("def count():\n    try: ...\n    except OSError as told: ...", "local 'told'"),
        ("held = 1", "module variable 'held'"),
    ],
)
def test_a_name_that_says_nothing_is_reported(source: str, message: str) -> None:
    (finding,) = language.names(source)
    assert finding.message.startswith(f"{message}: name the thing, ")
    assert finding.line == source.count("\n", 0, source.rindex(message.split("'")[1])) + 1 or "one for" in source


@pytest.mark.parametrize(
    "source",
    [
        "def pause(instance): ...",
        "def count():\n    left, right = 1, 2",
        "def count(values):\n    first, *rest = values",
        "def count(values):\n    match values:\n        case [first, *rest]: ...",
        "class Record:\n    held: int = 0",
        "INTEREST = PAUSED = 1",
        "def restore(placed): ...",
        "def count():\n    return told.one(found=1)",
    ],
)
def test_other_names_pass(source: str) -> None:
    assert not list(language.names(source))


def test_local_names_can_be_left_out() -> None:
    source = "def count(one):\n    found = 1"
    assert [finding.message.split(":")[0] for finding in language.names(source, local=False)] == ["argument 'one'"]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a finding in each of five files, one of them pending, one with pending local names."""
    for name, text in {
        "src/done.py": "# anew\n",
        "src/pending/code.py": "# anew\n",
        "src/names/code.py": "def count():\n    found = 1\n",
        "src/names/told.py": "",
        "changes/1.docs.md": "anew\n",
        "changes/picture.svg": "anew\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(language, "ROOT", tmp_path)
    monkeypatch.setattr(language, "PENDING", ("src/pending",))
    monkeypatch.setattr(language, "PENDING_LOCALS", ("src/names",))
    return tmp_path


def test_pages_and_code_are_checked_outside_of_what_is_pending(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert language.main([]) == 1
    output = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[0] for line in output] == ["changes/1.docs.md:1", "src/done.py:1", "src/names/told.py:1"]


def test_paths_that_are_named_are_checked_though_they_are_pending(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert language.main([str(checkout / "src/pending"), str(checkout / "src/names/code.py")]) == 1
    output = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[0] for line in output] == ["src/pending/code.py:1", "src/names/code.py:2"]


def test_a_checkout_without_findings_passes(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("changes/1.docs.md", "src/done.py"):
        (checkout / name).write_text("# again\n")
    (checkout / "src/names/told.py").unlink()
    assert language.main([]) == 0
    assert capsys.readouterr().err == ""


def test_a_path_that_is_not_there_is_an_error(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert language.main([str(checkout / "src/absent")]) == 2
    monkeypatch.setattr(language, "PENDING", ("src/former",))
    assert language.main([]) == 2
    assert "no such file or folder: src/former" in capsys.readouterr().err

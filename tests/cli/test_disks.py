"""What is typed of disks becomes these opcodes."""

import pytest

from gantry.cli import disks, failures, syntax


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("add:size=1g", ["add", -1, {"size": 1024}]),
        ("add:size=auto,access=r", ["add", -1, {"size": "auto", "mode": "r"}]),
        ("2:add,size=8,vg=fast", ["add", 2, {"size": 8, "vg": "fast"}]),
        ("remove", ["remove", -1, {}]),
        ("data:remove", ["remove", "data", {}]),
        ("2:access=r", ["modify", 2, {"mode": "r"}]),
        ("0:modify,mode=rw,-name", ["modify", 0, {"mode": "rw", "name": "none"}]),
    ],
)
def test_every_form_is_understood(text: str, change: list[object]) -> None:
    assert disks.change(text) == change


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0:modify,szie=3", "unknown szie"),
        ("0:modify", "there is nothing to modify"),
        ("remove:size=3", "nothing follows remove"),
        ("0", "it does not say which disk"),
        ("add:size=none", "is not a size"),
    ],
)
def test_what_is_not_understood_is_shown(text: str, said: str) -> None:
    with pytest.raises(failures.MalformedError, match=said):
        disks.change(text)


def test_what_follows_a_provider_is_the_providers_own() -> None:
    (disk,) = syntax.disks(["0:size=1g,provider=san,access=userspace,tier=gold,spindles=2"])
    assert disk == {
        "size": 1024,
        "provider": "san",
        "access": "userspace",
        "spindles": 2,
        "params": {"tier": "gold"},
    }


def test_a_misspelt_key_is_answered_with_the_nearest() -> None:
    with pytest.raises(failures.InvalidError) as raised:
        syntax.disks(["0:szie=1g"])
    assert raised.value.hint == "did you mean size?"

"""Errors of invalid opcodes, in the form that the user of a command reads."""

import pytest
from tests.cli.conftest import Gnt, Master

from gantry import errors
from gantry.cli.framework import refusals
from gantry.model import opcodes


def refused(**fields: object) -> str:
    with pytest.raises(errors.InvalidError) as caught:
        opcodes.decode(fields)
    return str(caught.value.luxi_pair()[1][0])


def label(field: str) -> str:
    return {
        "instance_name": "INSTANCE",
        "timeout": "--timeout",
        "nics": "--net",
        "reboot_type": "--type",
        "tags": "TAG",
    }.get(field, "")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "a b"},
            "INSTANCE: must be a name (letters, digits and _ . + : @ -, a letter or digit first)",
        ),
        (
            {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": ["good", "f\u00fcnf"]},
            "TAG 1: must be a tag (letters, digits and _ . + * / : @ -)",
        ),
        ({"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": ""}, "INSTANCE: must not be empty"),
        (
            {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "a" * 256},
            "INSTANCE: must have at most 255 characters",
        ),
        (
            {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "a", "timeout": 86401},
            "--timeout: must be at most 86400",
        ),
        ({"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "a", "timeout": "x"}, "--timeout: must be a whole number"),
        (
            {"OP_ID": "OP_INSTANCE_REBOOT", "instance_name": "a", "reboot_type": "warm"},
            "--type: 'warm' is not a valid value; valid values: soft, hard, full",
        ),
        (
            {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "a", "nics": [{"name": "n" * 256}]},
            "--net 0 name: must have at most 255 characters",
        ),
    ],
)
def test_a_wrong_field_is_named_by_its_option(fields: dict[str, object], text: str) -> None:
    message = refusals.text(refused(**fields), label)
    if fields["OP_ID"] == "OP_INSTANCE_REBOOT":
        assert message.startswith("--type: 'warm' is not a valid value; valid values: ")
        assert all(kind in message for kind in ("soft", "hard", "full"))
    else:
        assert message == text


def test_a_field_that_no_option_has_stays_in_the_words_of_the_master() -> None:
    message = refused(OP_ID="OP_INSTANCE_SHUTDOWN", instance_name="a", depends=7)
    assert refusals.text(message, label) == message


def test_a_command_shows_its_argument_when_the_master_refuses_a_name(gnt: Gnt, master: Master) -> None:
    ran = gnt("gnt-instance remove -f 'a b'")
    assert ran.code == 1
    assert "INSTANCE: must be a name" in ran.err
    assert "$." not in ran.err
    assert master.ops == []

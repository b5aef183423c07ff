"""The table of opcode fields, from which options are built, matches the structs; ``make golden`` rewrites it."""

import os

import msgspec

from gantry.cli.framework import opcode_fields
from gantry.model import opcodes
from tools import opcode_fields as generator


def test_the_table_of_the_commands_is_what_the_opcodes_declare() -> None:
    if os.environ.get("GOLDEN"):
        generator.TARGET.write_text(generator.text())
    assert generator.TARGET.read_text() == generator.text(), f"{generator.TARGET} is not up to date: make golden"


def test_every_opcode_is_in_the_table_with_its_bounds() -> None:
    assert opcode_fields.FIELDS.keys() == {str(opcode.__struct_config__.tag) for opcode in opcodes.ALL}
    timeout = opcode_fields.field("OP_INSTANCE_SHUTDOWN", "timeout")
    (declared,) = (f for f in msgspec.structs.fields(opcodes.InstanceShutdown) if f.name == "timeout")
    assert (timeout.kind, timeout.default, timeout.minimum, timeout.maximum) == ("number", declared.default, 0, 86400)
    assert set(opcode_fields.field("OP_INSTANCE_REBOOT", "reboot_type").choices) == {"soft", "hard", "full"}

"""What the door may know: nothing of how things are stored and given out."""

import ast
from pathlib import Path

import pytest

import gantry.doors.neutron as door

KNOWN = ("gantry", "gantry.doors", "gantry.rpc", "gantry.runtime")


@pytest.mark.promise("segments-30")
def test_the_door_stores_and_gives_out_nothing_itself() -> None:
    imported = {
        node.module
        for path in Path(door.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gantry")
    }
    assert imported
    assert {one for one in imported if not one.startswith("gantry.doors")} <= set(KNOWN)

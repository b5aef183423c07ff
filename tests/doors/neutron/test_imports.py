"""The Neutron front end imports nothing that stores or allocates."""

import ast
from pathlib import Path

import pytest

import gantry.doors.neutron as neutron

KNOWN = ("gantry", "gantry.doors", "gantry.rpc", "gantry.runtime")


@pytest.mark.promise("segments-30")
def test_the_front_end_imports_nothing_that_stores_or_allocates() -> None:
    imported = {
        node.module
        for path in Path(neutron.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gantry")
    }
    assert imported
    assert {name for name in imported if not name.startswith("gantry.doors")} <= set(KNOWN)

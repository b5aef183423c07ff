"""Designs that ask for tests of several levels have them: tests of each level carry marks of the design's promises."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent

SEGMENTS = {
    "unit": ("address/test_segments.py", "ipam/test_segments.py"),
    "functional": ("cluster/test_segments.py", "cluster/test_segment_attributes.py"),
    "API": ("doors/neutron",),
    "scenario": ("openstack/test_use_cases.py",),
}
IPAM = {
    "unit": ("ipam/sql",),
    "functional, through the interface": ("neutron/test_inside.py", "neutron/inside/interface.py"),
}


def _tests(location: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    path = HERE / location
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield node


def _asserts(test: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    calls = (node.func for node in ast.walk(test) if isinstance(node, ast.Call))
    expects = any(isinstance(call, ast.Attribute) and call.attr == "raises" for call in calls)
    return expects or any(isinstance(node, ast.Assert) for node in ast.walk(test))


@pytest.mark.parametrize(
    ("level", "locations"),
    [
        *(pytest.param(*level, marks=pytest.mark.promise("segments-91"), id=f"segments: {level[0]}")
          for level in SEGMENTS.items()),
        *(pytest.param(*level, marks=pytest.mark.promise("ipam-35"), id=f"ipam: {level[0]}")
          for level in IPAM.items()),
    ],
)  # fmt: skip
def test_each_level_that_a_design_asks_for_has_tests(level: str, locations: tuple[str, ...]) -> None:
    for location in locations:
        tests = list(_tests(location))

        assert any(map(_asserts, tests)), f"{level}: {location}"


@pytest.mark.promise("segments-91")
def test_tests_of_segments_above_the_units_carry_promises() -> None:
    for level in ("functional", "API", "scenario"):
        for location in SEGMENTS[level]:
            files = (HERE / location).rglob("*.py") if (HERE / location).is_dir() else [HERE / location]
            assert any('promise("segments-' in file.read_text() for file in files), location

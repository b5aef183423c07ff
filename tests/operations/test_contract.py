"""The import contract of the units names every module that has a unit."""

import inspect
import tomllib
from pathlib import Path

from gantry.daemons import units

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_every_module_with_a_unit_is_held_to_its_independence() -> None:
    contracts = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (entry for entry in contracts if entry["name"] == "7. Units are independent of each other")
    modules = {inspect.getmodule(unit) for unit in units.REGISTRY.values()}
    named = {
        module.__name__ for module in modules if module and not module.__name__.startswith("gantry.operations.query")
    }
    assert sorted(contract["modules"]) == sorted(named)

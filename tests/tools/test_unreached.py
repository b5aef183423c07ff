import subprocess
import sys
from pathlib import Path

import pytest

from tools import unreached


@pytest.mark.parametrize(
    "text",
    [
        "import gantry.kept",
        "from gantry import kept",
        "from gantry.kept import name",
        "def work():\n    from gantry import kept",
        "import importlib\nimportlib.import_module('gantry.kept')",
        "import importlib\ndef work(name):\n    return importlib.import_module(f'gantry.{name}')",
        "from gantry import between",
    ],
)
def test_a_module_is_reached_however_a_program_imports_it(tmp_path: Path, text: str) -> None:
    source = tmp_path / "gantry"
    source.mkdir()
    for name, content in {"__init__": "", "program": text, "between": "import gantry.kept", "kept": ""}.items():
        (source / f"{name}.py").write_text(content)
    assert "gantry.kept" not in unreached.unreached(unreached.modules(source), ["gantry.program"])


def test_modules_that_import_only_each_other_are_listed(tmp_path: Path) -> None:
    source = tmp_path / "gantry"
    (source / "dead").mkdir(parents=True)
    for name, content in {
        "__init__": "",
        "program": '"""It does not import gantry.first."""',
        "first": "from gantry import second",
        "second": "from gantry import first",
        "dead/__init__": "",
    }.items():
        (source / f"{name}.py").write_text(content)
    listed = unreached.unreached(unreached.modules(source), ["gantry.program"])
    assert listed == ["gantry.dead", "gantry.first", "gantry.second"]


def test_programs_are_all_entry_points(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[project.scripts]\na = "x.y:main"\n[project.entry-points.group]\nb = "x.z:Pool"\n')
    assert unreached.entry_points(project) == {"x.y", "x.z"}


def test_a_program_reaches_each_module_of_the_package() -> None:
    check = subprocess.run([sys.executable, "tools/unreached.py"], check=False, capture_output=True, text=True)
    assert (check.stderr, check.returncode) == ("", 0)

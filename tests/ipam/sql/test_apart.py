"""The drivers are in one place, and work where nothing else of Gantry is."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src/gantry"
PARTS = ("__init__.py", "errors.py", "option_parser.py", "address", "ipam/__init__.py", "ipam/sql", "ipam/neutron")
PROGRAM = """
from gantry.ipam.sql import driver, engines, requests, schema

database = engines.open_database("sqlite://{folder}/ipam.db")
schema.prepare(database)
ipam = driver.Driver(database, below=lambda _: 0)
ipam.add_subnet("s", cidr="192.0.2.0/29", pools=["192.0.2.2-192.0.2.4"])
print(ipam.allocate("s", requests.NextAddress()), ipam.allocate("s", requests.SpecificAddress("192.0.2.6")))
print(ipam.deallocate("s", "192.0.2.2"), ipam.allocate("s", requests.NextAddress()))
ipam.update_subnet("s", cidr="192.0.2.0/29", pools=["192.0.2.5-192.0.2.5"])
print(ipam.allocate("s", requests.NextAddress()), len(ipam.allocations("s")))
"""


def _copied(folder: Path) -> Path:
    """Copy the drivers, and what they are made of, out of the tree."""
    for part in PARTS:
        target = folder / "gantry" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if (SOURCE / part).is_dir():
            shutil.copytree(SOURCE / part, target)
        else:
            shutil.copy(SOURCE / part, target)
    return folder


@pytest.mark.promise("ipam-34")
def test_the_driver_works_outside_of_the_tree(tmp_path: Path) -> None:
    program = [sys.executable, "-P", "-c", PROGRAM.format(folder=tmp_path)]
    variables = {**os.environ, "PYTHONPATH": str(_copied(tmp_path))}
    done = subprocess.run(program, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.stdout.split("\n") == ["192.0.2.2 192.0.2.6", "True 192.0.2.2", "192.0.2.5 3", ""]


@pytest.mark.promise("ipam-34")
def test_the_program_for_the_tables_runs_outside_of_the_tree(tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": str(_copied(tmp_path))}
    url = f"sqlite://{tmp_path}/ipam.db"
    program = Path(sys.executable).with_name("gantry-ipam")
    for action, output in (("prepare", "tables"), ("prepare", "nothing to do"), ("check", "can be used by this")):
        done = subprocess.run([program, action, url], env=variables, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert output in done.stdout


@pytest.mark.promise("ipam-34")
def test_the_part_for_neutron_needs_nothing_of_gantry_outside_of_that_place(tmp_path: Path) -> None:
    root = _copied(tmp_path)
    modules = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__") for path in root.rglob("*.py")
    }
    needed = {
        f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in modules else node.module
        for path in (root / "gantry/ipam/neutron").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gantry")
        for alias in node.names
    }
    assert "gantry.ipam.sql.driver" in needed
    assert needed - modules == set()
    assert "gantry" not in needed

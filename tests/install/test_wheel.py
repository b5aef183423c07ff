"""The wheel in an empty environment: it has every command, and the data that the commands need."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.install import machines

from gantry.cli.framework import ganeti

pytestmark = pytest.mark.install

PROJECT = tomllib.loads((machines.CHECKOUT / "pyproject.toml").read_text())["project"]
DATA = (
    *("os/busybox/create", "os/debootstrap/create", "kubernetes/crd/ippools.yaml"),
    *("prometheus/gantry.rules.yml", "grafana/gantry.json"),
)
SQL = """
from importlib import resources
print(*sorted(path.name for path in resources.files("gantry.ipam.sql").iterdir() if path.name.endswith(".sql")))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, machines.CHECKOUT], check=True)
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    constraints = ["--constraint", str(machines.CHECKOUT / "requirements.lock")]
    subprocess.run(
        [*pip, "--python", str(environment), "install", *constraints, *map(str, folder.glob("*.whl"))], check=True
    )
    return environment


@pytest.mark.parametrize("program", PROJECT["scripts"])
def test_every_program_runs(environment: Path, program: str) -> None:
    ran = subprocess.run([environment / "bin" / program, "--version"], capture_output=True, text=True, check=False)
    if program in ganeti.PROGRAMS:  # it only says what serves instead
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ganeti.PROGRAMS[program] in ran.stderr
        return
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(program)


@pytest.mark.parametrize("file", DATA)
def test_the_data_is_there(environment: Path, file: str) -> None:
    assert (environment / "share/gantry" / file).read_text()


def test_the_tables_of_a_shared_database_are_there(environment: Path) -> None:
    ran = subprocess.run([environment / "bin/python", "-c", SQL], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["schema.sql", "statements.sql"]


def test_completions_are_made(environment: Path) -> None:
    command = [str(environment / "bin/python"), "-m", "gantry.cli.completion", "bash"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "complete -F _gantry gnt-cluster" in printed.stdout

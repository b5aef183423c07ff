"""Each file of the Debian packages belongs to one package, and each package holds what it names."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from gantry.node.daemon import package_files
from gantry.rpc.calls import protocol
from gantry.state.files import checkpoint
from tools.packaging import control, libraries, tree

ALL = control.owners()


def test_each_file_belongs_to_one_package() -> None:
    assert {path: names for path, names in ALL.items() if len(names) != 1} == {}


@pytest.mark.parametrize("package", [each.name for each in control.packages()])
def test_each_pattern_of_a_package_names_a_file(package: str) -> None:
    path = control.DEBIAN / f"{package}.install"
    patterns = path.read_text().split() if path.exists() else []
    contents = [file for file, names in ALL.items() if package in names]
    unused = [
        each
        for each in patterns
        if each != tree.LIBRARIES
        and not any(Path(file).match(each) or file.startswith(f"{each}/") for file in contents)
    ]
    assert unused == []


def test_the_client_needs_the_standard_library_alone(tmp_path: Path) -> None:
    tree.install(tmp_path, libraries=None, built=None)
    program = tmp_path / "usr/bin/gnt-instance"
    program.write_text(program.read_text().replace("['/usr/", f"['{tmp_path}/usr/"))
    ran = subprocess.run(["/usr/bin/python3", "-IS", program, "--version"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("gnt-instance")


def test_the_libraries_are_those_of_the_project_but_for_debians() -> None:
    names = {each.split(">")[0].split("[")[0] for each in libraries.requirements()}
    assert {"aiohttp", "cryptography", "psycopg", "python-pkcs11"} <= names
    assert "pyyaml" not in names
    depends = next(each.depends for each in control.packages() if each.name == "gantry-common")
    assert "python3-yaml" in depends


def test_the_packages_say_which_protocol_and_which_format_of_the_state_they_have() -> None:
    text = (control.DEBIAN / "control").read_text()
    assert f"\nXB-Gantry-Protocol: {protocol.OWN}\nXB-Gantry-State: {checkpoint.VERSION}\n" in text


def test_a_node_changes_all_packages_together() -> None:
    assert set(package_files.NAMES) == {each.name for each in control.packages()}


def test_the_build_has_each_library_of_the_documentation_and_the_console() -> None:
    extras = tomllib.loads((tree.CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rules = (tree.CHECKOUT / "debian/rules").read_text().split()
    names = {re.split("[<>=]", each)[0] for extra in ("docs", "console") for each in extras[extra]}
    assert names - set(rules) == set()

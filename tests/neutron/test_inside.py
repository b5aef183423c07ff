"""Tests that need Neutron's libraries but not a server: pytest runs them in Neutron's environment."""

from pathlib import Path

import pytest
from tests.neutron import server

pytestmark = server.NEEDS
OPTIONS = ["-q", "--noconftest", "-c", "/dev/null", "-p", "no:cacheprovider"]


def _run(name: str, folder: Path) -> str:
    neutron = server.Neutron(folder, database="")
    neutron.plug()
    return neutron.python("pytest", *OPTIONS, str(server.HERE / "inside" / name))


@pytest.mark.promise("ipam-1", "ipam-20", "ipam-23", "ipam-25", "ipam-30")
def test_the_driver_implements_neutrons_interface(tmp_path: Path) -> None:
    assert "11 passed" in _run("interface.py", tmp_path)


def test_changes_in_separate_tables_follow_neutrons_transaction(tmp_path: Path) -> None:
    assert "12 passed" in _run("sessions.py", tmp_path)

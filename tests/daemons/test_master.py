"""The master daemon as a program, and its units."""

import logging

import pytest

from gantry.daemons import master, units
from gantry.model import opcodes


def test_there_is_a_unit_for_every_opcode() -> None:
    assert set(units.REGISTRY) == set(opcodes.ALL)
    for opcode, unit in units.REGISTRY.items():
        assert unit.OPCODE is opcode


@pytest.mark.parametrize("action", [[], ["init"]])
def test_a_folder_that_cannot_be_made_is_said_in_one_line(
    action: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert master.main([*action, "--root", "/proc/nowhere"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("gantry-masterd: ")
    assert "/proc/nowhere" in lines[0]


def test_a_machine_without_a_cluster_has_no_master(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # pytest's own handlers are on the root logger already, and it is not for a test to add more.
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    assert master.main(["--root", str(tmp_path_factory.mktemp("root"))]) == 2
    assert "the key or certificate of the cluster's authority is missing" in capsys.readouterr().err

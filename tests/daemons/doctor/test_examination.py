"""The report of the doctor, its exit code, and gantry-node as a program."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.daemons.doctor.conftest import Examined

from gantry import errors
from gantry.daemons import node_program
from gantry.daemons.doctor import examination
from gantry.daemons.doctor.result import Level, Machine, Result

FINE = Result("kvm", Level.OK, "it exists")
SLOW = Result("clock", Level.WARNING, "not synchronized", "apt install chrony")
WRONG = Result("ports", Level.ERROR, "in use", "stop it")


def test_every_check_works_on_a_machine_with_nothing(machine: Examined) -> None:
    """Also without a cluster, files, programs, or a running daemon."""
    results = machine.world.run(examination.examine(Machine(machine.runtime, machine.folders)))
    assert not [result for result in results if "the check" in result.message]
    assert {result.name for result in results} >= {
        "host name",
        "programs",
        "kvm",
        "configuration",
        "permissions",
        "clock",
    }


def test_a_check_that_fails_is_a_result_and_the_others_run(machine: Examined) -> None:
    async def broken(machine: Machine) -> Sequence[Result]:
        raise PermissionError(13, "Permission denied", "/x")

    async def refused(machine: Machine) -> Sequence[Result]:
        raise errors.EnvironmentFaultError("no")

    async def fine(machine: Machine) -> Sequence[Result]:
        return [FINE]

    examined = Machine(machine.runtime, machine.folders)
    results = machine.world.run(examination.examine(examined, (broken, refused, fine)))
    assert [result.message for result in results] == [
        "the check 'broken' failed: [Errno 13] Permission denied: '/x'",
        "the check 'refused' failed: no",
        "it exists",
    ]


@pytest.mark.parametrize(("results", "code"), [([FINE], 0), ([FINE, SLOW], 0), ([SLOW, WRONG, FINE], 1)])
def test_only_an_error_changes_the_exit_code(results: Sequence[Result], code: int) -> None:
    assert examination.exit_code(results) == code


def test_the_report_has_each_remedy_below_its_fault() -> None:
    assert examination.as_text([WRONG, FINE]).splitlines() == [
        "error    ports: in use",
        "         -> stop it",
        "ok       kvm: it exists",
        "1 errors, 0 warnings, 1 checks are fine",
    ]


def test_json_has_the_same() -> None:
    assert json.loads(examination.as_json([WRONG])) == [
        {"name": "ports", "level": "error", "message": "in use", "remedy": "stop it"}
    ]


@pytest.mark.parametrize(("uid", "root"), [("0", True), ("1000", False)])
def test_it_knows_whether_it_runs_as_root(machine: Examined, uid: str, root: bool) -> None:
    machine.write("/proc/self/status", f"Name:\tpython3\nUid:\t1000\t{uid}\t0\t0\n")
    assert examination.is_root(Machine(machine.runtime, machine.folders)) == root


def test_gantry_node_check_prints_every_fault_of_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "etc").mkdir()
    assert node_program.main(["--check", "--root", str(tmp_path)]) == 0
    (tmp_path / "etc/node.toml").write_text("prot = 1\n")
    (tmp_path / "etc/kube.toml").write_text("[serve]\nport = 'a'\n")
    (tmp_path / "etc/other.toml").write_text("")
    assert node_program.main(["--check", "--root", str(tmp_path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.removeprefix(f"{tmp_path}/etc/").partition(": ")[0] for line in lines] == [
        "kube.toml:2",
        "node.toml:1",
        "other.toml",
    ]


def test_gantry_node_without_a_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        node_program.main([])
    assert "a command is missing" in capsys.readouterr().err

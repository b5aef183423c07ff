"""One kind of end has one exit code in every command; each code on the page occurs here."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Fault, Gnt, Master, table

from gantry.cli import client, errors

ENDS = [
    (0, "gnt-instance list --help"),
    (0, "gnt-cluster --version"),
    (0, "gnt-instance remove -f web1"),
    (0, "gnt-instance remove --dry-run web1"),
    (0, "gnt-instance remove -f --submit web1"),
    # The command line is wrong.
    (2, "gnt-instance"),
    (2, "gnt-instance frobnicate"),
    (2, "gnt-node powercycle node1"),
    (2, "gnt-storage diagnose"),
    (2, "gantry segment range"),
    (2, "gnt-instance remove"),
    (2, "gnt-instance remove web1 web2"),
    (2, "gnt-instance remove --frobnicate web1"),
    (2, "gnt-node add --force-join node2"),
    (2, "gnt-instance list --format xml"),
    (2, "gnt-instance list -o"),
    # A value is refused, here or by the master.
    (1, "gnt-instance grow-disk web1 0 many"),
    (1, "gnt-instance modify web1"),
    (1, "gnt-instance move -f web1"),
    (1, "gnt-backup export web1"),
    (1, "gnt-job info many"),
    (1, "gnt-cluster destroy"),
    # The job is refused or fails.
    (1, "gnt-instance rename web1 web2"),
    (1, "gnt-instance console web1"),
    (1, "gnt-cluster verify"),
    (1, "gnt-job watch 77"),
    # The user does not confirm.
    (13, "gnt-instance remove web1"),
    (13, "gnt-instance stop web1 web2"),
    (13, "gnt-instance reinstall web1"),
    (13, "gnt-instance migrate web1"),
    (13, "gnt-instance move -n node2 web1"),
    (13, "gnt-node evacuate node1"),
    (13, "gnt-node migrate node1"),
    (13, "gnt-backup export --remove-instance -n node2 web1"),
    (13, "gnt-job cancel --pending"),
    (14, "gnt-instance list -o nothing"),
    (14, "gnt-instance list-fields nothing"),
]


@pytest.mark.parametrize(("code", "line"), ENDS)
def test_one_kind_of_end_has_one_code(
    gnt: Gnt, master: Master, monkeypatch: pytest.MonkeyPatch, code: int, line: str
) -> None:
    monkeypatch.setattr("gantry.cli.output.terminal.TTY", "/nonexistent")
    unknown = table("nothing:nothing:unknown", rows=[])
    master.answers["Query"] = table("id:ID:number", rows=[[7]]) if line.startswith("gnt-job") else unknown
    master.answers["QueryFields"] = unknown
    master.results |= {
        "OP_CLUSTER_VERIFY": False,
        "OP_INSTANCE_CONSOLE": {"message": "there is no console"},
        "OP_INSTANCE_RENAME": Fault("OpPrereqError", "instance web2 exists", "already_exists"),
    }
    if line.startswith("gnt-job watch"):
        master.answers["WaitForJobChange"] = None
    assert gnt(line).code == code


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "line",
    [
        "gnt-instance remove -f web1",
        "gnt-instance stop --force-multiple web1 web2",
        "gnt-job watch 1",
        "gnt-job wait 1",
        "gnt-cluster verify",
        "gnt-node evacuate -f node1",
    ],
)
def test_ctrl_c_while_a_job_runs_ends_with_130(
    gnt: Gnt, master: Master, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr(client.Client, "wait_for_change", interrupted)
    ran = gnt(line)
    assert ran.code == 130
    assert "job 1 continues" in ran.err


@pytest.mark.parametrize("line", ["gnt-instance list", "gnt-cluster info", "gnt-instance remove -f web1"])
def test_ctrl_c_before_a_job_ends_with_130(gnt: Gnt, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setattr(client.Client, "call", interrupted)
    assert gnt(line).code == 130


@pytest.mark.parametrize(("master_name", "code"), [("", 5), ("node9.example", 11)])
@pytest.mark.parametrize("line", ["gnt-instance list", "gnt-node remove node2", "gantry history"])
def test_a_machine_without_the_master_ends_with_5_or_11(
    gnt: Gnt, root: Path, line: str, master_name: str, code: int
) -> None:
    (root / "lib/ssconf/ssconf_master_node").write_text(master_name)
    assert gnt(line).code == code


def test_a_reader_that_closes_the_pipe_ends_with_141(root: Path, master: Master) -> None:
    master.answers["Query"] = table("name:Instance:text", rows=[[f"web{number}"] for number in range(20000)])
    line = f"{sys.executable} -m gantry.cli.main gnt-instance list | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run([shutil.which("bash") or "bash", "-c", line], capture_output=True, check=False)
    assert done.returncode == 141


def test_each_code_on_the_page_occurs_and_no_other() -> None:
    occurring = {code for code, _ in ENDS} | {5, 11, 130, 141}
    assert errors.EXIT_CODES.keys() == occurring

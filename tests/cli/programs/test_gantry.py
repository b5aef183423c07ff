"""The commands of ``gantry``, against a master of a few lines."""

import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Fault, Gnt, Master

from gantry.cli import completion
from gantry.cli.programs import gantry


def event(serial: int, **more: Any) -> dict[str, Any]:
    change = {"kind": "instance", "key": "u-1", "name": "web1", "what": "added"}
    cause = {"job": 7, "opcode": "OP_INSTANCE_CREATE", "user": "gnt:user"}
    return {"serial": serial, "time": 1_700_000_000.0, "cause": cause, "changes": [change], **more}


def test_the_history_is_a_table_of_the_last_changes(gnt: Gnt, master: Master) -> None:
    master.answers["QueryHistory"] = {"events": [event(3), event(4, cause={}, changes=[]), event(5)], "serial": 5}
    ran = gnt("gantry history --limit 2 --kind instance --name web1 --since 3 --no-headers --separator '|'")
    assert master.requests == [("QueryHistory", ["instance", "web1", 3, None, 3])]
    first, second = ran.out.splitlines()
    assert first.split("|")[0] == "4"
    assert second.split("|")[2:] == ["7", "OP_INSTANCE_CREATE", "gnt:user", "-", "instance web1 added"]
    assert ran.err == "Only the last 2 changes are shown; --limit shows more\n"


@pytest.mark.parametrize("question", ["", "--since 3", "--since 2023-11-14T22:13:19+00:00"])
def test_the_history_says_where_the_journal_begins(gnt: Gnt, master: Master, question: str) -> None:
    since = {"serial": 4, "time": 1_700_000_000.0}
    master.answers["QueryHistory"] = {"events": [event(4)], "serial": 5, "since": since}
    assert gnt(f"gantry history {question}").err.startswith(
        "Earlier changes are not kept: the journal begins with serial 4, 2023-11-14 "
    )
    for covered in ("--since 4", "--since 2023-11-14T22:13:20+00:00"):
        assert gnt(f"gantry history {covered}").err == ""
    master.answers["QueryHistory"] = {"events": [event(1)], "serial": 5, "since": {"serial": 1, "time": 1.0}}
    assert gnt(f"gantry history {question}").err == ""


def test_since_is_a_serial_or_a_time(gnt: Gnt, master: Master) -> None:
    master.answers["QueryHistory"] = {"events": [], "serial": 5}
    gnt("gantry history --since 2026-05-04T13:00+00:00")
    assert master.requests[0][1][2:4] == [None, 1_777_899_600.0]
    assert gnt("gantry history --since yesterday").code == 1
    assert gnt("gantry history --limit 0").code == 1


def test_events_are_lines_of_json_up_to_now(gnt: Gnt, master: Master) -> None:
    parts = iter([[event(4), event(5)], [event(6)], []])
    master.answers["WaitForEvents"] = lambda *_: {"events": next(parts), "serial": 6}
    ran = gnt("gantry events --from 4")
    assert [json.loads(line) for line in ran.out.splitlines()] == [event(4), event(5), event(6)]
    assert [arguments for _, arguments in master.requests] == [[3, 1000, 0], [5, 1000, 0], [6, 1000, 0]]
    assert ran.err == ""


def test_events_that_are_no_longer_kept_are_reported(gnt: Gnt, master: Master) -> None:
    parts = iter([[event(8)], []])
    master.answers["WaitForEvents"] = lambda *_: {"events": next(parts), "serial": 8}
    assert gnt("gantry events --from 4").err == "events 4 to 7 are missing: this master no longer keeps them\n"


def test_a_stream_that_must_start_over_ends_with_the_reason(gnt: Gnt, master: Master) -> None:
    reason = "the events after serial 3 are not kept any more: the journal begins with serial 8"

    def answer(*_: object) -> object:
        raise Fault("PrunedError", reason)

    master.answers["WaitForEvents"] = answer
    ran = gnt("gantry events --follow --from 4")
    assert (ran.code, ran.out) == (1, "")
    assert reason in ran.err


def test_a_stream_goes_on_where_it_was_when_the_master_comes_back(
    gnt: Gnt, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gantry, "BACK_OFF_SECONDS", 0.01)
    away = ConnectionError()
    answers: list[object] = [[event(1)], away, away, [event(2)], Fault("OpExecError", "enough")]

    def answer(*_: object) -> object:
        events = answers.pop(0)
        if isinstance(events, Exception):
            raise events
        return {"events": events, "serial": 2}

    master.answers["WaitForEvents"] = answer
    ran = gnt("gantry events --follow")
    assert [json.loads(line)["serial"] for line in ran.out.splitlines()] == [1, 2]
    assert [arguments[0] for _, arguments in master.requests] == [0, 1, 1, 1, 2]
    assert "enough" in ran.err


def test_an_export_is_printed_or_written_to_a_file_of_its_owner(gnt: Gnt, master: Master, root: Path) -> None:
    master.answers["ExportConfig"] = {"cluster": {"name": "c.example"}}
    assert json.loads(gnt("gantry export-config").out) == {"cluster": {"name": "c.example"}}
    file = root / "export.json"
    ran = gnt(f"gantry export-config --output {file}")
    assert (ran.code, ran.out) == (0, "")
    assert json.loads(file.read_text()) == {"cluster": {"name": "c.example"}}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "No such file" in gnt(f"gantry export-config --output {root}/no/where").err


def test_the_doctor_is_a_program_of_its_own(gnt: Gnt, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []

    def run(words: list[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        called.append([words[0].rpartition("/")[2], *words[1:]])
        return subprocess.CompletedProcess(words, 1)

    monkeypatch.setattr(subprocess, "run", run)
    assert (gnt("gantry doctor").code, gnt("gantry doctor --json").code) == (1, 1)
    assert called == [["gantry-node", "doctor"], ["gantry-node", "doctor", "--json"]]


def test_without_the_doctor_s_package_the_error_names_it(gnt: Gnt, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(subprocess, "run", run)
    assert "install the package gantry-node" in gnt("gantry doctor").err


def test_a_simulation_runs_its_program_with_one_order_of_names(gnt: Gnt, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[list[str], object]] = []

    def run(words: list[str], *, env: dict[str, str], check: bool) -> subprocess.CompletedProcess[str]:
        called.append((words[1:], env["PYTHONHASHSEED"]))
        return subprocess.CompletedProcess(words, 1)

    monkeypatch.setattr(subprocess, "run", run)
    assert gnt("gantry simulate --seed 7").code == 1
    assert gnt("gantry simulate --seeds 0-99 --processes 3").code == 1
    assert called == [(["--seed", "7"], "0"), (["--seeds", "0-99", "--processes", "3"], "0")]
    assert "give either" in gnt("gantry simulate").err
    assert gnt("gantry simulate --seed 1 --seeds 1-2").code == 1


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_completion_of_a_shell_is_printed_or_installed(
    gnt: Gnt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shell: str
) -> None:
    script = completion.SHELLS[shell]() + "\n"
    assert gnt(f"gantry completion {shell}") == (0, script, "")
    path = tmp_path / "folder" / shell
    monkeypatch.setattr("gantry.cli.programs.gantry.FOLDERS", {shell: str(path)})
    ran = gnt(f"gantry completion --install {shell}")
    assert ran == (0, f"The completion of {shell} is in {path}; the next shell has it\n", "")
    assert path.read_text() == script


def test_a_completion_that_cannot_be_written_says_what_to_do(
    gnt: Gnt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setitem(gantry.FOLDERS, "bash", f"{tmp_path}/file/gnt")
    ran = gnt("gantry completion --install bash")
    assert (ran.code, ran.out) == (1, "")
    assert "run the command as root" in ran.err
    assert "'tcsh' is not a shell with completion; write bash, zsh, fish" in gnt("gantry completion tcsh").err

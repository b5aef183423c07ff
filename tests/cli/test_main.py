import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Fault, Gnt, Master, table

from gantry import __version__
from gantry.cli import client, errors, main

EMPTY = table("name:Instance:text", rows=[])


@pytest.mark.parametrize("program", main.PROGRAMS)
def test_every_program_tells_its_version_and_its_commands(gnt: Gnt, program: str) -> None:
    assert gnt(f"{program} --version") == (0, f"{program} (gantry) {__version__}\n", "")
    ran = gnt(f"{program} --help")
    assert ran.code == 0
    assert ran.out.startswith(f"Usage: {program} COMMAND")


@pytest.mark.parametrize("line", ["gnt-instance", "gnt-instance frobnicate"])
def test_no_or_an_unknown_command_shows_the_commands_and_fails(gnt: Gnt, line: str) -> None:
    ran = gnt(line)
    assert (ran.code, ran.out) == (2, "")
    assert "startup" in ran.err


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("gnt-instance strat web1", "there is no command 'strat'; did you mean start?"),
        ("gantry segment shw", "there is no command 'segment shw'; did you mean segment show?"),
        ("gantry segmnt range list", "there is no command 'segmnt'; did you mean segment range list?"),
        ("gantry segmnet list", "there is no command 'segmnet'; did you mean segment?"),
        ("gantry histroy", "there is no command 'histroy'; did you mean history?"),
        ("gnt-network list-feilds", "there is no command 'list-feilds'; did you mean list-fields?"),
        ("gnt-instance list --seperator=,", "unrecognized arguments: --seperator=,; did you mean --separator?"),
    ],
)
def test_a_word_that_is_nearly_right_is_named_in_one_line(gnt: Gnt, line: str, hint: str) -> None:
    ran = gnt(line)
    assert ran.code != 0
    assert ran.err.count("\n") == 1
    assert hint in ran.err


@pytest.mark.parametrize(
    "line", ["gnt-instance list --frobnicate", "gnt-instance reboot -t warm x", "gnt-instance add --net"]
)
def test_a_wrong_option_ends_with_2_in_one_line(gnt: Gnt, line: str) -> None:
    ran = gnt(line)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "--help" in ran.err


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("gnt-instance add", "Error: Command add expects INSTANCE, but got 0 arguments"),
        ("gnt-instance add a b", "Error: Command add expects INSTANCE, but got 2 arguments"),
        ("gnt-cluster info now", "Error: Command info expects no arguments, but got 1 argument"),
        ("gnt-network connect", "Error: Command connect expects NETWORK [GROUP...], but got 0 arguments"),
    ],
)
def test_a_wrong_number_of_arguments_ends_with_2(gnt: Gnt, line: str, complaint: str) -> None:
    ran = gnt(line)
    assert ran.code == 2
    assert ran.err.startswith(complaint)


def test_options_may_stand_on_both_sides_of_arguments(gnt: Gnt, master: Master) -> None:
    assert gnt("gnt-instance remove web1 -f --submit").code == 0
    assert master.ops[0]["instance_name"] == "web1"


def test_a_value_may_start_with_a_dash(gnt: Gnt, master: Master) -> None:
    assert gnt("gnt-instance start -B -memory,vcpus=2 --submit web1").code == 0
    assert master.ops[0]["beparams"] == {"memory": "default", "vcpus": "2"}


def test_names_behind_two_dashes_are_names(gnt: Gnt, master: Master) -> None:
    master.answers["Query"] = EMPTY
    assert gnt("gnt-instance list --no-headers -- -web --web").code == 0
    assert master.requests[0][1][2] == ["|", ["=", "name", "-web"], ["=", "name", "--web"]]


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (("OpExecError", "no room"), 1, "Failure: command execution error:\nno room\n"),
        (
            ("HooksAbort", [["node1", "10-check", "no"]]),
            1,
            "Failure: hooks execution failed:\n  node: node1, script: 10-check, output: no\n",
        ),
        (("ParameterError", "color"), 1, "Failure: unknown/wrong parameter name color\n"),
        (("TypeEnforcementError", "x is no int"), 1, "Parameter Error: x is no int\n"),
        (("ConfigurationError", "config.data is damaged"), 2, "Corrupt configuration file: config.data is damaged\n"),
        (("JobQueueFull", "5000 jobs"), 1, "Failure: JobQueueFull: 5000 jobs\n"),
    ],
)
def test_each_error_of_the_master_has_its_text_and_exit_code(
    gnt: Gnt, master: Master, error: tuple[str, object], code: int, text: str
) -> None:
    def refuse(*_: object) -> None:
        raise Fault(*error)

    master.answers["Query"] = refuse
    assert gnt("gnt-instance list") == (code, "", text)


def test_an_unexpected_error_is_one_line_and_with_d_the_place(gnt: Gnt, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise LookupError("surprise")

    monkeypatch.setattr(client.Client, "query", broken)
    ran = gnt("gnt-instance list")
    assert ran == (1, "", "internal error: LookupError: surprise; run the command with -d for the traceback\n")
    assert "Traceback" in gnt("gnt-instance list -d").err


def test_ctrl_c_before_a_job_is_known_is_one_line(gnt: Gnt, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(client.Client, "query", interrupted)
    ran = gnt("gnt-instance list")
    assert ran.code == 130
    assert ran.err.startswith("Aborted")


def test_a_variable_holds_what_a_user_always_wants(gnt: Gnt, master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    master.answers["Query"] = EMPTY
    monkeypatch.setenv("GNT_INSTANCE_LIST", "--no-headers -o 'name,status'")
    assert gnt("gnt-instance list").out == ""
    assert master.requests[0] == ("Query", ["instance", ["name", "status"], None])
    monkeypatch.setenv("GNT_INSTANCE_LIST", "'")
    assert gnt("gnt-instance list").code == 1
    assert gnt("gnt-instance list-fields --help").code == 0


@pytest.mark.parametrize(("term", "colour"), [("dumb", "1"), ("xterm", None)])
def test_a_dumb_terminal_gets_no_colours(
    gnt: Gnt, monkeypatch: pytest.MonkeyPatch, term: str, colour: str | None
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", term)
    assert gnt("gnt-network --version").code == 0
    assert os.environ.get("NO_COLOR") == colour


def started(words: list[str], root: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GANTRY_ROOT": str(root), "PYTHONPATH": "src"}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, check=False)


def test_the_module_runs_without_an_installation(root: Path, master: Master) -> None:
    master.answers["Query"] = table("name:Instance:text", rows=[["web1"]])
    done = started(["-m", "gantry.cli.main", "gnt-instance", "list"], root)
    assert (done.returncode, done.stdout) == (0, "Instance\nweb1\n")
    assert started(["-m", "gantry.cli.main", "gnt-nothing"], root).returncode == 1


def test_a_reader_that_closes_the_pipe_causes_no_error(root: Path, master: Master) -> None:
    master.answers["Query"] = table("name:Instance:text", rows=[[f"web{i}"] for i in range(20000)])
    line = f"{sys.executable} -m gantry.cli.main gnt-instance list | head -n 2"
    environment = {**os.environ, "GANTRY_ROOT": str(root), "PYTHONPATH": "src"}
    done = subprocess.run(line, shell=True, capture_output=True, text=True, env=environment, check=False)  # noqa: S602
    assert (done.stdout, done.stderr) == ("Instance\nweb0\n", "")


def test_a_list_imports_nothing_that_is_slow(root: Path, master: Master) -> None:
    master.answers["Query"] = EMPTY
    code = (
        "import sys; from gantry.cli import main; code = main.run('gnt-instance', ['list'])\n"
        "print(sorted(set(sys.modules) & {'asyncio', 'msgspec', 'dataclasses', 'inspect', 'subprocess', 'pathlib',"
        " 'gantry.errors', 'ssl', 'csv', 'shlex', 'typing_extensions', 'gantry.cli.programs.cluster'}))"
    )
    assert started(["-c", code], root).stdout.splitlines()[-1] == "[]"


def test_failures_are_one_line_with_a_hint() -> None:
    assert errors.CommandError("it broke", hint="fix it").text() == "Failure: it broke; fix it"

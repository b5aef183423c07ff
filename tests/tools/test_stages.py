"""A stage runs a command, and does not leave it behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster import lab

from tools import stages

STAGE = """
import os
import signal
from pathlib import Path
from tools.stages import Stage
signal.signal(signal.SIGINT, signal.SIG_IGN)
Stage(Path.cwd(), "long", ("sh", "-c", "trap 'echo interrupted; exit' INT; sleep 1000 & echo $!; wait")).run()
print("continued")
"""


def test_a_stage_ends_what_its_command_started_when_it_is_terminated(tmp_path: Path) -> None:
    log = tmp_path / "build/stages/long.log"
    with subprocess.Popen(
        [sys.executable, "-c", STAGE],
        cwd=tmp_path,
        env={"PYTHONPATH": str(stages.ROOT), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        lab.wait_until(lambda: log.exists() and log.read_text().endswith("\n"), "the begin of the command")
        program.send_signal(signal.SIGTERM)
        output, _ = program.communicate(timeout=lab.TIMEOUT)
    assert program.returncode == 128 + signal.SIGTERM
    assert "continued" not in output
    number, word = log.read_text().split()
    assert word == "interrupted"
    lab.wait_until(lambda: lab.is_gone(int(number)), "the end of what the command started")


def test_commands_run_at_the_same_time_and_each_has_its_line_and_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = stages.Stage(tmp_path, "reader", ("sh", "-c", "cat pipe; exit 3"))
    writer = stages.Stage(tmp_path, "writer", ("sh", "-c", "echo hello > pipe"))
    assert stages.run_together([reader, writer]) == [3, 0]
    lines = sorted(line.split() for line in capsys.readouterr().out.splitlines())
    assert lines == [["reader", "FAILED", "0:00", "hello"], ["writer", "passed", "0:00"]]

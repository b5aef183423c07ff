"""A stage runs a command, and does not leave it behind."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.cluster import lab

from tools import stages

STAGE = """
import signal
from pathlib import Path
from tools.stages import Stage
signal.signal(signal.SIGINT, signal.SIG_IGN)
Stage(Path.cwd(), "long", ("sh", "-c", "trap 'echo interrupted; exit' INT; sleep 1000 & echo $!; wait")).run()
print("went on")
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
    assert "went on" not in output
    number, word = log.read_text().split()
    assert word == "interrupted"
    lab.wait_until(lambda: lab.is_gone(int(number)), "the end of what the command started")

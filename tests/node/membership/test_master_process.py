"""Ending the master daemon of a node; ``tests/cluster`` ends real ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from gantry import errors
from gantry.node.membership import master_process
from gantry.runtime.real import RealRuntime

HOLD = """
import fcntl, os, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
file.write(str(os.getpid()))
file.flush()
print("held", flush=True)
time.sleep(60)
"""


def _holder(folder: Path, *words: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", HOLD, str(folder / "lock"), *words]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


async def test_without_a_daemon_there_is_nothing_to_end(tmp_path: Path) -> None:
    assert await master_process.stop(RealRuntime(), str(tmp_path), timeout_seconds=1) is False
    (tmp_path / "lock").write_text("1\n")
    assert await master_process.stop(RealRuntime(), str(tmp_path), timeout_seconds=1) is False


async def test_a_daemon_is_ended_and_its_end_awaited(tmp_path: Path) -> None:
    process = _holder(tmp_path, "gantry-masterd")
    assert await master_process.stop(RealRuntime(), str(tmp_path), timeout_seconds=5) is True
    assert process.wait(10) == -15


async def test_a_process_that_is_no_master_daemon_is_left_alone(tmp_path: Path) -> None:
    process = _holder(tmp_path)
    try:
        with pytest.raises(errors.EnvironmentFaultError, match=f"locked by process {process.pid}, which is not"):
            await master_process.stop(RealRuntime(), str(tmp_path), timeout_seconds=0.2)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()

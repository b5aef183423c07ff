import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import order_plugin

ROOT = Path(__file__).parents[2]


def test_the_slowest_files_come_first_and_all_other_tests_stay_in_their_order(tmp_path: Path) -> None:
    slow = order_plugin.SLOWEST[:2]
    for file in ("tests/a_test.py", *slow, "tests/z_test.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("def test_b(): pass\n\ndef test_a(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = *.py\naddopts = --import-mode=importlib\n")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "tools.order_plugin", "tests"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    files = [*slow, "tests/a_test.py", "tests/z_test.py"]
    expected = [f"{file}::{test}" for file in files for test in ("test_b", "test_a")]
    assert done.stdout.splitlines()[: len(expected)] == expected, done.stdout + done.stderr


@pytest.mark.parametrize("file", order_plugin.SLOWEST)
def test_each_of_the_slowest_files_exists(file: str) -> None:
    assert (ROOT / file).is_file()


def test_the_workers_take_the_files_in_the_order_of_collection() -> None:
    (command,) = [line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("PYTEST = ")]
    assert "--dist loadfile --no-loadscope-reorder" in command

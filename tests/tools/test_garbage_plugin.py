"""The pytest plugin that exempts what the collection of tests makes from the garbage collector."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

TEST = """
import gc

collected_here = [gc.isenabled()]

def test_the_collector_runs_again_and_passes_over_what_exists():
    assert collected_here == [False]
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000
"""


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_one.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tools.garbage_plugin", "test_one.py"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_what_a_collection_makes_is_exempted_and_tests_run_with_the_collector(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = run(tmp_path, TEST)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_collection_that_fails_turns_the_collector_on_again(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(
        "import gc\n\ndef pytest_sessionfinish():\n    print(f'the collector is on: {gc.isenabled()}')\n"
    )
    done = run(tmp_path, "raise ValueError\n")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "the collector is on: True" in done.stdout

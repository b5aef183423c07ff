"""The check for long files reports a long module without a reason, and a reason without a long module."""

import subprocess
import sys
from pathlib import Path

from tools import long_files


def write(folder: Path, name: str, *, lines: int) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("pass\n" * lines)


def test_a_module_with_too_many_lines_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "folder/long.py", lines=401)
    write(tmp_path, "folder/short.py", lines=400)
    (message,) = long_files.faults(tmp_path, {})
    assert message.startswith("folder/long.py has 401 lines: split it")


def test_a_module_with_a_reason_may_be_long(tmp_path: Path) -> None:
    write(tmp_path, "long.py", lines=401)
    assert not list(long_files.faults(tmp_path, {"long.py": "a table"}))


def test_a_reason_that_no_module_needs_any_more_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "short.py", lines=3)
    messages = list(long_files.faults(tmp_path, {"short.py": "a table", "gone.py": "a table"}))
    assert [message.partition(":")[0] for message in messages] == ["short.py has 3 lines", "gone.py has 0 lines"]


def test_no_module_is_longer_without_a_reason() -> None:
    check = subprocess.run([sys.executable, "tools/long_files.py"], check=False, capture_output=True, text=True)
    assert (check.stderr, check.returncode) == ("", 0)

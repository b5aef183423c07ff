"""What a run of the tests that was killed leaves behind, and who takes it away."""

import os
import subprocess
from pathlib import Path

import pytest
from tests import leftovers
from tests.node import samples

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not samples.HAS_NAMESPACES, reason="network namespaces need root and the ip command"),
]
KIND = "gz"


def dead() -> int:
    """Return the id of a process that is no more."""
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


@pytest.mark.parametrize("alive", [True, False])
def test_only_what_nobody_owns_any_more_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alive: bool) -> None:
    monkeypatch.setattr(leftovers, "FOLDERS", tmp_path)
    name = f"{KIND}{os.getpid() if alive else dead()}-{tmp_path.name[-6:]}"
    (tmp_path / name).mkdir()
    subprocess.run(["ip", "netns", "add", name], check=True)
    with subprocess.Popen(["ip", "netns", "exec", name, "sleep", "600"]) as process:
        try:
            leftovers.clear(KIND)
            assert (process.poll() is None, (tmp_path / name).exists()) == (alive, alive)
        finally:
            leftovers.end_space(name)
            process.kill()
    assert name not in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
